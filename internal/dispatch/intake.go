package dispatch

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/excess/feed"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// laneSpread is the longest delay before a lane is subscribed to, drawn for
	// each. So the lanes do not all fall to the replica that starts first.
	laneSpread = 2 * time.Second
	// laneRest is how long a lane that was given up is left to others; as much
	// again is drawn.
	laneRest = time.Second
	// maxLaneRest is what that grows to, doubled each time, while the API gives no
	// answer. Each time the messages that were tried come back, and RabbitMQ 4
	// counts how often.
	maxLaneRest = time.Minute
	// probingPrefetch is how much is taken of each queue while the API gives no
	// answer. The next probe is then of another message than the last, which may
	// fail for a reason of its own. It is little for others to wait for.
	probingPrefetch = 4
	// consumeRetry is the pause after a subscription that was refused.
	consumeRetry = time.Second
	// bulkPrefetch is small, so that replicas have equal parts of a broadcast to
	// the last few messages. It is enough for a page's limit: 300/s × 0.1 s. It is
	// also how many messages can wait here for their pages.
	bulkPrefetch = 32
)

// source feeds the engine from one queue.
type source struct {
	e        *engine
	queue    string
	lane     int
	age      prometheus.Observer // of what is taken
	prefetch int
	out      chan<- *item
	leave    chan struct{} // asks for the queue to be given up

	sub queue.Subscription // the last one; read once feeders have ended
}

// intake begins to feed the engine.
func (e *engine) intake(ctx context.Context) {
	top := e.Broker.Topology()
	e.outbound = e.source(top.Outbound(), noLane, e.Prefetch, e.arrivals)
	e.bulkIn = e.source(top.Bulk(), noLane, bulkPrefetch, e.bulk)
	e.outbound.age, e.bulkIn.age = e.metrics.queueAge[fromOutbound], e.metrics.queueAge[fromBulk]
	for i := range e.laneIn {
		s := e.source(top.Lane(i), i, e.LanePrefetch, e.arrivals)
		s.age = e.metrics.queueAge[fromLane]
		e.laneIn[i] = s
		delay := time.Duration(e.Random() * float64(laneSpread))
		e.feeders.Go(func() { s.run(delay) })
	}
	known := make(chan struct{})
	f := feed.Feed{Broker: e.Broker, Gate: e.Gate, Queue: top.Outbound(), Now: e.Now, Random: e.Random}
	e.feeders.Go(func() {
		f.Replicas(ctx, func() { close(known) }, func(n int) { e.replicas.Store(int64(n)) })
	})
	e.feeders.Go(func() { f.LaneDepths(ctx) })
	e.feeders.Go(func() {
		// Nothing is taken before it is known how many share the limits.
		select {
		case <-known:
		case <-e.stopped:
			return
		}
		e.Gate.Join(e.Now())
		e.feeders.Go(func() { e.bulkIn.run(0) })
		e.outbound.run(0)
	})
}

func (e *engine) source(name string, lane, prefetch int, out chan<- *item) *source {
	return &source{e: e, queue: name, lane: lane, prefetch: prefetch, out: out, leave: make(chan struct{}, 1)}
}

// run subscribes and feeds until the engine stops. The subscription stays open
// then, because what is in the engine's hands is still to be settled.
func (s *source) run(delay time.Duration) {
	for rest := laneRest; s.pause(delay); {
		select {
		case <-s.leave: // meant the subscription before, or that which is made now
			if !s.tellClosed() {
				return
			}
		default:
		}
		prefetch, probing := s.prefetch, s.e.probing.Load()
		if probing {
			prefetch = min(prefetch, probingPrefetch)
		}
		sub, err := s.e.Broker.Consume(s.queue, queue.ConsumeOptions{Prefetch: prefetch})
		if err != nil {
			s.e.Log.Warn("subscribe", "queue", s.queue, "err", err)
			delay = consumeRetry
			continue
		}
		s.sub = sub
		if !s.forward() {
			return
		}
		if err := sub.Close(); err != nil {
			s.e.Log.Warn("give up queue", "queue", s.queue, "err", err)
		}
		s.sub = nil
		if !s.tellClosed() {
			return
		}
		if rest = min(2*rest, maxLaneRest); !probing {
			rest = laneRest
		}
		delay = rest + time.Duration(s.e.Random()*float64(rest))
	}
}

// tellClosed tells the engine that nothing of this source is held any more. It
// returns false when the engine stopped.
func (s *source) tellClosed() bool {
	select {
	case s.e.closed <- s:
		return true
	case <-s.e.stopped:
		return false
	}
}

// pause waits for d. It returns false when the engine stopped.
func (s *source) pause(d time.Duration) bool {
	select {
	case <-s.e.stopped:
		return false
	default:
	}
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.e.stopped:
		return false
	}
}

// forward hands deliveries to the engine. It returns true when the lane is to
// be given up, false when there is nothing more to do.
func (s *source) forward() bool {
	for {
		select {
		case d, ok := <-s.sub.Deliveries():
			if !ok {
				return false // the broker was closed
			}
			select {
			case s.out <- s.decode(d):
			case <-s.leave:
				return true
			case <-s.e.stopped:
				return false
			}
		case <-s.leave:
			return true
		case <-s.e.stopped:
			return false
		}
	}
}

// decode makes an item of a delivery. It is not the engine's work, so that several
// goroutines can share it.
func (s *source) decode(d *queue.Delivery) *item {
	m := &item{delivery: d, lane: s.lane}
	out, err := message.DecodeOutbound(d.Body)
	if err != nil {
		m.fault = err
		return m
	}
	s.age.Observe(out.Age(s.e.Now()).Seconds())
	m.out, m.attempts, m.lastCode = out, out.Attempts, out.FirstCode
	return m
}

// giveUp asks for the subscription to be closed; it may be asked more than once.
func (s *source) giveUp() {
	select {
	case s.leave <- struct{}{}:
	default:
	}
}

// close ends the subscription, so that what is unsettled goes back. Feeders have
// ended.
func (s *source) close() error {
	if s == nil || s.sub == nil {
		return nil
	}
	return s.sub.Close()
}
