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
	// ackRest is the pause of a channel between its last acknowledgement and its
	// close. RabbitMQ has 32 of them at a time on their way to a quorum queue,
	// keeps the others in the channel's process, and forgets those when the channel
	// closes: their messages are delivered again. Nothing tells when the queue has
	// them all; on an idle machine it takes some 5 ms for 300. A cancel of the
	// consumer would wait for them all, but then the next one may begin behind what
	// this one still holds.
	ackRest = 100 * time.Millisecond
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
	limit   int // acknowledgements that wait at most

	questions *sync.WaitGroup // the broker's, of what was asked and is not answered
	asked     chan struct{}   // closed when the last question is answered; of the one who asks

	// writing is held while frames are written, at most writeTimeout: the only
	// lock here that is held during I/O. An acknowledgement that followed our own
	// channel.close would name a channel that no longer exists, and RabbitMQ
	// would end the whole connection for it.
	writing sync.Mutex
	last    time.Time // when something was last settled

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

// giveBack gives all that is unsettled back, in order, before the channel of an outranked
// consumer is closed: see queue.Subscription. To one that is not outranked some of it would
// be delivered again at once, and come back behind the rest: so whoever outranks it has a
// moment to come to the broker. If more is delivered in that moment nobody outranks it yet:
// nothing is given back here, and the close returns all.
func (c *channel) giveBack(in <-chan amqp.Delivery) {
	select {
	case <-in:
		return
	case <-time.After(ackRest):
	case <-c.session.lost:
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.ch.Nack(0, true, true); err == nil { // 0: all
		c.last = time.Now()
	}
}

// pause waits, as long as there is a session.
func (c *channel) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.session.lost:
	}
}

// discardUnread takes away what has come already, as far as the library hands it out at once.
func discardUnread(in <-chan amqp.Delivery) {
	for {
		select {
		case _, ok := <-in:
			if !ok {
				return
			}
		default:
			return
		}
	}
}

// close writes the acknowledgements that wait, makes every delivery stale and
// gives what is unsettled back to the queue. It waits for closeTimeout at most,
// whether or not ctx has ended. A broker that does not answer takes it back
// later, at the latest when the session ends. That it does not answer here does
// not end the session: others are served by it, and the prober finds out
// whether it is dead.
func (c *channel) close(ctx context.Context, in <-chan amqp.Delivery, outranked bool) error {
	discardUnread(in)
	c.writing.Lock()
	c.mu.Lock() // nothing is added once it is closed
	c.closed.Store(true)
	c.mu.Unlock()
	c.flushWriting()
	c.writing.Unlock()
	if outranked {
		c.giveBack(in)
	}
	c.pause(ackRest - time.Since(c.last)) // nothing is settled any more
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return c.ask(ctx, c.ch.Close)
}
