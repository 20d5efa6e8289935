package dispatch

import (
	"time"

	"chatclub/internal/excess"
)

// trafficTime is how long the traffic of a page is kept after its last message.
const trafficTime = time.Minute

// traffic is what came and went of one page and class, for people to look at. Its
// numbers only grow while it is kept.
type traffic struct {
	arrived int64         // messages, from the partition
	sent    int64         // messages
	calls   int64         // that were accepted
	refused int64         // calls
	waited  time.Duration // of all that were sent: from when a message was made to its call
	last    time.Time     // something happened
}

// came counts a message that arrived.
func (t *traffic) came(now time.Time, m *held) {
	t.last = now
	if m.source.lane == nil {
		t.arrived++
	}
}

// called counts a call that ended.
func (t *traffic) called(now time.Time, c *call, d disposition) {
	t.last = now
	switch {
	case d.limit == excess.Refused:
		t.refused++
	case d.do == acknowledge:
		t.calls++
		t.sent += int64(len(c.msgs))
		for _, m := range c.msgs {
			t.waited += m.out.Age(c.began)
		}
	}
}

// sweepTraffic forgets the traffic of pages that had none for a while.
func (p *pages) sweepTraffic(now time.Time) {
	for k, t := range p.traffic {
		if p.lines[k] == nil && now.Sub(t.last) > trafficTime {
			delete(p.traffic, k)
		}
	}
}
