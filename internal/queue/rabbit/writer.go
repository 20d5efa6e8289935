package rabbit

import (
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
)

// writer publishes on one session. Its goroutine alone uses the channel, so
// callers that wait for it can be freed by their contexts, which the library's
// own methods ignore while the socket is full.
type writer struct {
	session  *session
	topology queue.Topology
	ch       *amqp.Channel
	in       chan *chunk // unbuffered: what was sent is in the writer's hands

	sequence    uint64       // of the last message written; the goroutine's own
	unconfirmed atomic.Int64 // messages written or about to be, and not collected
	progress    *progress

	returns  chan amqp.Return
	mu       sync.Mutex
	returned map[uint64]struct{} // sequence numbers that came back
	adrift   map[identity]*item  // those whose callers are gone
	settled  []*item             // of them those that are confirmed, the oldest first
	places   int                 // most of these
}

// chunk is a group of messages on its way through one writer.
type chunk struct {
	items  []*item
	writer *writer
	at     time.Time     // when the writer took it
	sent   chan struct{} // closed when every item was written or failed

	decided int // items that were waited for; of the one who waits

	abandoned bool // its caller is gone; the writer's mu guards it
}

// item is one message of a call to Publish.
type item struct {
	queue.Message
	place   int      // among the call's messages
	written *written // on the session that has it; nil when it was not written
	shared  bool     // an earlier call wrote it
}

// written is a message on its way to the broker and back.
type written struct {
	sequence uint64
	confirm  *amqp.DeferredConfirmation
	returned bool // it is confirmed and came back; the writer's mu guards it
}

// identity is the same when a caller publishes a message again that it could not
// wait for. An equal message from elsewhere has a body of its own: it may be the
// first one, which came back from its queue and is to go there once more.
type identity struct {
	queue, id string
	delay     time.Duration
	body      *byte
}

// identity returns an item's; ok is false for one without a body, which has none.
func (it *item) identity() (id identity, ok bool) {
	if len(it.Body) == 0 {
		return identity{}, false
	}
	return identity{it.Queue, it.ID, it.Delay, &it.Body[0]}, true
}

// isDecided reports whether nothing more will be heard of the item.
func (it *item) isDecided() bool {
	if it.written == nil {
		return false
	}
	select {
	case <-it.written.confirm.Done():
		return true
	default:
		return false
	}
}

// newWriter starts a writer on s for a window of so many places.
func newWriter(s *session, places int, topology queue.Topology) (*writer, error) {
	ch, err := s.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel to publish: %w", err)
	}
	if err := ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("ask for confirms: %w", err)
	}
	w := &writer{
		session: s, topology: topology, ch: ch, places: places, in: make(chan *chunk), progress: newProgress(),
		returned: make(map[uint64]struct{}), adrift: make(map[identity]*item),
		// A message keeps its place in the window until its return was taken
		// from here, so there are never more than fit and the library's
		// reading goroutine never waits.
		returns: ch.NotifyReturn(make(chan amqp.Return, places)),
	}
	ch.NotifyClose(s.channelCloses)
	s.workers.Go(w.run)
	return w, nil
}

func (w *writer) run() {
	for {
		select {
		case c := <-w.in:
			w.write(c)
		case <-w.session.lost:
			return
		}
	}
}

func (w *writer) write(c *chunk) {
	c.at = time.Now()
	if w.unconfirmed.Add(int64(len(c.items))) == int64(len(c.items)) {
		w.progress.touch()
	}
	for _, it := range c.items { // a second try must not show the first one's outcome
		it.written, it.shared = nil, false
	}
	if err := w.session.raw.together(func() error { return w.publish(c.items) }); err != nil {
		w.session.drop(fmt.Errorf("write messages: %w", err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.abandoned {
		w.setAdriftLocked(c)
	}
	close(c.sent) // here, because who abandons it looks at that
}

// abandon notes that the caller of a chunk is gone. When it publishes the same
// again, what is on its way is not written again: a broker that is slow to
// confirm, or one queue that is, would get the same messages again and again.
func (w *writer) abandon(c *chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.abandoned = true
	select {
	case <-c.sent:
		w.setAdriftLocked(c)
	default: // the writer does so
	}
}

func (w *writer) setAdriftLocked(c *chunk) {
	for _, it := range c.items {
		if id, ok := it.identity(); ok && it.written != nil && !it.shared {
			w.adrift[id] = it
		}
	}
}

// decide notes what became of an abandoned chunk. What was refused or came back
// is to be written again. Of the others it is known for a while that they are
// queued, because their callers may be about to publish them again.
func (w *writer) decide(c *chunk, o outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range o.failed {
		w.forgetLocked(f.item)
	}
	w.settled = append(w.settled, c.items...)
	for len(w.settled) > w.places {
		w.forgetLocked(w.settled[0])
		w.settled[0] = nil
		w.settled = w.settled[1:]
	}
}

// told notes that a caller knows of its messages: what it publishes from now on
// is written.
func (w *writer) told(c *chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, it := range c.items {
		if id, ok := it.identity(); ok && it.shared {
			delete(w.adrift, id)
		}
	}
}

func (w *writer) forgetLocked(it *item) {
	if id, ok := it.identity(); ok && w.adrift[id] == it {
		delete(w.adrift, id)
	}
}

// share lets an item wait for the confirm of the same message, if that is on its
// way already, or was confirmed a moment ago.
func (w *writer) share(it *item) bool {
	id, ok := it.identity()
	if !ok {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.adrift[id]
	if first == nil || first.isDecided() && !first.written.confirm.Acked() || !maps.Equal(first.Headers, it.Headers) {
		return false
	}
	it.written, it.shared = first.written, true
	return true
}

// publish writes the items as far as the session serves.
func (w *writer) publish(items []*item) error {
	for _, it := range items {
		if w.share(it) {
			continue
		}
		w.sequence++
		exchange := "" // the default one, which routes to the queue that is named
		if it.Delay > 0 {
			exchange = w.topology.Retry(it.Delay)
		}
		confirm, err := w.ch.PublishWithDeferredConfirm(exchange, it.Queue, true, false, amqp.Publishing{
			DeliveryMode:  amqp.Persistent,
			MessageId:     it.ID,
			CorrelationId: strconv.FormatUint(w.sequence, 10),
			Headers:       table(it.Headers),
			Body:          it.Body,
		})
		if err != nil {
			return err
		}
		it.written = &written{sequence: w.sequence, confirm: confirm}
	}
	return nil
}

// table makes AMQP headers; nil where there are none.
func table(headers map[string]string) amqp.Table {
	if len(headers) == 0 {
		return nil
	}
	t := make(amqp.Table, len(headers))
	for k, v := range headers {
		t[k] = v
	}
	return t
}

// takeReturned returns those of the confirmed items that came back unroutable,
// as often as it is asked. The broker sends a return before its confirm, and
// the library queues the one before it completes the other, so nothing can come
// later.
func (w *writer) takeReturned(items []*item) []*item {
	w.mu.Lock()
	defer w.mu.Unlock()
	for more := true; more; {
		select {
		case r, ok := <-w.returns:
			if more = ok; !ok {
				break
			}
			if n, err := strconv.ParseUint(r.CorrelationId, 10, 64); err == nil {
				w.returned[n] = struct{}{}
			}
		default:
			more = false
		}
	}
	var returned []*item
	for _, it := range items {
		if _, ok := w.returned[it.written.sequence]; ok {
			delete(w.returned, it.written.sequence)
			it.written.returned = true
		}
		if it.written.returned {
			returned = append(returned, it)
		}
	}
	return returned
}
