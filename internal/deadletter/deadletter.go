// Package deadletter is an operator's view of the dead-letter queue: it lists,
// replays and purges dead letters. It guarantees:
//
//   - A letter that is only looked at stays on the queue, in its order unless the process
//     is killed meanwhile.
//   - A letter that is replayed leaves the queue when the broker has confirmed the
//     message that takes its place, not before.
//   - A tool that is killed loses nothing, and doubles the letters on their way: a batch.
//   - Memory does not grow with the queue.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// lookPrefetch is the prefetch of one subscription where all letters stay. With
	// 65,535, the most that AMQP can ask for, RabbitMQ is busy for two to seven seconds
	// before the first one comes.
	lookPrefetch = 20_000
	// takePrefetch is the same where letters are taken off. The broker delivers no
	// more before it has handled as many acknowledgements: at the end few are on
	// their way.
	takePrefetch = 1000
	// quiet is the time for the broker to deliver the letters that it counted as ready,
	// before it is asked whether they are still there.
	quiet = time.Second
	// drought is the time without a letter after which letters that are counted, but
	// not ready any more, count as missing: on a busy machine letters that the broker
	// had handed over came after more than a second.
	drought = 10 * time.Second
	// RabbitMQ answers for a queue whose leader is busy for a second as if the queue
	// were empty and had no consumer. Such an answer takes longer than promptly, and
	// is not believed but asked for again.
	promptly = 500 * time.Millisecond
	asks     = 10
	// poll is the period of asking the broker how many letters it has taken back.
	poll = 20 * time.Millisecond
	// noticeTime is the time for the broker to notice that another tool has ended.
	noticeTime = 2 * time.Second
	// patience bounds the wait for the broker to be there, and to confirm.
	patience = 30 * time.Second
)

var (
	// ErrInUse: somebody else looks at the queue. Two would see a part each.
	ErrInUse = errors.New("somebody else is at the dead-letter queue")
	// ErrLost: the connection was lost meanwhile, and the held letters are back on the
	// queue. To begin again is safe.
	ErrLost = errors.New("the connection to the broker was lost; begin again")

	// errEnough ends a walk early.
	errEnough = errors.New("enough")
)

// Queue is the dead-letter queue of a broker. All fields must be set.
type Queue struct {
	Broker queue.Broker
	Now    func() time.Time
}

// Counts are numbers of letters, by reason.
type Counts map[message.Reason]int

// Total is their sum.
func (c Counts) Total() (n int) {
	for _, k := range c {
		n += k
	}
	return n
}

// List calls show for every letter that the filter means, the oldest first.
func (q Queue) List(ctx context.Context, f Filter, show func(Letter) error) (Counts, error) {
	counts := make(Counts)
	err := q.walk(ctx, lookPrefetch, func(d *queue.Delivery) (bool, error) {
		l := Read(d, q.Broker.Topology())
		if !f.Match(l, q.Now()) {
			return false, nil
		}
		counts[l.Reason]++
		return false, show(l)
	}, nothing)
	return counts, err
}

// Count returns how many letters there are. It is false while somebody looks at them:
// then nobody can say.
func (q Queue) Count(ctx context.Context) (n int, ok bool, err error) {
	info, err := q.count(ctx, q.Broker.Topology().Dead())
	return info.Ready, err == nil && info.Consumers == 0, err
}

// Purge takes every letter off the queue that the filter means. The letters that it counts
// before an error are gone, too.
func (q Queue) Purge(ctx context.Context, f Filter) (Counts, error) {
	counts := make(Counts)
	err := q.walk(ctx, takePrefetch, func(d *queue.Delivery) (bool, error) {
		l := Read(d, q.Broker.Topology())
		if !f.Match(l, q.Now()) {
			return false, nil
		}
		if err := d.Ack(); err != nil {
			return false, ErrLost
		}
		counts[l.Reason]++
		return true, nil
	}, nothing)
	return counts, err
}

