package rabbit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
)

// subscription is one consumer of one queue, on one AMQP channel at a time.
type subscription struct {
	broker   *Broker
	queue    string
	prefetch int
	out      chan *queue.Delivery

	cancel context.CancelFunc // ends run
	done   chan struct{}      // closed when run has returned
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
	ctx, cancel := context.WithCancel(context.Background())
	s := &subscription{
		broker: b, queue: name, prefetch: opts.Prefetch,
		out:    make(chan *queue.Delivery, opts.Prefetch),
		cancel: cancel, done: make(chan struct{}),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		cancel()
		return nil, fmt.Errorf("consume %q: %w", name, queue.ErrClosed)
	}
	b.subs[s] = struct{}{}
	go s.run(ctx) // Close waits for it
	return s, nil
}

// Deliveries is where deliveries arrive, in queue order.
func (s *subscription) Deliveries() <-chan *queue.Delivery { return s.out }

// Close ends the subscription: see queue.Subscription. It returns when the
// broker has taken back what was not settled, or does not answer.
func (s *subscription) Close() error {
	s.cancel()
	<-s.done
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	delete(s.broker.subs, s)
	return nil
}

func (s *subscription) run(ctx context.Context) {
	defer close(s.done)
	defer close(s.out)
	for failures := 0; ctx.Err() == nil; {
		session, err := s.broker.consuming.session(ctx, nil)
		if err != nil {
			return // ctx ended
		}
		start := time.Now()
		err = s.serve(ctx, session)
		s.discard()
		if ctx.Err() != nil {
			return
		}
		if session.isLost() { // the link says so, and waits before the next one
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

// discard takes back what was not read: it is stale, and will be delivered
// again. Only run sends to out, so nothing comes in meanwhile.
func (s *subscription) discard() {
	for {
		select {
		case <-s.out:
		default:
			return
		}
	}
}

// serve consumes on one channel of one session until either ends.
func (s *subscription) serve(ctx context.Context, session *session) error {
	ch, err := session.conn.Channel()
	if err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	c := newChannel(ch, session, s.prefetch, s.broker.metrics)
	defer c.close()
	closes := ch.NotifyClose(make(chan *amqp.Error, 1))
	cancels := ch.NotifyCancel(make(chan string, 1))
	if err := ch.Qos(s.prefetch, 0, false); err != nil {
		return fmt.Errorf("set prefetch: %w", err)
	}
	in, err := ch.Consume(s.queue, "", false, false, false, false, nil)
	if is(err, amqp.NotFound) {
		// Deleted under our feet: when it is ours, make it again.
		return errors.Join(fmt.Errorf("subscribe: %w", err), s.broker.declare(session))
	}
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	for {
		select {
		case d, ok := <-in:
			if !ok {
				return lossOfChannel(closes, cancels)
			}
			s.broker.metrics.deliveries.WithLabelValues(strconv.FormatBool(d.Redelivered)).Inc()
			select {
			case s.out <- queue.NewDelivery(s.broker, c, d.DeliveryTag, s.message(d), d.Redelivered):
			case <-ctx.Done():
				return nil
			case <-session.lost:
				return session.cause
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// lossOfChannel says why the deliveries ended.
func lossOfChannel(closes <-chan *amqp.Error, cancels <-chan string) error {
	select {
	case err := <-closes:
		return lossOf(err)
	case <-cancels:
		return errors.New("the broker cancelled the consumer: its queue was deleted or failed, or a delivery was held for too long")
	default:
		return errors.New("deliveries ended")
	}
}

// message returns what arrived, such that it can be published again. A program
// of others may have put it on the queue, with less than our messages have.
func (s *subscription) message(d amqp.Delivery) queue.Message {
	m := queue.Message{Queue: s.queue, ID: d.MessageId, Body: d.Body}
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
