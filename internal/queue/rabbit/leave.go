package rabbit

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// ackRest is the pause of a channel between its last acknowledgement and its
	// close. RabbitMQ has 32 of them at a time on their way to a quorum queue,
	// keeps the others in the channel's process, and forgets those when the channel
	// closes: their messages are delivered again. Nothing tells when the queue has
	// them all; on an idle machine it takes some 5 ms for 300. A cancel waits for them,
	// but then the next consumer may begin behind what this one still holds.
	ackRest = 100 * time.Millisecond
	// heirTag names the consumer that takes what would come to a leaving one.
	heirTag = consumerTag + ".heir"
	// keeperTag names the consumer that takes what a leaving one gives back.
	keeperTag = consumerTag + ".leaving"
	// keeperPriority is above every other. Any integer is allowed.
	keeperPriority = int64(1) << 62
	// keepTime is the longest wait for what was given back to reach the keeper. It takes a
	// round trip, of a starved broker more. It is below closeTimeout.
	keepTime = 1800 * time.Millisecond
	// handTime is the time for a delivery to pass from the socket to the library's reader, on a
	// busy machine, too.
	handTime = 20 * time.Millisecond
)

// close writes the acknowledgements that wait, makes every delivery stale and
// gives what is unsettled back to the queue. It waits for closeTimeout at most,
// whether or not ctx has ended. A broker that does not answer takes it back
// later, at the latest when the session ends. That it does not answer here does
// not end the session: others are served by it, and the prober finds out
// whether it is dead. single says that the queue has a single active consumer, which
// may be this one.
func (c *channel) close(ctx context.Context, name string, priority int, single bool) error {
	c.writing.Lock()
	c.mu.Lock() // nothing is added once it is closed
	c.closed.Store(true)
	c.mu.Unlock()
	c.flushWriting()
	c.writing.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return c.ask(ctx, func() error {
		if !c.session.isLost() {
			if single {
				c.leave(name, priority)
			} else {
				c.pause(ackRest - time.Since(c.last))
			}
		}
		return c.ch.Close()
	})
}

// leave has the consumer of a single-active queue end holding nothing, in a way that
// keeps the queue's order.
//
// RabbitMQ 4.3 elects a consumer again that has ended, and then delivers to nobody, if that
// consumer held something and a higher priority had come meanwhile. So what is held goes back
// before the end. Given back alone, it would be delivered to this consumer again, and
// mix with what was on its way. So a second consumer, the keeper, outranks all others before:
// the queue delivers nothing more to this one, hands all to the keeper once this one holds
// nothing, and the close of the channel returns that in order. Nobody outranks a keeper.
// The cancel's answer says that the queue has all acknowledgements and returns. Without it
// RabbitMQ 4.0 elects nobody.
//
// A consumer that holds nothing may not be the active one. A keeper would stop the one that
// is. So a second consumer, the heir, subscribes with the next higher priority. Where this one
// is active the heir is now, and else nobody notices. What comes until the close comes to the
// heir, and the close returns it in order. Were this one cancelled without an heir, the next
// one would begin behind what had come to this one just before.
func (c *channel) leave(name string, priority int) {
	c.drop(c.in)
	if c.held.Load() == 0 {
		heir, err := c.consume(name, heirTag, int64(priority)+1)
		if err != nil {
			return
		}
		// This answer comes behind what the queue had sent before there was an heir.
		if _, err := c.ch.QueueDeclarePassive(name, true, false, false, false, nil); err != nil {
			return
		}
		c.pause(handTime)
		c.drop(c.in)
		c.drop(heir)
	}
	if c.held.Load() == 0 {
		_ = c.ch.Cancel(consumerTag, false) // the close does the rest of what this did not
		return
	}
	kept, err := c.consume(name, keeperTag, keeperPriority)
	if err != nil || c.ch.Nack(0, true, true) != nil || c.ch.Cancel(consumerTag, false) != nil { // 0: all
		return // the channel is closed
	}
	select {
	case <-kept:
	case <-time.After(keepTime):
	case <-c.session.lost:
	}
}

// consume subscribes to a queue once more.
func (c *channel) consume(name, tag string, priority int64) (<-chan amqp.Delivery, error) {
	return c.ch.Consume(name, tag, false, false, false, false, amqp.Table{"x-priority": priority})
}

// pause waits, as long as there is a session.
func (c *channel) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.session.lost:
	}
}

// drop takes away and counts what has come already, as far as the library hands it out at
// once.
func (c *channel) drop(in <-chan amqp.Delivery) {
	for {
		select {
		case _, ok := <-in:
			if !ok {
				return
			}
			c.held.Add(1)
		default:
			return
		}
	}
}