// walk calls visit for every letter that is on the queue when it begins, the
// oldest first. visit reports whether it takes the letter off. It has until the end
// of the next finish to do so, which is called when all letters were seen or no more can
// come before. The letters that it leaves go back in order.
func (q Queue) walk(ctx context.Context, prefetch int, visit func(*queue.Delivery) (taken bool, err error), finish func() error) error {
	ready, err := q.begin(ctx)
	if err != nil || ready == 0 {
		return err
	}
	w := walker{queue: q, prefetch: min(prefetch, ready), ready: ready}
	defer w.close(ctx)
	for w.seen < ready {
		if w.isFull() { // nothing comes before some of its letters are taken off
			if err := finish(); err != nil {
				return err
			}
		}
		d, err := w.next(ctx)
		if err != nil {
			return err
		}
		if d == nil {
			return errors.Join(w.missing(), finish())
		}
		taken, err := visit(d)
		if taken {
			w.take(d)
		} else {
			w.keep()
		}
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return finish()
}

// nothing is the last step of a walk that has none.
func nothing() error { return nil }

// missing is the error where fewer letters came than there were.
func (w *walker) missing() error {
	return fmt.Errorf("%d of %d dead letters came: a length limit has dropped the others meanwhile, or the broker is busy; begin again", w.seen, w.ready)
}

// begin returns how many letters there are, and ErrInUse if somebody is at them.
func (q Queue) begin(ctx context.Context) (ready int, err error) {
	for since := q.Now(); ; {
		info, err := q.count(ctx, q.Broker.Topology().Dead())
		switch {
		case err != nil:
			return 0, err
		case info.Consumers == 0:
			return info.Ready, nil
		case q.Now().Sub(since) >= noticeTime:
			return 0, ErrInUse
		case !backoff.Sleep(ctx, poll):
			return 0, context.Cause(ctx)
		}
	}
}

// errBusy is the error where no answer can be believed.
var errBusy = errors.New("the broker is too busy to count the dead letters")

// count is the state of the queue as it is.
func (q Queue) count(ctx context.Context, name string) (queue.Info, error) {
	for range asks {
		asked := q.Now()
		info, err := q.inspect(ctx, name)
		if err != nil || info != (queue.Info{}) || q.Now().Sub(asked) < promptly {
			return info, err
		}
	}
	return queue.Info{}, errBusy
}

// inspect says why nothing is found where the settings are wrong.
func (q Queue) inspect(ctx context.Context, name string) (queue.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	info, err := q.Broker.Inspect(ctx, name)
	if errors.Is(err, queue.ErrUnroutable) {
		return info, fmt.Errorf("there is no queue %q: QUEUE_PREFIX may be another", name)
	}
	return info, err
}

// walker reads the queue by as many subscriptions as it takes: a full subscription is
// followed by another. The zero value is not useful.
//
// A quorum queue keeps returned letters before all others, in the order in
// which they were returned. So letters that were looked at before, all of which were
// returned, stay in order only if all of them are held before any goes back:
// otherwise those go behind the others.
type walker struct {
	queue    Queue
	prefetch int // of the next subscription
	ready    int // how many letters there were

	subs      []*subscribed
	seen      int
	fresh     bool // the latest was never returned, so that none behind it was
	gathering bool // nothing more is taken off
}

// subscribed is one subscription and the letters that it holds.
type subscribed struct {
	queue.Subscription
	prefetch int
	left     int               // the least number that it holds for good
	taken    []*queue.Delivery // taken off, and perhaps still held
	first    *queue.Delivery   // nil: none yet
}

func (w *walker) last() *subscribed { return w.subs[len(w.subs)-1] }

// keep leaves the latest letter on the queue: it goes back with close.
func (w *walker) keep() { w.last().left++ }

// take notes that the latest letter is taken off, now or later.
func (w *walker) take(d *queue.Delivery) { w.last().taken = append(w.last().taken, d) }

// isFull reports whether the last subscription holds all that it may, and some of it
// only until it is taken off.
func (w *walker) isFull() bool {
	if len(w.subs) == 0 {
		return false
	}
	s := w.last()
	if s.left+len(s.taken) >= s.prefetch {
		s.taken = slices.DeleteFunc(s.taken, func(d *queue.Delivery) bool { return !d.Live() })
	}
	return len(s.taken) > 0 && s.left+len(s.taken) >= s.prefetch
}

// next returns the next letter, or nil when there is none any more.
func (w *walker) next(ctx context.Context) (*queue.Delivery, error) {
	dead := w.queue.Broker.Topology().Dead()
	if len(w.subs) == 0 || w.last().left == w.last().prefetch {
		sub, err := w.queue.Broker.Consume(dead, queue.ConsumeOptions{Prefetch: w.prefetch})
		if err != nil {
			return nil, fmt.Errorf("look at dead letters: %w", err)
		}
		w.subs = append(w.subs, &subscribed{Subscription: sub, prefetch: w.prefetch})
	}
	began := w.queue.Now()
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	for {
		select {
		case d, ok := <-w.last().Deliveries():
			if !ok || w.lost() {
				return nil, ErrLost
			}
			if w.last().first == nil {
				w.last().first = d
			}
			w.seen, w.fresh = w.seen+1, !d.Redelivered
			return d, nil
		case <-silence.C:
			if w.lost() {
				return nil, ErrLost
			}
			info, err := w.queue.inspect(ctx, dead)
			if err != nil {
				return nil, err
			}
			if info.Ready > 0 || info.Consumers == 0 { // the consumer is our own: the answer is not true
				began = w.queue.Now()
			}
			if w.queue.Now().Sub(began) >= drought {
				return nil, nil
			}
			if w.gathering && info.Ready > 0 { // it is full: it holds letters that could not be taken off, too
				w.last().left = w.last().prefetch
				return w.next(ctx)
			}
			silence.Reset(quiet)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lost reports whether the delivered letters are on the queue again: they would be
// seen twice.
func (w *walker) lost() bool {
	for _, s := range w.subs {
		if s.first != nil && s.first.Stale() {
			return true
		}
	}
	return false
}

// close gives the remaining letters back in order: those of the first subscription first.
func (w *walker) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	w.gather(ctx)
	w.fill(ctx)
	for i, s := range w.subs {
		last := i+1 == len(w.subs)
		w.giveBack(ctx, s, !last || s.left > 0) // the next tool is to find them all
	}
}

// giveBack closes a subscription, and waits until the broker has taken its letters back.
func (w *walker) giveBack(ctx context.Context, s *subscribed, wait bool) {
	before, err := w.queue.inspect(ctx, w.queue.Broker.Topology().Dead())
	_ = s.Close() // never fails
	if err == nil && wait {
		w.awaitReturn(ctx, s, before.Ready)
	}
}

// fill replaces a last subscription that has room by a full one. With room it
// would get letters that the others give back, and give them back behind its own.
func (w *walker) fill(ctx context.Context) {
	if len(w.subs) < 2 || w.lost() {
		return
	}
	dead := w.queue.Broker.Topology().Dead()
	if info, err := w.queue.inspect(ctx, dead); err != nil || info.Ready > 0 {
		return // it has no room, or would have these
	}
	s := w.last()
	s.left += w.ready - w.seen // it has the letters that nobody has read yet
	for _, d := range s.taken {
		if d.Live() {
			s.left++
		}
	}
	if s.left >= s.prefetch {
		return
	}
	w.subs = w.subs[:len(w.subs)-1]
	w.giveBack(ctx, s, s.left > 0)
	if s.left == 0 {
		return
	}
	sub, err := w.queue.Broker.Consume(dead, queue.ConsumeOptions{Prefetch: s.left})
	if err != nil {
		return // the broker is closed
	}
	w.subs = append(w.subs, &subscribed{Subscription: sub, prefetch: s.left, left: s.left})
	for range s.left { // they stand in front, and all other subscriptions are full
		select {
		case <-sub.Deliveries():
		case <-ctx.Done():
			return
		}
	}
}

// gather takes the rest of the letters that were returned before, where a walk ends
// early. The others stay behind all that goes back.
func (w *walker) gather(ctx context.Context) {
	if len(w.subs) == 0 || w.lost() {
		return
	}
	w.gathering, w.prefetch = true, lookPrefetch
	for w.seen < w.ready && !w.fresh {
		if d, err := w.next(ctx); d == nil || err != nil {
			return // they are gone, or go back in an order of the broker's
		}
		w.keep()
	}
}

// awaitReturn waits until the broker has taken back a subscription's letters: it does so
// in its own time. There were so many letters ready before. A subscription that left no
// letter may still hold some that could not be taken.
func (w *walker) awaitReturn(ctx context.Context, s *subscribed, before int) {
	if s.left == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, quiet)
		defer cancel()
	}
	for {
		now, err := w.queue.inspect(ctx, w.queue.Broker.Topology().Dead())
		if err != nil || now.Ready >= before+max(1, s.left) || !backoff.Sleep(ctx, poll) {
			return
		}
	}
}
