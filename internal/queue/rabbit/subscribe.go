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

// subscription is one consumer of one queue, on one AMQP channel at a time.
type subscription struct {
	broker   *Broker
	queue    string
	prefetch int
	out      chan *queue.Delivery
	supply   supply

	cancel    context.CancelFunc // ends the deliveries
	cancelled chan struct{}      // closed when out is closed
	end       context.CancelFunc // ends run
	done      chan struct{}      // closed when run has returned
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
	receiving, cancel := context.WithCancel(ctx)
	s := &subscription{
		broker: b, queue: name, prefetch: opts.Prefetch,
		out:    make(chan *queue.Delivery, opts.Prefetch),
		supply: supply{single: b.singleActive[name] || !b.ours[name]}, // lanes are not of the topology
		cancel: cancel, cancelled: make(chan struct{}),
		end: end, done: make(chan struct{}),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		end()
		return nil, fmt.Errorf("consume %q: %w", name, queue.ErrClosed)
	}
	b.subs[s] = struct{}{}
	go s.run(ctx, receiving) // Close waits for it
	return s, nil
}

// Deliveries is where deliveries arrive, in queue order.
func (s *subscription) Deliveries() <-chan *queue.Delivery { return s.out }

// Cancel ends the deliveries: see queue.Subscription. It returns when the
// broker has confirmed that, or does not answer. What was delivered and not yet
// read can still be read.
func (s *subscription) Cancel() error {
	s.cancel()
	<-s.cancelled
	return nil
}

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

// run consumes until receiving ends, on one session after another, and on the
// last one serves what it delivered until ctx ends.
func (s *subscription) run(ctx, receiving context.Context) {
	defer close(s.done)
	defer s.endDeliveries()
	for failures := 0; receiving.Err() == nil; {
		session, err := s.broker.consuming.session(receiving, nil)
		if err != nil {
			return // receiving ended
		}
		start := time.Now()
		err = s.serve(ctx, receiving, session)
		s.discard()
		if receiving.Err() != nil {
			return
		}
		if session.isLost() { // the link says so, and waits before the next one
			s.supply.reconnect()
			continue
		}
		switch {
		case errors.Is(err, errStarved):
			s.broker.cfg.Log.Warn("subscription made anew", "queue", s.queue, "err", err)
			continue
		case errors.Is(err, errIdle):
			s.broker.cfg.Log.Debug("subscription made anew", "queue", s.queue, "err", err)
			continue
		}
		if time.Since(start) > maxBackoff {
			failures = 0
		}
		failures++
		pause := pauseAfter(failures)
		s.broker.cfg.Log.Warn("subscription lost", "queue", s.queue, "retry_in", pause, "err", err)
		backoff.Sleep(receiving, pause)
	}
}

// endDeliveries closes out, once. Only run's goroutine calls it.
func (s *subscription) endDeliveries() {
	select {
	case <-s.cancelled:
	default:
		s.supply.starving.Store(false) // nothing is to come
		close(s.out)
		close(s.cancelled)
	}
}

// discard takes back what nobody has read: it is stale, and will be delivered
// again. Only run sends to out, so nothing comes in meanwhile.
func (s *subscription) discard() {
	for {
		select {
		case _, open := <-s.out:
			if !open {
				return
			}
		default:
			return
		}
	}
}

// serve consumes on one channel of one session until either ends. When
// receiving ends it cancels the consumer and keeps the channel, for what is to
// be settled, until ctx ends.
func (s *subscription) serve(ctx, receiving context.Context, session *session) error {
	ch, err := session.conn.Channel()
	if err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	c := newChannel(ch, session, s.prefetch, s.broker)
	defer func() {
		if errors.Is(c.close(ctx), errUnanswered) { // any other error: it is closed already
			s.broker.cfg.Log.Warn("queue is not left yet", "queue", s.queue, "err", errUnanswered)
		}
	}()
	closes := ch.NotifyClose(make(chan *amqp.Error, 1))
	cancels := ch.NotifyCancel(make(chan string, 1))
	if err := ch.Qos(s.prefetch, 0, false); err != nil {
		return fmt.Errorf("set prefetch: %w", err)
	}
	var in <-chan amqp.Delivery
	err = c.ask(receiving, func() (err error) {
		in, err = ch.Consume(s.queue, consumerTag, false, false, false, false, nil)
		return err
	})
	if is(err, amqp.NotFound) && s.broker.ours[s.queue] {
		s.broker.declareAgain(session, s.queue)
	}
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	if lost, err := s.receive(receiving, session, c, in); lost || err != nil {
		if err == nil {
			err = lossOfChannel(closes, cancels)
		}
		return err
	}
	if ctx.Err() != nil {
		return nil // closing the channel gives back what is still to come
	}
	if err := s.cancelConsumer(ctx, session, c, in); errors.Is(err, errUnanswered) { // what still comes goes back with the channel
		s.broker.cfg.Log.Warn("consumer is not cancelled yet", "queue", s.queue, "err", err)
	} else if err != nil {
		return err
	}
	s.endDeliveries()
	select {
	case <-ctx.Done():
		return nil
	case <-session.lost:
		return session.cause
	case err := <-closes:
		return lossOf(err)
	}
}

// receive passes deliveries on until receiving or the session has ended, or
// the consumer is lost.
func (s *subscription) receive(receiving context.Context, session *session, c *channel, in <-chan amqp.Delivery) (lost bool, err error) {
	tick := time.NewTicker(s.broker.cfg.SupplyTimeout / 2)
	defer tick.Stop()
	for {
		select {
		case d, ok := <-in:
			if !ok {
				return true, nil
			}
			s.supply.deliver()
			// There is a place for it: no more than the prefetch are unsettled.
			select {
			case s.out <- s.delivery(d, c):
			case <-session.lost:
				return true, session.cause
			}
		case <-tick.C:
			if err := s.checkSupply(receiving, session, c); err != nil {
				return true, err
			}
		case <-receiving.Done():
			return false, nil
		}
	}
}

// cancelConsumer has the broker stop delivering, and passes on what it
// delivered before.
func (s *subscription) cancelConsumer(ctx context.Context, session *session, c *channel, in <-chan amqp.Delivery) error {
	if err := c.askShort(ctx, func() error { return c.ch.Cancel(consumerTag, false) }); err != nil {
		return fmt.Errorf("cancel consumer: %w", err)
	}
	for d := range in {
		select {
		case s.out <- s.delivery(d, c):
		case <-session.lost:
			return session.cause
		}
	}
	return nil
}

func (s *subscription) delivery(d amqp.Delivery, c *channel) *queue.Delivery {
	c.held.Add(1)
	s.broker.metrics.deliveries[d.Redelivered].Inc()
	return queue.NewDelivery(s.broker, c, d.DeliveryTag, received(s.queue, d), d.Redelivered)
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

// received is what arrived from a queue, such that it can be published again: whoever put it
// on the queue may have known less of what chatclub's messages are like.
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
