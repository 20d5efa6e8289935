package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// markerTime is the longest wait of a page's messages for the marker in its lane:
	// longer than a healthy broker needs, and no longer than a call takes. After
	// that they go behind it.
	markerTime = 500 * time.Millisecond
	// markerPause is the pause before the next marker for a lane that took none, or gave
	// none back.
	markerPause = time.Minute
	// markerLost is the time after which a new owner sends a queue's marker again: the
	// owner before may have taken it. It is longer than one attempt to send it.
	markerLost = askBroker + consumeRetry + time.Second/2
	// deepTime is the longest wait of a new owner for a marker behind what a lane delivers.
	deepTime = time.Second
)

// markers finds out what is in lanes, for a new owner and for pages that may be sent
// directly again; and, for a lane that came first, when the partition does.
type markers struct {
	*run
	lanes *lanes
}

// begin begins the ownership of a partition with what has come from one of its queues, or
// makes sure of it: in a while without a delivery another replica may have had it.
func (ms *markers) begin(from *source, now time.Time) {
	c := from.claim
	if c.since.IsZero() {
		c.since = now
	}
	c.begun = now
	if now.Sub(c.unknownSince) > 2*laneTime { // this is no claim that was renewed because it did not know
		c.unknownSince = now
	}
	var asked []*source
	for _, s := range c.sources {
		if k := s.lane; k != nil {
			ms.lanes.abandon(k)
			// A silent lane had nothing, and nobody puts anything there while it, or the broker, takes nothing.
			if s.known = k.silent && (!k.failing.IsZero() || ms.Broker.Ready() != nil); !s.known {
				k.failing = time.Time{} // it is found out again
			}
		} else {
			s.known = s == from || s.inHand > 0 && s.latest != nil && !s.isStale()
		}
		if !s.known {
			asked = append(asked, s) // check asks the others again
		}
	}
	ms.ask(c, asked, now)
}

// ask puts new markers into some queues of a claim.
func (ms *markers) ask(c *claim, sources []*source, now time.Time) {
	for _, s := range sources {
		s.marker = markerID(s.queue, now)
	}
	ms.send(c, sources)
}

// markerID returns the id of a new marker of a queue, or of the pages that share one.
func markerID(of string, now time.Time) string { return fmt.Sprintf("mark/%s/%d", of, now.UnixNano()) }

// newMarker returns a marker for a queue.
func newMarker(name, id string) queue.Message {
	return queue.Message{Queue: name, ID: id, Headers: map[string]string{message.HeaderMarker: ""}}
}

// send puts a claim's markers into their queues.
func (ms *markers) send(c *claim, sources []*source) {
	begun, now := c.begun, ms.Now()
	msgs := make([]queue.Message, len(sources))
	for i, s := range sources {
		msgs[i], s.asked = newMarker(s.queue, s.marker), now
	}
	ms.publish(askBroker, msgs, func(err error) {
		for i, s := range sources {
			if s.lane != nil && queue.ErrorOf(err, i) == nil { // it took something, and may be another's
				s.lane.silent = false
			}
		}
		if err == nil || c.isGivenUp() || !c.begun.Equal(begun) {
			return
		}
		ms.Log.Warn("send the markers of a partition; trying again", "partition", c.partition.index, "err", err)
		ms.timers.add(ms.Now().Add(consumeRetry), func() {
			if c.isGivenUp() || !c.begun.Equal(begun) || ms.ending {
				return
			}
			var again []*source
			for i, s := range sources {
				why := queue.ErrorOf(err, i)
				if why == nil || msgs[i].ID != s.marker {
					continue
				}
				again = append(again, s)
				if errors.Is(why, queue.ErrRefused) {
					// A queue that takes nothing delivers what it has: what has not come is not there.
					ms.goOnWithout(s, "it takes nothing")
				}
			}
			// Those that nobody waits for any more are asked by check.
			if again = slices.DeleteFunc(again, func(s *source) bool { return s.known }); len(again) > 0 {
				ms.send(c, again)
			}
		})
	})
}

