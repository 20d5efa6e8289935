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
)

// markers finds out what is in lanes: for a new owner, and for pages that may be sent
// directly again.
type markers struct {
	*run
	lanes *lanes
}

// begin begins the ownership of a partition, or makes sure of it: in a while without a
// delivery another replica may have had it.
func (ms *markers) begin(c *claim, now time.Time) {
	if c.since.IsZero() {
		c.since = now
	}
	c.begun = now
	if now.Sub(c.unknownSince) > 2*laneTime { // this is no claim that was renewed because it did not know
		c.unknownSince = now
	}
	for _, k := range c.lanes {
		ms.lanes.abandon(k)
		k.known = k.refuses // nobody can have put anything there
		k.marker, k.asked = fmt.Sprintf("mark/%s/%d", k.queue, now.UnixNano()), now
	}
	ms.send(c, c.lanes)
}

// send puts a claim's markers into lanes.
func (ms *markers) send(c *claim, lanes []*lane) {
	begun := c.begun
	msgs := make([]queue.Message, len(lanes))
	for i, k := range lanes {
		msgs[i] = queue.Message{Queue: k.queue, ID: k.marker, Headers: map[string]string{message.HeaderMarker: ""}}
	}
	ms.publish(askBroker, msgs, func(err error) {
		if err == nil || c.isGivenUp() || !c.begun.Equal(begun) {
			return
		}
		ms.Log.Warn("send the markers of a partition's lanes; trying again", "partition", c.partition.index, "err", err)
		ms.timers.add(ms.Now().Add(consumeRetry), func() {
			if c.isGivenUp() || !c.begun.Equal(begun) || ms.ending {
				return
			}
			var again []*lane
			for i, k := range lanes {
				why := queue.ErrorOf(err, i)
				if why == nil || msgs[i].ID != k.marker {
					continue
				}
				again = append(again, k)
				if errors.Is(why, queue.ErrRefused) {
					ms.refusedBy(k)
				}
			}
			// Those that nobody waits for any more are asked by check.
			if again = slices.DeleteFunc(again, func(k *lane) bool { return k.known }); len(again) > 0 {
				ms.send(c, again)
			}
		})
	})
}

// refusedBy notes a lane that took no marker. A queue that takes nothing delivers what it
// has: what has not come by now is not there.
func (ms *markers) refusedBy(k *lane) {
	if !k.known {
		ms.Log.Warn("lane takes nothing; its partition goes on without it", "queue", k.queue)
		k.failing, k.refuses = ms.Now(), true
		ms.lanes.know(k)
	}
}

// check looks for lanes of an owner that are sick or empty.
func (ms *markers) check(c *claim, now time.Time) {
	for _, k := range c.lanes {
		ms.measure(k)
		switch {
		case !k.known && now.Sub(c.unknownSince) > sickLane:
			ms.Log.Warn("lane does not answer; its partition goes on without it", "queue", k.queue)
			k.failing = now
			ms.lanes.know(k)
		case k.known && k.marker != "" && now.Sub(k.asked) > markerPause: // it may be lost
			k.asked = now
			ms.send(c, []*lane{k})
		case k.known && !k.failing.IsZero() && now.Sub(k.asked) > markerPause: // it may serve again
			k.marker, k.asked = fmt.Sprintf("mark/%s/%d", k.queue, now.UnixNano()), now
			ms.send(c, []*lane{k})
		}
		for _, l := range k.lines { // at a random time, because events may come with the ticks
			if l.spill.marker == "" {
				ms.timers.add(now.Add(time.Duration(ms.Random()*float64(tickEvery))), func() { ms.drain(l) })
			}
		}
	}
}

// drain finds out whether anything of a page is in its lane, unless messages wait
// for the page's pace. What has come out of it is in order here; what is in it comes
// out before the marker.
func (ms *markers) drain(l *line) {
	s, now := l.spill, ms.Now()
	if s == nil || s.marker != "" || s.moving > 0 || len(l.ready) > 0 || ms.ending {
		return
	}
	marker := queue.Message{
		Queue: s.lane.queue, ID: fmt.Sprintf("mark/%s/%d", l.key.Page, now.UnixNano()),
		Body: []byte(l.key.Class), Headers: map[string]string{message.HeaderMarker: l.key.Page},
	}
	s.marker, s.draining = marker.ID, true
	ms.publish(askBroker, []queue.Message{marker}, func(err error) {
		switch {
		case l.spill != s:
		case err == nil:
			s.lane.serves()
		case s.marker == marker.ID:
			ms.Log.Warn("send lane's marker", "queue", s.lane.queue, "err", err)
			ms.stopDraining(l)
			ms.lanes.fails(s, ms.Now())
			ms.timers.add(ms.Now().Add(markerPause), func() {
				if s.marker == marker.ID { // it may come all the same
					s.marker = ""
				}
			})
		}
	})
	ms.timers.add(now.Add(markerTime), func() {
		if l.spill == s && s.draining && s.marker == marker.ID {
			ms.stopDraining(l)
		}
	})
}

// stopDraining has what waited for the marker go to the lane, behind what is in it.
func (ms *markers) stopDraining(l *line) {
	l.spill.draining = false
	ms.lanes.overflow(l, ms.Now())
	ms.lanes.pages.mark(l)
}

// take takes a marker off its lane.
func (ms *markers) take(m *held) {
	if err := m.delivery.Ack(); err != nil {
		ms.Log.Debug("acknowledge lane's marker", "id", m.delivery.ID, "err", err)
	}
	k, id := m.source.lane, m.delivery.ID
	if k == nil { // a partition has none
		return
	}
	if k.marker == id {
		k.marker = ""
		k.serves()
		ms.lanes.know(k)
		return
	}
	l := ms.lanes.pages.lines[m.key()]
	if l == nil || l.spill == nil || l.spill.marker != id { // of an owner before
		return
	}
	l.spill.marker = ""
	if l.spill.draining {
		ms.lanes.unspill(l)
	}
}

// measure asks how much of a lane is on the broker, where this replica holds about as
// much of it as it takes.
func (ms *markers) measure(k *lane) {
	if k.source.free() > k.source.prefetch/2 || len(k.lines) == 0 {
		k.beyond = 0
		return
	}
	ms.askReady(k.queue, func(ready int, err error) {
		if err == nil {
			k.beyond = ready
		}
	})
}
