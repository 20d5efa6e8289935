package rabbit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
)

// consumerTag names the one consumer of a channel.
const consumerTag = "chatclub"

// mostUnread is the largest number of deliveries that wait for their reader here. The
// client's library keeps the others, of which there are no more than the prefetch.
const mostUnread = 64

// subscription is one consumer of one queue, on one AMQP channel at a time.
type subscription struct {
	broker *Broker
	queue  string
	opts   queue.ConsumeOptions
	out    chan *queue.Delivery
	next   int64 // of run alone: the offset of a stream's next message

	end  context.CancelFunc // ends run
	done chan struct{}      // closed when run has returned
}

// Consume subscribes to a queue: see queue.Broker. The subscription renews
// itself after every loss, and waits for a queue that does not exist.
func (b *Broker) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
	switch {
	case name == "" || len(name) > queue.MaxName:
		return nil, fmt.Errorf("consume: queue name has %d bytes, want 1 to %d", len(name), queue.MaxName)
	case opts.Prefetch < 1 || opts.Prefetch > math.MaxUint16: // basic.qos carries 16 bits
		return nil, fmt.Errorf("consume %q: prefetch %d must be 1 to %d", name, opts.Prefetch, math.MaxUint16)
	}
	ctx, end := context.WithCancel(context.Background())
	s := &subscription{
		broker: b, queue: name, opts: opts,
		out: make(chan *queue.Delivery, min(opts.Prefetch, mostUnread)),
		end: end, done: make(chan struct{}),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		end()
		return nil, fmt.Errorf("consume %q: %w", name, queue.ErrClosed)
	}
	b.subs[s] = struct{}{}
	go s.run(ctx) // Close waits for it
	return s, nil
}

// Deliveries returns the channel of the deliveries, in queue order.
func (s *subscription) Deliveries() <-chan *queue.Delivery { return s.out }

// Close ends the subscription: see queue.Subscription. It returns when the
// broker has taken back what was not settled, or does not answer.
func (s *subscription) Close() error {
	s.end()
	<-s.done
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	delete(s.broker.subs, s)
	return nil
}

// Sever is Close without the wait.
func (s *subscription) Sever() { s.end() }

// run consumes until ctx ends, on one session after another.
func (s *subscription) run(ctx context.Context) {
	defer close(s.done)
	defer close(s.out)
	for failures := 0; ; {
		session, err := s.broker.consuming.session(ctx, nil)
		if err != nil {
			return // ctx ended
		}
		start := time.Now()
		err = s.serve(ctx, session)
		s.discard()
		switch {
		case ctx.Err() != nil:
			return
		case session.isLost(): // the link says so, and waits before the next one
			continue
		}
		if time.Since(start) > maxBackoff {
			failures = 0
		}
		failures++
		pause := pauseAfter(failures)
		s.broker.cfg.Log.Warn("subscription lost", "queue", s.queue, "retry_in", pause, "err", err)
		backoff.Sleep(ctx, pause)
	}
}

// discard takes back what nobody has read: it is stale, and will be delivered
// again. Only run sends to out, so nothing comes in meanwhile. What came of a stream
// stays: it is delivered once.
func (s *subscription) discard() {
	if s.broker.specs[s.queue].Stream {
		return
	}
	for {
		select {
		case <-s.out:
		default:
			return
		}
	}
}

// serve consumes on one channel of one session until either or ctx ends. To
// close the channel gives back what is unsettled or still to come.
func (s *subscription) serve(ctx context.Context, session *session) error {
	ch, err := session.conn.Channel()
	if err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	c := newChannel(ch, session, s.opts.Prefetch, s.broker)
	defer func() {
		single := ctx.Err() != nil && s.broker.specs[s.queue].SingleActive            // not where the broker ended the consumer
		if errors.Is(c.close(ctx, s.queue, s.opts.Priority, single), errUnanswered) { // any other error: it is closed already
			s.broker.cfg.Log.Warn("queue is not left yet", "queue", s.queue, "err", errUnanswered)
		}
	}()
	closes := ch.NotifyClose(make(chan *amqp.Error, 1))
	cancels := ch.NotifyCancel(make(chan string, 1))
	if err := ch.Qos(s.opts.Prefetch, 0, false); err != nil {
		return fmt.Errorf("set prefetch: %w", err)
	}
	err = c.ask(ctx, func() (err error) {
		c.in, err = ch.Consume(s.queue, consumerTag, false, false, false, false, s.arguments())
		return err
	})
	if _, ours := s.broker.specs[s.queue]; ours && is(err, amqp.NotFound) {
		s.broker.declareAgain(session, s.queue)
		s.next = 0
	}
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	for {
		select {
		case d, ok := <-c.in:
			if !ok {
				return lossOfChannel(closes, cancels)
			}
			c.held.Add(1)
			select {
			case s.out <- s.delivery(d, c):
				if offset, ok := d.Headers[offsetHeader].(int64); ok {
					s.next = offset + 1
				}
			case <-session.lost:
				return session.cause
			case <-ctx.Done():
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// offsetHeader has the place of a message in its stream.
const offsetHeader = "x-stream-offset"

// arguments are those of the consumer. One of a stream begins at the first message, and
// after a loss behind the last that it has given to its reader.
func (s *subscription) arguments() amqp.Table {
	if s.broker.specs[s.queue].Stream {
		return amqp.Table{offsetHeader: s.next}
	}
	args := amqp.Table{"x-priority": int64(s.opts.Priority)}
	if s.broker.specs[s.queue].SingleActive { // RabbitMQ before 4.3 ignores it, and elects no consumer that is gone
		args["x-consumer-timeout"] = queue.MaxHeld.Milliseconds()
	}
	return args
}

func (s *subscription) delivery(d amqp.Delivery, c *channel) *queue.Delivery {
	s.broker.metrics.deliveries[d.Redelivered].Inc()
	return queue.NewDelivery(s.broker, c, d.DeliveryTag, received(s.queue, d), d.Redelivered)
}

// lossOfChannel says why the deliveries ended.
func lossOfChannel(closes <-chan *amqp.Error, cancels <-chan string) error {
	select { // first: a channel that is closed closes cancels, too
	case err := <-closes:
		return lossOf(err)
	default:
	}
	select {
	case <-cancels:
		return errors.New("the broker cancelled the consumer: its queue was deleted or failed, or a delivery was held for too long")
	default:
		return errors.New("deliveries ended")
	}
}

// received returns a delivery of a queue as a message that can be published again: whoever put
// it on the queue may have known less of the form of chatclub's messages.
func received(name string, d amqp.Delivery) queue.Message {
	m := queue.Message{Queue: name, ID: d.MessageId, Body: d.Body}
	if m.ID == "" {
		m.ID = digestID(d.Body)
	}
	size := 0
	for k, v := range d.Headers {
		text, ok := v.(string)
		if !ok || strings.HasPrefix(k, "x-first-death-") || strings.HasPrefix(k, "x-last-death-") {
			continue // the broker's own
		}
		if m.Headers == nil {
			m.Headers = make(map[string]string, len(d.Headers))
		}
		m.Headers[k] = text
		size += len(k) + len(text)
	}
	if size > queue.MaxHeaders {
		m.Headers = nil // ours are far shorter
	}
	return m
}

// digestID is the id of a message that has none: the same each time it comes.
func digestID(body []byte) string {
	digest := sha256.Sum256(body)
	return "digest/" + hex.EncodeToString(digest[:16]) // 128 bits: no two meet
}
