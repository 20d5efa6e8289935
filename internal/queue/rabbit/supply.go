package rabbit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"chatclub/internal/queue"
)

const (
	// DefaultSupplyTimeout is how long messages may be ready for a consumer that has
	// room and gets none, before it is made anew. A healthy broker delivers within
	// milliseconds, and a stall of its disk ends the session before that.
	DefaultSupplyTimeout = 10 * time.Second
	// maxWaiting bounds what repeated failures make of it: five minutes.
	maxWaiting = 5
	// maxIdle is at how many looks in a row nothing came and nothing was ready, before a
	// consumer is made anew in case that the broker keeps for it what it lost: after five
	// minutes, as a database closes connections that are idle.
	maxIdle = 60
	// maxSingleActive is how often a consumer of a single-active queue is made anew in
	// a row. Then another one is believed to be active: the broker does not say so.
	maxSingleActive = 2
)

var (
	// errStarved says that a consumer was given up because nothing came.
	errStarved = errors.New("messages are ready and none is delivered")
	// errIdle says that a consumer was given up because nothing came for long.
	errIdle = errors.New("nothing was delivered for long")
)

// supply finds out that a consumer gets nothing although it should. Where a queue is
// deleted and declared again at once, the channel of RabbitMQ (seen with 3.10) consumes
// the new queue without a word to the client, takes its messages for repetitions, and
// drops them. The connection and the consumer look well, and only a new channel gets
// them. The queue counts them as delivered, up to the prefetch; what comes then is
// ready. So a consumer that has room is made anew when messages are ready and none
// comes.
//
// Of a single-active queue a consumer is watched once something was delivered to it.
// The others rightly get nothing.
//
// The zero value is useful. Only starving is safe for concurrent use.
type supply struct {
	single bool // the queue has one active consumer at a time
	active bool // something was delivered on this connection
	fed    bool // something was delivered since the last look
	empty  int  // looks in a row that found messages ready although nothing came
	idle   int  // looks in a row that found nothing ready
	anew   int  // how often the consumer was made anew since something was delivered

	starving atomic.Bool // making it anew did not help
}

// deliver notes a delivery.
func (s *supply) deliver() {
	if s.anew > 0 {
		s.starving.Store(false)
	}
	s.active, s.fed, s.empty, s.idle, s.anew = true, true, 0, 0, 0
}

// reconnect notes that the connection was lost: who is active is chosen again.
func (s *supply) reconnect() {
	s.active, s.empty, s.idle, s.anew = false, 0, 0, 0
	s.starving.Store(false)
}

// look is called now and then, and returns why the consumer is to be made anew, or nil:
// when two looks in a row found messages ready, and twice as many each time that this
// did not help. held is how many deliveries it holds. ready asks the broker.
func (s *supply) look(held, prefetch int, ready func() (int, error)) error {
	fed := s.fed
	s.fed = false
	if fed || held >= prefetch || s.single && (!s.active || s.anew >= maxSingleActive) {
		s.empty = 0
		return nil
	}
	n, err := ready()
	switch {
	case err != nil: // the broker does not answer, or the channel is closed, which receive learns
		return nil //nolint:nilerr // it says nothing about the consumer
	case n == 0:
		s.empty = 0
		s.starving.Store(false)
		// A single-active queue would go to another consumer.
		if s.idle++; s.idle < maxIdle || held > 0 || !s.active || s.single {
			return nil
		}
		s.idle = 0
		return errIdle
	}
	if s.empty++; s.empty < 2<<min(s.anew, maxWaiting) {
		return nil
	}
	s.empty = 0
	s.anew++
	s.starving.Store(s.anew > 1 && !s.single)
	return errStarved
}

// checkSupply returns why the consumer on c is to be made anew, or nil. The question
// goes over its own channel, so that a queue without a leader delays no other.
func (s *subscription) checkSupply(ctx context.Context, session *session, c *channel) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return s.supply.look(int(c.held.Load()), s.prefetch, func() (int, error) {
		if session.prober.isSilent() {
			return 0, errUnanswered
		}
		var info queue.Info
		err := c.ask(ctx, func() (err error) {
			info, err = look(c.ch, s.queue)
			return err
		})
		if err != nil { // info may still be written
			return 0, err
		}
		return info.Ready, nil
	})
}
