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
	// maxSingleActive is how often a consumer of a single-active queue is made anew in
	// a row. Then another one is believed to be active: the broker does not say so.
	maxSingleActive = 2
)

// errStarved says that a consumer was given up because nothing came.
var errStarved = errors.New("messages are ready and none is delivered")

// supply finds out that a consumer gets nothing although it should. RabbitMQ (seen with
// 3.10) can lose the deliveries of a consumer whose queue was deleted and declared
// again, or has another leader. The connection and the consumer look well then, and
// only a new channel helps. Of a single-active queue only a consumer that was delivered
// something is watched, because the others rightly get nothing.
//
// The zero value is useful. Only starving is safe for concurrent use.
type supply struct {
	single bool // the queue has one active consumer at a time
	active bool // something was delivered, at last to this subscription
	fed    bool // something was delivered since the last look
	empty  int  // looks in a row that found messages ready although nothing came
	anew   int  // how often the consumer was made anew since something was delivered

	starving atomic.Bool // making it anew did not help
}

// deliver notes a delivery.
func (s *supply) deliver() {
	if s.anew > 0 {
		s.starving.Store(false)
	}
	s.active, s.fed, s.empty, s.anew = true, true, 0, 0
}

// reconnect notes that the connection has ended: who is active is chosen again.
func (s *supply) reconnect() {
	s.active, s.empty, s.anew = false, 0, 0
	s.starving.Store(false)
}

// look is called now and then, and reports whether the consumer is to be made anew:
// when two looks in a row found messages ready, and twice as many each time that this
// did not help. room says that it holds less than its prefetch. ready asks the broker.
func (s *supply) look(room bool, ready func() (int, error)) (starved bool) {
	fed := s.fed
	s.fed = false
	if fed || !room || s.single && (!s.active || s.anew >= maxSingleActive) {
		s.empty = 0
		return false
	}
	switch n, err := ready(); {
	case err != nil: // says nothing
		return false
	case n == 0:
		s.empty = 0
		s.starving.Store(false)
		return false
	}
	if s.empty++; s.empty < 2<<min(s.anew, maxWaiting) {
		return false
	}
	s.empty = 0
	s.anew++
	s.starving.Store(s.anew > 1 && !s.single)
	return true
}

// hasSupply reports whether the consumer on c gets what is ready for it. The question
// goes over its own channel, so that a queue without a leader delays no other.
func (s *subscription) hasSupply(ctx context.Context, session *session, c *channel) bool {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	room := int(c.held.Load()) < s.prefetch && !session.prober.isSilent()
	return !s.supply.look(room, func() (int, error) {
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
