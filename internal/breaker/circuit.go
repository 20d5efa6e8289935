package breaker

import "time"

const (
	// The pause before a probe starts at a second, the window of the published
	// limits, and doubles up to half a minute: an app whose calls fail for long, or
	// that calls on while it is throttled, may be blocked.
	minPause = time.Second
	maxPause = 30 * time.Second
	// maxOutagePause is that of an API that takes no calls of anybody. With the half
	// more that is by chance, a replica makes a call in 5 s at least, whatever the
	// number of its pages: that harms nobody, and the end is noticed soon.
	maxOutagePause = 3 * time.Second
	// rowGap ends a row of failures: no message waits longer for its next call.
	rowGap = 2 * time.Minute
	// rowSize bounds what a row remembers by name.
	rowSize = 64
)

// circuit is one breaker.
type circuit struct {
	open    bool
	until   time.Time // the next probe
	pause   time.Duration
	probing bool
}

// trip opens the circuit. Calls that were in flight when it opened fail too;
// only a probe's failure makes the pause longer, up to most.
func (c *circuit) trip(now time.Time, probe bool, most time.Duration, random func() float64) {
	if c.open && !probe {
		return
	}
	c.open = true
	c.pause = min(max(2*c.pause, minPause), most)
	c.until = now.Add(time.Duration((0.5 + random()) * float64(c.pause)))
}

// wait is how long until the circuit allows a call; 0: now.
func (c *circuit) wait(now time.Time, random func() float64) time.Duration {
	left := c.until.Sub(now)
	if !c.open || left <= 0 && !c.probing {
		return 0
	}
	return max(left, minPause/4) + time.Duration(random()*float64(minPause/4))
}

// row is failures without an answer in between.
type row struct {
	n           int
	first, last time.Time
	names       map[string]struct{} // what failed, up to rowSize of them
}

func (r *row) add(now time.Time, name string) {
	if r.n == 0 || now.Sub(r.last) > rowGap {
		*r = row{first: now, names: make(map[string]struct{})}
	}
	r.n++
	r.last = now
	if len(r.names) < rowSize {
		r.names[name] = struct{}{}
	}
}

// mean reports whether the failures mean that something is down: that many, or
// for that long, of so many.
func (r *row) mean(failures int, d time.Duration, of int) bool {
	return len(r.names) >= of && (r.n >= failures || r.last.Sub(r.first) >= d)
}
