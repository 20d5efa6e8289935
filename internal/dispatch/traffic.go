package dispatch

import (
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
)

const (
	// trafficTime is the time for which the traffic of a page is kept after its last message.
	trafficTime = time.Minute
	// calmTime is the time out of excess after which the end of a page's excess is logged.
	calmTime = time.Minute
)

// traffic is the recent traffic of one page and class: counters for people to look at, and
// data for broadcasts, the log of excess and the forecast.
type traffic struct {
	arrived int64         // messages, from the partition
	sent    int64         // messages
	calls   int64         // that were accepted
	refused int64         // calls
	waited  time.Duration // of all that were sent: from when a message was made to its call
	last    time.Time     // something happened
	moved   int           // messages to a lane, since spilled
	spilled time.Time     // since when it is in excess, with short breaks; zero: it is not
	calm    time.Time     // when it went out of excess last
	busy    time.Time     // when core was last told that its broadcasts wait
	usage   int           // of the fullest quota that the latest answer told of, the page's or the app's, in percent
	used    time.Time     // when it did
	heldAt  time.Time     // when it was logged last that the page waits as the platform asked

	forecast forecast
}

const (
	// fullUsage is the part of a quota from which on a page's broadcasts leave the rest to
	// its conversations, in percent.
	fullUsage = 90
	// usageTime is the time for which a usage is believed: then broadcasts find out.
	usageTime = time.Minute
	// hintTime is the least time between two lines of the log that say that a page waits as
	// the platform asked.
	hintTime = time.Minute
)

// isFull reports whether one of the page's quotas is nearly used up.
func (t *traffic) isFull(now time.Time) bool {
	return t.usage >= fullUsage && now.Sub(t.used) < usageTime
}

// came counts a message that arrived.
func (t *traffic) came(now time.Time, m *held) {
	t.last = now
	if m.source.lane == nil {
		t.arrived++
	}
}

// called counts a call that ended.
func (t *traffic) called(now time.Time, c *call, d disposition, random float64) {
	t.last = now
	if u := max(c.result.Usage, c.result.AppUsage); u > 0 { // a full quota of the app stops the page, too
		t.usage, t.used = u, now
	}
	switch {
	case d.limit == excess.Refused:
		t.refused++
	case d.do == acknowledge:
		t.calls++
		t.sent += int64(len(c.msgs))
		if o := &c.msgs[0].out; o.Priority() == message.PriorityCopy && o.Attempts == 0 && o.NotBefore == 0 {
			t.forecast.check(time.UnixMilli(o.Time), c.began, now, random)
		}
		for _, m := range c.msgs {
			t.waited += m.out.Age(c.began)
		}
	}
}

// sweepTraffic forgets the traffic of pages that had none for a while, and logs that
// a page is out of excess once it has been for a while.
func (p *pages) sweepTraffic(now time.Time) {
	for k, t := range p.traffic {
		l := p.lines[k]
		if !t.spilled.IsZero() && (l == nil || l.spill == nil) && now.Sub(t.calm) > calmTime {
			p.Log.Info("page is out of excess", "page", k.Page, "class", k.Class, "lasted", t.calm.Sub(t.spilled), "overflowed", t.moved)
			t.spilled, t.moved = time.Time{}, 0
		}
		if l == nil && now.Sub(t.last) > trafficTime && t.spilled.IsZero() {
			delete(p.traffic, k)
		}
	}
}
