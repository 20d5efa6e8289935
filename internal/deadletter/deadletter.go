// Package deadletter is an operator's view of the dead-letter queue: it lists,
// replays and purges dead letters. It guarantees:
//
//   - What is only looked at stays on the queue, in its order; of more than 20,000
//     letters only if the walk is not stopped midway.
//   - A letter that is replayed leaves the queue when the broker has confirmed the
//     message that takes its place, not before.
//   - Whoever is killed loses nothing, and doubles what was on its way: a batch.
//   - Memory does not grow with the queue.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// lookPrefetch is how many letters one subscription holds where all of them
	// stay. Those of one subscription go back in order even when the process is
	// killed; those of several when the walk ends by itself, and not always when it
	// is stopped midway. With 65,535, the most that AMQP can ask for, RabbitMQ 3.10 was busy for seconds
	// before the first one came.
	lookPrefetch = 20_000
	// takePrefetch is the same where letters are taken off. The broker delivers no
	// more before it has handled as many acknowledgements: at the end few are on
	// their way.
	takePrefetch = 1000
	// quiet is how long the broker may take to deliver what it counted as ready,
	// before it is asked whether that is still there.
	quiet = time.Second
	// RabbitMQ answers for a queue whose leader is busy for a second as if the queue
	// were empty and had no consumer. Such an answer takes longer than promptly, and
	// is not believed but asked for again.
	promptly = 500 * time.Millisecond
	asks     = 10
	// poll is how often the broker is asked what it has taken back.
	poll = 20 * time.Millisecond
	// patience is how long the broker may take to be there, and to confirm.
	patience = 30 * time.Second
)

var (
	// ErrInUse: somebody else looks at the queue. Two would see a part each.
	ErrInUse = errors.New("somebody else is at the dead-letter queue")
	// ErrLost: the connection was lost meanwhile, and what was left is back on the
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
	}, nil)
	return counts, err
}

// Purge takes every letter off the queue that the filter means. What it counts
// before an error is gone, too.
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
	}, nil)
	return counts, err
}

// walk calls visit for every letter that is on the queue when it begins, the
// oldest first. visit reports whether it takes the letter off. It has until the end
// of finish, which may be nil, to do so. What it leaves goes back in order.
func (q Queue) walk(ctx context.Context, prefetch int, visit func(*queue.Delivery) (taken bool, err error), finish func() error) error {
	dead := q.Broker.Topology().Dead()
	info, err := q.count(ctx, dead)
	switch {
	case err != nil:
		return err
	case info.Consumers > 0:
		return ErrInUse
	case info.Ready == 0:
		return nil
	}
	w := walker{queue: q, prefetch: min(prefetch, info.Ready)}
	defer w.close(ctx)
	for range info.Ready {
		d, err := w.next(ctx)
		if err != nil {
			return err
		}
		if d == nil {
			break
		}
		taken, err := visit(d)
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
		if !taken {
			w.left++
		}
	}
	if finish == nil {
		return nil
	}
	return finish()
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

// walker reads the queue by as many subscriptions as it takes: one that holds as
// many as it may is followed by another. The zero value is not useful.
type walker struct {
	queue    Queue
	prefetch int

	subs  []queue.Subscription
	first []*queue.Delivery // of each subscription
	left  int               // what the last subscription holds for good
}

// next returns the next letter, or nil when there is none any more: a length
// limit may have dropped what was counted.
func (w *walker) next(ctx context.Context) (*queue.Delivery, error) {
	if len(w.subs) == 0 || w.left == w.prefetch {
		sub, err := w.queue.Broker.Consume(w.queue.Broker.Topology().Dead(), queue.ConsumeOptions{Prefetch: w.prefetch})
		if err != nil {
			return nil, fmt.Errorf("look at dead letters: %w", err)
		}
		w.subs, w.left = append(w.subs, sub), 0
	}
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	for {
		select {
		case d, ok := <-w.subs[len(w.subs)-1].Deliveries():
			if !ok || w.lost() {
				return nil, ErrLost
			}
			if len(w.first) < len(w.subs) {
				w.first = append(w.first, d)
			}
			return d, nil
		case <-silence.C:
			if w.lost() {
				return nil, ErrLost
			}
			info, err := w.queue.inspect(ctx, w.queue.Broker.Topology().Dead())
			if err != nil || info.Ready == 0 && info.Consumers > 0 { // our own, so that the answer is true
				return nil, err
			}
			silence.Reset(quiet)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lost reports whether what was delivered is on the queue again: it would be
// seen twice.
func (w *walker) lost() bool {
	for _, d := range w.first {
		if d.Stale() {
			return true
		}
	}
	return false
}

// close gives back what was left. No subscription may get what another one
// returned, and the first returns first: so the order stays. All but the last hold
// as many as they may.
func (w *walker) close(ctx context.Context) {
	for _, s := range w.subs {
		_ = s.Cancel() // never fails in a way that matters: Close follows
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	dead := w.queue.Broker.Topology().Dead()
	info, err := w.queue.inspect(ctx, dead)
	for i, s := range w.subs {
		_ = s.Close()
		// The broker returns what a closed channel held in its own time.
		for back := info.Ready + (i+1)*w.prefetch; i+1 < len(w.subs) && err == nil; {
			var now queue.Info
			if now, err = w.queue.inspect(ctx, dead); now.Ready >= back || !backoff.Sleep(ctx, poll) {
				break
			}
		}
	}
}
