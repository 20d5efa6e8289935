// Package queue is the small part of a message broker that chatclub needs:
// publish with confirmation, consume with prefetch, settle each delivery
// exactly once. Packages rabbit and memory implement it; package queuetest is
// the suite of tests that both pass, and so the contract in executable form.
//
// Delivery is at least once. A message that Publish confirmed stays in the
// broker until a consumer acknowledges it; a delivery whose consumer ends
// without settling it is delivered again.
package queue

import (
	"context"
	"errors"
	"time"
)

// The errors that callers tell apart. Implementations wrap them.
var (
	// ErrUnavailable: the broker did not confirm before the context ended. The
	// messages may or may not be queued; publish them again under the same ids.
	ErrUnavailable = errors.New("broker unavailable")
	// ErrUnroutable: no queue of that name exists. The message went nowhere.
	ErrUnroutable = errors.New("unroutable")
	// ErrRefused: the queue does not take the message now, because of a limit that
	// an operator has set or for want of a leader. The message went nowhere.
	ErrRefused = errors.New("refused by the queue")
	// ErrInvalid: no broker could take the message, now or later. Publishing it
	// again fails the same way.
	ErrInvalid = errors.New("invalid message")
	// ErrStale: the delivery's connection is gone and its message has been, or
	// will be, delivered again. Settling it did nothing.
	ErrStale = errors.New("stale delivery")
	// ErrSettled: the delivery was settled before. Settling it again did nothing.
	ErrSettled = errors.New("delivery already settled")
	// ErrClosed: the broker or subscription was closed by its owner.
	ErrClosed = errors.New("closed")
)

// Message is a queue's message. The zero value is not useful: Queue and ID must be set.
type Message struct {
	Queue   string            // name of the queue it goes to or came from
	ID      string            // identifies the message in logs, returns and across republishing
	Body    []byte            // not changed after it was given to Publish
	Headers map[string]string // nil where there are none
	// Delay, one of Delays, keeps the message back for so long. Only queues of
	// the topology take delayed messages. They are as safe as on Queue, and
	// messages of one delay arrive in the order in which they were published.
	Delay time.Duration
}

// Publisher publishes durable messages.
type Publisher interface {
	// Publish returns nil only when the broker has confirmed every message. It
	// waits for a lost or blocked broker until ctx ends, then returns
	// ErrUnavailable; some of msgs may be queued then. A message for a queue
	// that does not exist makes it return ErrUnroutable; the others of the same
	// call are queued. So with ErrRefused, which a later call may not get. A
	// *PublishError tells which are known to be queued. One that no
	// broker could take makes it return ErrInvalid, and none is queued. Safe for
	// concurrent use.
	Publish(ctx context.Context, msgs ...Message) error
}

// Broker is a connection to a message broker with chatclub's topology
// declared. All methods are safe for concurrent use.
type Broker interface {
	Publisher
	// Consume subscribes to a queue. It returns at once; deliveries follow as
	// soon as the broker is there, and again after every reconnect. Of a stream they
	// are all messages, once each, in order, beside other consumers: the first
	// comes first. To acknowledge them makes room for more, and takes nothing off.
	Consume(queue string, opts ConsumeOptions) (Subscription, error)
	// Inspect asks the broker for the state of a queue.
	Inspect(ctx context.Context, queue string) (Info, error)
	// Topology is the set of queues this broker declared.
	Topology() Topology
	// Ready returns nil while messages can be published and consumed,
	// otherwise why not.
	Ready() error
	// IsSilent reports that the broker has not answered for longer than it
	// usually takes, on the connection that brings deliveries. Work on
	// a delivery now may be done again, because settling it may have no effect.
	IsSilent() bool
	// Close ends all subscriptions and the connection. Unsettled messages are
	// delivered again to others.
	Close() error
}

// MaxHeld is the time after which a broker may take back a delivery that is not settled,
// and end its consumer. It is the longest time for which a partition stands whose consumer
// was killed in a way that RabbitMQ 4.3 does not see: see package rabbit.
const MaxHeld = 20 * time.Minute

// ConsumeOptions says how to consume. The zero value is not useful: Prefetch
// must be set.
type ConsumeOptions struct {
	Prefetch int // the most unsettled deliveries at a time; at least 1
	// Priority elects the active consumer of a single-active queue: the highest, and
	// any among equals. When a higher one comes, the broker stops
	// deliveries to the active one at once and tells it nothing. The higher one is
	// active once that holds nothing. If the higher one ends before, the old one
	// still gets nothing until it holds nothing; so it is where a waiting consumer of its
	// own priority is closed. On other queues the consumers with the highest priority are
	// served first, as long as they have room.
	Priority int
}

// Subscription is one consumer of one queue.
type Subscription interface {
	// Deliveries returns the channel of the deliveries, in queue order. It is closed by
	// Close and by the broker's Close, never by a lost connection.
	Deliveries() <-chan *Delivery
	// Close ends the subscription. Every delivery not settled by now becomes
	// stale, and its message returns to its queue: before all that was never
	// delivered, and in the order in which this subscription was given them, as long as
	// all consumers of the queue have the same prefetch. To lose no work settle the
	// deliveries in hand first. The consumer ends holding nothing, also where a higher priority waits for
	// that: it is never elected again. Idempotent.
	Close() error
}

// Info is the state of a queue as the broker tells it.
type Info struct {
	Ready     int // messages waiting for a consumer
	Consumers int // subscriptions; on a single-active queue of RabbitMQ only the active one
}
