package rabbit

import (
	"fmt"
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
	exchange func(queue.Message) string
	ch       *amqp.Channel
	in       chan *chunk // unbuffered: what was sent is in the writer's hands
	began    time.Time

	sequence    uint64       // of the last message written; the goroutine's own
	unconfirmed atomic.Int64 // messages written or about to be, and not collected
	progress    atomic.Int64 // when a confirm last came, in ns since began

	returns  chan amqp.Return
	mu       sync.Mutex
	returned map[uint64]struct{} // sequence numbers that came back
}

// chunk is a group of messages on its way through one writer.
type chunk struct {
	items  []*item
	writer *writer
	at     time.Time     // when the writer took it
	sent   chan struct{} // closed when every item was written or failed
}

// item is one message of a call to Publish.
type item struct {
	queue.Message
	place    int                        // among the call's messages
	sequence uint64                     // on the session that has it
	confirm  *amqp.DeferredConfirmation // nil when it was not written
	returned bool                       // it is confirmed and came back
}

// isDecided reports whether nothing more will be heard of the item.
func (it *item) isDecided() bool {
	if it.confirm == nil {
		return false
	}
	select {
	case <-it.confirm.Done():
		return true
	default:
		return false
	}
}

// newWriter starts a writer on s for a window of so many places. It publishes
// each message to its exchange.
func newWriter(s *session, places int, exchange func(queue.Message) string) (*writer, error) {
	ch, err := s.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel to publish: %w", err)
	}
	if err := ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("ask for confirms: %w", err)
	}
	w := &writer{
		session: s, exchange: exchange, ch: ch, in: make(chan *chunk), began: time.Now(),
		returned: make(map[uint64]struct{}),
		// A message keeps its place in the window until its return was taken
		// from here, so there are never more than fit and the library's
		// reading goroutine never waits.
		returns: ch.NotifyReturn(make(chan amqp.Return, places)),
	}
	s.channelCloses = ch.NotifyClose(make(chan *amqp.Error, 1))
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
	defer close(c.sent)
	c.at = time.Now()
	if w.unconfirmed.Add(int64(len(c.items))) == int64(len(c.items)) {
		w.touch()
	}
	for _, it := range c.items { // a second try must not show the first one's outcome
		it.sequence, it.confirm, it.returned = 0, nil, false
	}
	if err := w.session.raw.together(func() error { return w.publish(c.items) }); err != nil {
		w.session.drop(fmt.Errorf("write messages: %w", err))
	}
}

// publish writes the items as far as the session serves.
func (w *writer) publish(items []*item) error {
	for _, it := range items {
		w.sequence++
		it.sequence = w.sequence
		confirm, err := w.ch.PublishWithDeferredConfirm(w.exchange(it.Message), it.Queue, true, false, amqp.Publishing{
			DeliveryMode:  amqp.Persistent,
			MessageId:     it.ID,
			CorrelationId: strconv.FormatUint(it.sequence, 10),
			Headers:       table(it.Headers),
			Body:          it.Body,
		})
		if err != nil {
			return err
		}
		it.confirm = confirm
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

// touch notes that the broker is not to blame up to now.
func (w *writer) touch() { w.progress.Store(int64(time.Since(w.began))) }

// stalled reports whether the broker owes confirms and has sent none for so long.
// One queue without a leader does not stall a session on which others move.
func (w *writer) stalled(timeout time.Duration) bool {
	return w.unconfirmed.Load() > 0 && time.Since(w.began)-time.Duration(w.progress.Load()) > timeout
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
		if _, ok := w.returned[it.sequence]; ok {
			delete(w.returned, it.sequence)
			it.returned = true
		}
		if it.returned {
			returned = append(returned, it)
		}
	}
	return returned
}
