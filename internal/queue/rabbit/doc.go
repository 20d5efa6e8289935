// Package rabbit is the queue.Broker on RabbitMQ, 3.10 to 4.3: a message that
// Publish confirmed survives every node that keeps its disk. A delivery is settled on the connection that brought it or not at all. Beside it
// only tests and a tool that measures import amqp091-go.
//
// # Connections
//
// A Broker keeps two connections, one to publish and one to consume. RabbitMQ
// stops reading from a connection that publishes too fast or during an alarm,
// and acknowledgements must not wait behind that. Each has its own link, which
// dials the URLs one after another, declares the topology, and hands out the
// session made of it. A session is never repaired: any error ends it whole.
// After a jittered pause of 0.2 to 5 seconds the link makes the next one.
//
// The recovery that amqp091-go 1.16 has built in is not used. It keeps the Go
// channel value over a reconnect. So the acknowledgement of an old delivery
// names another message: the one that has its tag on the new connection. That
// message was then acknowledged unhandled, and lost (reproduced with 1.16). Here an old delivery keeps its dead channel and its acknowledgement
// can only fail.
//
// # Publishing
//
// One goroutine per session writes. Callers hand it chunks of messages and wait
// for the confirms themselves. So any number of callers share the connection
// without waiting for each other's round trips. At most a window of messages is
// unconfirmed at a time. Messages are persistent and mandatory: the broker
// returns what no queue takes, before it confirms it. The sequence number in the
// correlation id says which message that was. What a lost session left
// unconfirmed is published again under the same id, in order. A message may be
// queued twice then, but it is never lost. The error of a call that ends before
// all its messages are confirmed says which are. A queue of the topology that
// somebody has deleted is declared again when a message for it comes back.
//
// # Consuming
//
// Each subscription has a channel of its own. Closing it, and only that,
// returns unsettled messages to the front of their queue in order. A message
// of another program can be published again, too. Without an id it gets the
// digest of its body as one, and headers beyond our bounds are left out.
package rabbit
