package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
)

const (
	// ackDelay is the longest wait of an acknowledgement for others to be written
	// with. Each in a system call of its own they were 5 % of a dispatcher's CPU
	// time. What could be delivered in place of a waiting one is far less than
	// any prefetch. All channels of a session are written at once, because of 64
	// partitions each has a message in a millisecond at most.
	ackDelay = time.Millisecond
	// maxAcks is the largest number of acknowledgements that wait: more in one write gain nothing.
	maxAcks = 64
)

// channel is the AMQP channel of a subscription, and the queue.Settler of the
// deliveries that came on it. It is the one place that settles.
//
// Acknowledgements wait up to ackDelay and are written together, each for its own
// delivery: one for "all up to here" was tried, and costs no less. A channel
// that is closed in order writes them first. When the connection is lost
// before, their messages are delivered again, as those of acknowledgements are
// that were on their way.
type channel struct {
	ch      *amqp.Channel
	session *session
	metrics *metrics
	limit   int          // acknowledgements that wait at most
	held    atomic.Int64 // deliveries that came and were not acknowledged

	questions *sync.WaitGroup // the broker's, of what was asked and is not answered
	asked     chan struct{}   // closed when the last question is answered; of the one who asks

	// in has the deliveries. The answer to the question that subscribes sets it, which may
	// come when the subscription is being closed already: later questions know it, too.
	in <-chan amqp.Delivery

	// writing is held while frames are written, at most writeTimeout: the only
	// lock here that is held during I/O. An acknowledgement that followed our own
	// channel.close would name a channel that no longer exists, and RabbitMQ
	// would end the whole connection for it.
	writing sync.Mutex
	last    time.Time // when something was last acknowledged

	closed atomic.Bool // set while writing and mu are held

	mu      sync.Mutex
	waiting []uint64 // tags to acknowledge
}

// acks has what waits on the channels of a session written together.
type acks struct {
	raw   *socket
	timer *time.Timer // flushes

	mu  sync.Mutex
	due []*channel // on which something waits
}

func newAcks(raw *socket) *acks {
	a := &acks{raw: raw}
	a.timer = time.AfterFunc(time.Hour, a.flush)
	a.timer.Stop()
	return a
}

// add has what waits on a channel written within ackDelay.
func (a *acks) add(c *channel) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.due = append(a.due, c); len(a.due) == 1 {
		a.timer.Reset(ackDelay)
	}
}

func (a *acks) flush() {
	a.mu.Lock()
	due := a.due
	a.due = nil
	a.mu.Unlock()
	_ = a.raw.together(func() error { // an error has ended the connection
		for _, c := range due {
			c.flush()
		}
		return nil
	})
}

func newChannel(ch *amqp.Channel, s *session, prefetch int, b *Broker) *channel {
	asked := make(chan struct{})
	close(asked)
	return &channel{
		ch: ch, session: s, metrics: b.metrics, questions: &b.calls, asked: asked,
		// A quarter: while they wait the broker can deliver three quarters.
		limit: min(max(1, prefetch/4), maxAcks),
	}
}

// Ack acknowledges one delivery, within ackDelay. It does not wait for I/O.
func (c *channel) Ack(tag uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Live() {
		c.metrics.stale.Inc()
		return fmt.Errorf("settle delivery: %w", queue.ErrStale)
	}
	c.waiting = append(c.waiting, tag)
	c.held.Add(-1)
	if len(c.waiting) == 1 {
		c.session.acks.add(c)
	}
	if len(c.waiting) == c.limit { // 1 where the prefetch is small
		c.session.acks.timer.Reset(0)
	}
	return nil
}

// flush writes the acknowledgements that wait.
func (c *channel) flush() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.flushWriting()
}

// flushWriting is flush for a caller that holds writing. What it cannot write
// is counted, and delivered again.
func (c *channel) flushWriting() {
	c.mu.Lock()
	waiting := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	err := c.session.raw.together(func() error {
		for _, tag := range waiting {
			if err := c.ch.Ack(tag, false); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.metrics.stale.Add(float64(len(waiting)))
		return
	}
	c.last = time.Now()
	c.metrics.acked.Add(float64(len(waiting)))
}

// Live reports whether deliveries of this channel can still be settled.
func (c *channel) Live() bool { return !c.closed.Load() && !c.ch.IsClosed() }

// errUnanswered says that the broker does not answer on a channel. While a queue has
// no leader it does so on the channels that use this queue, and on no others.
var errUnanswered = errors.New("the broker does not answer about this queue")

// ask asks the broker something, behind what was asked before, and waits for the
// answer until ctx ends. The question stays, and ends with the session at the latest.
// One goroutine asks.
func (c *channel) ask(ctx context.Context, question func() error) error {
	before, answered := c.asked, make(chan struct{})
	c.asked = answered
	var err error
	c.questions.Go(func() {
		defer close(answered)
		<-before
		err = question()
	})
	select {
	case <-answered:
		return err
	case <-ctx.Done():
		return errUnanswered
	}
}
