// Package rabbit is chatclub's broker on RabbitMQ, 4.0 to 4.3: a message that
// Publish confirmed survives every node that keeps its disk, and a delivery is
// settled on the connection that brought it or not at all. Beside it only tests
// and a tool that measures import amqp091-go.
//
// # Connections
//
// A Broker keeps two connections, one to publish and one to consume, because
// RabbitMQ stops reading from a connection that publishes too fast or during
// an alarm, and acknowledgements must not wait behind that. Each has its own
// link, which dials the URLs in turn and hands out the session made of a
// connection. The first of the two to connect declares the topology, with one
// wait for all of it. Later sessions do so only if something is missing. A
// session is never repaired: any error ends it whole, and after a jittered
// pause of 0.1 to 2 seconds the link makes the next one.
//
// A session also ends when the broker is silent: when it owes confirms and
// sends none, or leaves most of the questions open that are asked on the
// consuming session all the time. Heartbeats alone notice neither a node that
// is cut off from the others nor, for 7.5 s, a connection that is half open.
// Each such end doubles the time that the next one takes, because a broker that
// has too much to do is slow, too, and would get the same messages again. The
// time in which this process did not run does not count.
//
// Before a session ends for that, IsSilent tells consumers that what they settle
// may have no effect: when answers stay out for 1.5 s, or for longer than they
// usually take.
//
// The recovery that amqp091-go 1.16 has built in is not used. It keeps the Go
// channel value over a reconnect, so the acknowledgement of a delivery from
// before names, on the new connection, whichever message has that tag now.
// That message was then acknowledged unhandled, and lost (reproduced with
// 1.16). Here an old delivery keeps its dead channel and its acknowledgement
// can only fail.
//
// # Queues
//
// All are quorum queues. Each has a delivery limit that no restart reaches,
// because RabbitMQ 4 has one of 20 of its own, and each end of a consumer
// counts. Queues refuse what they have no room for, except that of dead letters.
// A delayed message is published to the exchange of its delay, whose queue
// dead-letters it, when its time has come, to the queue that its routing key
// names. 32 messages that cannot be delivered would stop such a queue for
// minutes: hence delays only to queues of the topology.
//
// # Publishing
//
// One goroutine per session writes; callers hand it chunks of messages and
// wait for the confirms themselves, so that any number of callers share the
// connection without waiting for each other's round trips. At most a window of
// messages is unconfirmed at a time. Messages are persistent and mandatory: the
// broker returns what no queue takes, before it confirms it, and the sequence
// number in the correlation id tells which message that was. What a lost
// session left unconfirmed is published again under the same id, in order, so
// a message may be queued twice then but never lost. A message that its queue
// refuses is reported and nothing else happens. A call that ends before all its
// messages are confirmed tells which are. When it is made again with the others,
// those that are still on their way are not written again: the call waits for
// their confirms. A queue of the topology that somebody has deleted is declared
// again when a message for it comes back.
//
// # Consuming
//
// Each subscription has a channel of its own. Closing it is the one way to leave a
// queue, and returns what is unsettled in order: a consumer that is closed ends holding
// nothing. An idle subscription costs two goroutines and 25 KB, and no time. RabbitMQ
// takes back what is unsettled for 30 minutes, since 4.3 for 20. What arrives can be published again, whoever made it: without an id it
// gets the digest of its body as one, and headers beyond our bounds are left out.
package rabbit
