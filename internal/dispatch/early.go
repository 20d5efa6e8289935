package dispatch

import (
	"context"
	"slices"
	"time"

	"chatclub/internal/queue"
)

const (
	// sortTime is how long a new owner collects at least before it sends. The owner
	// before cancels its consumer, and then gives back what it held. What is published
	// between the two is delivered first.
	sortTime = 25 * time.Millisecond
	// sortLooks is how often the broker is asked about the queue then: where it lags
	// behind, what was given back comes after the first answer.
	sortLooks = 2
	// lookPause is between later questions.
	lookPause = 5 * time.Millisecond
	// earlyTime is how long the broker may take for an answer, and for more of what was
	// given back. One that needs longer is not waited for.
	earlyTime = 500 * time.Millisecond
)

// early is what came first of a partition. None of it is sent yet, because what the
// owner before gave back may come behind it.
type early struct {
	since time.Time // of the first message
	list  []*held   // in the order in which it will be sent
	fresh []*held   // behind list: what is new, and did not make room yet
	batch []*held   // what made room last; nil: nothing did
	came  int       // how much has come since then
	older bool      // some of what came had not made room: it is older
}

// all is what is held, in order.
func (c *early) all() []*held {
	if c == nil {
		return nil
	}
	return slices.Concat(c.list, c.fresh)
}

// collect has what comes of a source wait for sortTime, and until all has come that
// the owner before gave back, as far as there is room for it.
func (e *engine) collect(s *source) {
	s.early = &early{since: e.Now()}
	e.look(s, s.early, 1)
}

// look asks the broker for the n-th time whether more waits in the queue.
func (e *engine) look(s *source, c *early, n int) {
	var info queue.Info
	e.beside(earlyTime, func(ctx context.Context) (err error) {
		info, err = e.Broker.Inspect(ctx, s.queue)
		return err
	}, func(e *engine, err error) {
		switch now := e.Now(); {
		case s.early != c:
		case err != nil || now.Sub(c.since) > earlyTime || n >= sortLooks && (info.Ready == 0 || len(c.list) >= s.prefetch):
			e.timers.add(c.since.Add(sortTime), func() {
				if s.early == c {
					e.sortEarly(s)
				}
			})
		case n >= sortLooks:
			e.timers.add(now.Add(lookPause), func() { e.look(s, c, n+1) })
		default:
			e.look(s, c, n+1)
		}
	})
}

// sortEarly puts what the owner before had in front of what is new. If the prefetch
// is full there may be more of it, for which what is new makes room.
func (e *engine) sortEarly(s *source) {
	c := s.early
	if c == nil {
		return
	}
	full := len(c.list) >= s.prefetch
	var old []*held
	for _, m := range c.list {
		if m.delivery.Redelivered {
			old = append(old, m)
		} else {
			c.fresh = append(c.fresh, m)
		}
	}
	if c.list = old; full && len(c.fresh) > 0 && !s.leaving {
		e.makeRoom(s)
	} else {
		e.takeEarly(s)
	}
}

// makeRoom gives the first of what is new back. It comes again behind what is older.
func (e *engine) makeRoom(s *source) {
	c := s.early
	n := min(queue.ReturnBatch, len(c.fresh))
	c.batch, c.fresh, c.came = c.fresh[:n], c.fresh[n:], 0
	for _, m := range c.batch {
		_ = m.delivery.Requeue() // or it goes back with its connection
	}
	first := c.batch[0]
	e.timers.add(e.Now().Add(earlyTime), func() {
		if s.early == c && c.batch[0] == first {
			e.takeEarly(s)
		}
	})
}

// cameEarly takes what comes while a source is sorted. When as much has come as went
// back, and it is just that, there was nothing older. Otherwise all that is new must
// follow, because the end of it stays in the queue, behind what was older.
func (e *engine) cameEarly(s *source, m *held) {
	c := s.early
	c.list = append(c.list, m)
	if c.batch == nil {
		return
	}
	c.older = c.older || m.delivery.ID != c.batch[c.came].delivery.ID
	switch c.came++; {
	case c.came < len(c.batch):
	case c.older && len(c.fresh) > 0:
		e.makeRoom(s)
	default:
		e.takeEarly(s)
	}
}

// takeEarly takes what came first into the engine's hands.
func (e *engine) takeEarly(s *source) {
	list := s.early.all()
	s.early = nil
	e.sources.inbox = slices.Concat(list, e.sources.inbox)
}
