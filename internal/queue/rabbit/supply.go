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
	// maxInVain is how often a consumer is made anew in a row although it may be all
	// right: its queue is empty, or another consumer is the active one.
	maxInVain = 2
)

var (
	// errStarved says that a consumer was given up because nothing came.
	errStarved = errors.New("messages are ready and none is delivered")
	// errDoubted says that a consumer was given up although its queue is empty.
	errDoubted = errors.New("nothing was delivered since the queue was lost")
)

// supply finds out that a consumer gets nothing although it should. RabbitMQ (seen with
// 3.10) can lose what it delivers to a consumer whose queue was deleted and declared
// again. The connection and the consumer look well then, the queue counts up to the
// prefetch as delivered, and only a new channel gets them back. So a consumer that
// has room is made anew when messages are ready and none comes. After the loss of its
// queue it is also when none is ready.
//
// Of a single-active queue a consumer is watched when something was delivered to it or
// the queue was lost. The others rightly get nothing.
//
// The zero value is useful. Only starving is safe for concurrent use.
type supply struct {
	single  bool // the queue has one active consumer at a time
	active  bool // this may be it
	doubted bool // the queue was lost, and nothing was delivered since then
	fed     bool // something was delivered since the last look
	empty   int  // looks in a row at which something was missing
	anew    int  // how often the consumer was made anew since something was delivered

	starving atomic.Bool // making it anew did not help
}

// deliver notes a delivery.
func (s *supply) deliver() {
	if s.anew > 0 {
		s.starving.Store(false)
	}
	s.active, s.fed, s.doubted, s.empty, s.anew = true, true, false, 0, 0
}

// lose notes that the consumer was lost and not its connection. Any of them may be the
// active one of the next queue.
func (s *supply) lose() { s.active, s.doubted, s.empty, s.anew = true, true, 0, 0 }

// reconnect notes that the connection was lost: who is active is chosen again.
func (s *supply) reconnect() {
	s.active, s.doubted, s.empty, s.anew = false, false, 0, 0
	s.starving.Store(false)
}

// look is called now and then, and returns why the consumer is to be made anew, or nil:
// when something was missing at two looks in a row, and at twice as many each time that
// this did not help. room says that it holds less than its prefetch. ready asks the
// broker.
func (s *supply) look(room bool, ready func() (int, error)) error {
	fed := s.fed
	s.fed = false
	if fed || !room || s.single && (!s.active || s.anew >= maxInVain) {
		s.empty = 0
		return nil
	}
	n, err := ready()
	switch {
	case err != nil: // the broker does not answer, or the channel is closed, which receive learns
		return nil //nolint:nilerr // it says nothing about the consumer
	case n == 0 && (!s.doubted || s.anew >= maxInVain):
		s.empty = 0
		s.starving.Store(false)
		return nil
	}
	if s.empty++; s.empty < 2<<min(s.anew, maxWaiting) {
		return nil
	}
	s.empty = 0
	s.anew++
	if n == 0 {
		return errDoubted
	}
	s.starving.Store(s.anew > 1 && !s.single)
	return errStarved
}

// checkSupply returns why the consumer on c is to be made anew, or nil. The question
// goes over its own channel, so that a queue without a leader delays no other.
func (s *subscription) checkSupply(ctx context.Context, session *session, c *channel) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	room := int(c.held.Load()) < s.prefetch && !session.prober.isSilent()
	return s.supply.look(room, func() (int, error) {
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
