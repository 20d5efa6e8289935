package rabbit

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
)

const (
	// ackDelay is how long an acknowledgement may wait for others to be written
	// with. Each in a system call of its own they were 5 % of a dispatcher's CPU
	// time. What could be delivered in place of a waiting one is far less than
	// any prefetch.
	ackDelay = time.Millisecond
	// maxAcks is how many wait at most: more in one write gain nothing.
	maxAcks = 64
	// ackRest is what a channel is left after its last acknowledgement before
	// it is closed. RabbitMQ (seen with 3.10) has 32 of them at a time on their
	// way to a quorum queue, and keeps the others in the channel's process. It
	// forgets those when the channel closes: their messages are delivered
	// again. Nothing shows when the queue has them all; on an idle machine it
	// takes some 5 ms for 300.
	ackRest = 100 * time.Millisecond
)

// channel is the AMQP channel of a subscription, and the queue.Settler of the
// deliveries that came on it. It is the one place that settles.
//
// Acknowledgements wait up to ackDelay and are written together, each for its
// own delivery. One for "all up to here" was tried, and costs no less. A channel that is closed in order writes them first. When the connection is
// lost before, their messages are delivered again, as those of acknowledgements
// are that were on their way.
type channel struct {
	ch      *amqp.Channel
	session *session
	metrics *metrics
	limit   int // acknowledgements that wait at most

	// turn is held while frames are written, at most writeTimeout: the only
	// lock here that is held during I/O. A settlement that followed our own
	// channel.close would name a channel that no longer exists, and RabbitMQ
	// would end the whole connection for it.
	turn sync.Mutex
	last time.Time // when something was last settled; guarded by turn

	closed atomic.Bool // set while turn is held

	mu      sync.Mutex
	waiting []uint64    // tags to acknowledge
	timer   *time.Timer // writes them
}

func newChannel(ch *amqp.Channel, s *session, prefetch int, m *metrics) *channel {
	c := &channel{
		ch: ch, session: s, metrics: m,
		// A quarter: while they wait the broker can deliver three quarters.
		limit: min(max(1, prefetch/4), maxAcks),
	}
	c.timer = time.AfterFunc(time.Hour, c.flush)
	c.timer.Stop()
	return c
}

// Ack acknowledges one delivery, within ackDelay. It does not wait for I/O.
func (c *channel) Ack(tag uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Live() {
		return c.stale(1, nil)
	}
	c.waiting = append(c.waiting, tag)
	switch len(c.waiting) {
	case c.limit:
		c.timer.Reset(0)
	case 1:
		c.timer.Reset(ackDelay)
	}
	return nil
}

// stale counts deliveries that could not be settled.
func (c *channel) stale(n int, cause error) error {
	c.metrics.stale.Add(float64(n))
	if cause != nil {
		return fmt.Errorf("ack: %w: %w", queue.ErrStale, cause)
	}
	return fmt.Errorf("ack: %w", queue.ErrStale)
}

// flush writes the acknowledgements that wait.
func (c *channel) flush() {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.flushTurn()
}

// flushTurn is flush for the holder of turn. What it cannot write is counted, and
// delivered again.
func (c *channel) flushTurn() {
	c.mu.Lock()
	tags := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	if len(tags) == 0 {
		return
	}
	err := c.session.raw.together(func() error {
		for _, tag := range tags {
			if err := c.ch.Ack(tag, false); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		_ = c.stale(len(tags), err)
		return
	}
	c.last = time.Now()
	c.metrics.settled.Add(float64(len(tags)))
}

// Live reports whether deliveries of this channel can still be settled.
func (c *channel) Live() bool { return !c.closed.Load() && !c.ch.IsClosed() }

// close writes the acknowledgements that wait, makes every delivery stale and
// gives what is unsettled back to the front of the queue. When the broker does
// not answer, the session is dropped, which does the same.
func (c *channel) close() {
	guard := time.AfterFunc(ackRest+closeTimeout, func() { c.session.drop(errors.New("closing a channel took too long")) })
	defer guard.Stop()
	c.turn.Lock()
	c.mu.Lock() // nothing is added once it is closed
	c.closed.Store(true)
	c.mu.Unlock()
	c.timer.Stop()
	c.flushTurn()
	rest := ackRest - time.Since(c.last)
	c.turn.Unlock()
	select {
	case <-time.After(rest):
	case <-c.session.lost:
	}
	_ = c.ch.Close() // closed already, or the session is lost: the same to us
}