// goOnWithout has a partition go on without a queue of which nothing is learned.
func (ms *markers) goOnWithout(s *source, why string) {
	if s.known || s.delivers() { // check waits for what may be before its marker
		return
	}
	ms.Log.Warn("the partition goes on without a queue", "queue", s.queue, "why", why)
	if k := s.lane; k != nil {
		k.silent = true
		if ms.Broker.Ready() == nil { // else the broker takes nothing at all
			k.failing = ms.Now()
		}
	}
	ms.lanes.know(s)
}

// check looks for queues of an owner that are sick, and for lanes that are empty.
func (ms *markers) check(c *claim, now time.Time) {
	for _, s := range c.sources {
		switch {
		case s.delivers() && now.Sub(s.heard) > deepTime:
			ms.lanes.know(s)
		case now.Sub(c.unknownSince) > sickLane:
			ms.goOnWithout(s, "it does not answer")
		}
		pause := markerPause
		if !s.known {
			pause = markerLost
		}
		switch {
		case now.Sub(s.asked) <= pause:
		case s.marker != "": // it may be lost
			ms.send(c, []*source{s})
		case s.lane != nil && !s.lane.failing.IsZero(): // it may serve again
			ms.ask(c, []*source{s}, now)
		}
	}
	for _, k := range c.lanes {
		ms.measure(k)
		due := false
		for _, l := range k.lines {
			if now.Sub(l.spill.asked) > markerPause { // it may be lost
				l.spill.marker = ""
			}
			due = due || l.spill.marker == ""
		}
		if due { // at a random time, because events may come with the ticks
			ms.timers.add(now.Add(time.Duration(ms.Random()*float64(tickEvery))), func() { ms.drain(k) })
		}
	}
}

// drain finds out, by one marker for all pages of a lane, whether anything of them is in it;
// those whose messages wait for their pace are left out. What has come out of the lane is in
// order here; what is in it comes out before the marker.
func (ms *markers) drain(k *lane) {
	now := ms.Now()
	marker := newMarker(k.source.queue, markerID(k.source.queue+"/pages", now))
	var lines []*line
	for _, l := range k.lines {
		if s := l.spill; s.marker == "" && s.moving == 0 && len(l.ready) == 0 && !ms.ending {
			s.marker, s.asked, s.draining = marker.ID, now, true
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return
	}
	each := func(f func(l *line)) { // of those that still wait for the marker
		for _, l := range lines {
			if s := l.spill; s != nil && s.lane == k && s.marker == marker.ID {
				f(l)
			}
		}
	}
	ms.publish(askBroker, []queue.Message{marker}, func(err error) {
		if err != nil {
			ms.Log.Warn("send lane's marker", "queue", k.source.queue, "err", err)
		}
		each(func(l *line) {
			if s := l.spill; err == nil {
				k.serves()
			} else {
				ms.stopDraining(l)
				ms.lanes.fails(s, ms.Now())
			}
		})
	})
	ms.timers.add(now.Add(markerTime), func() {
		each(func(l *line) {
			if l.spill.draining {
				ms.stopDraining(l)
			}
		})
	})
}

// stopDraining has what waited for the marker go to the lane, behind what is in it.
func (ms *markers) stopDraining(l *line) {
	l.spill.draining = false
	ms.lanes.overflow(l, ms.Now())
	ms.lanes.pages.mark(l)
}

// take takes a marker off its queue.
func (ms *markers) take(m *held) {
	if err := m.delivery.Ack(); err != nil {
		ms.Log.Debug("acknowledge marker", "id", m.delivery.ID, "err", err)
	}
	s, id := m.source, m.delivery.ID
	if s.marker == id {
		s.marker = ""
		if s.lane != nil {
			s.lane.serves()
		}
		ms.lanes.know(s)
		return
	}
	if s.lane == nil {
		return
	}
	ms.lanes.unspill(s.lane, func(l *line) bool { // none where the marker is of an owner before
		isOurs := l.spill.marker == id
		if isOurs {
			l.spill.marker = ""
		}
		return isOurs && l.spill.draining
	})
}

// measure asks how much of a lane is on the broker, where this replica holds about as
// much of it as it takes.
func (ms *markers) measure(k *lane) {
	if k.source.free() > k.source.prefetch/2 || len(k.lines) == 0 {
		k.beyond = 0
		return
	}
	ms.askReady(k.source.queue, func(ready int, err error) {
		if err == nil {
			k.beyond = ready
		}
	})
}
