package articles

import (
	"iter"
	"slices"
	"sort"
	"time"

	"chatclub/loadtest/report"
)

// clock is virtual time. What is due next is done next, and what is due at one time in
// the order in which it was asked for. Not safe for concurrent use.
type clock struct {
	now, begin, end time.Time
	due             []event
}

type event struct {
	at time.Time
	do func()
}

// newClock returns a clock that runs for a time, from the begin of a second.
func newClock(length time.Duration) *clock {
	begin := time.Unix(1_700_000_000, 0)
	return &clock{now: begin, begin: begin, end: begin.Add(length)}
}

// after has something done after a time.
func (c *clock) after(d time.Duration, do func()) {
	at := c.now.Add(d)
	i := sort.Search(len(c.due), func(i int) bool { return c.due[i].at.After(at) })
	c.due = slices.Insert(c.due, i, event{at, do})
}

// every has something done again and again until the end, gap() times the mean interval
// apart: 1, or what rand.ExpFloat64 returns for arrivals that know nothing of each other.
func (c *clock) every(perSecond, gap func() float64, do func()) {
	c.after(time.Duration(gap()/perSecond()*float64(time.Second)), func() {
		if c.runs() {
			do()
			c.every(perSecond, gap, do)
		}
	})
}

// spawn starts a process: code that runs from top to bottom, and at times sleeps. It
// must end soon after the clock's end.
func (c *clock) spawn(process func(sleep func(time.Duration))) {
	next, _ := iter.Pull(func(yield func(time.Duration) bool) {
		process(func(d time.Duration) { yield(d) })
	})
	var step func()
	step = func() {
		if d, sleeps := next(); sleeps {
			c.after(d, step)
		}
	}
	c.after(0, step)
}

// runs reports whether the end is still to come.
func (c *clock) runs() bool { return c.now.Before(c.end) }

// since returns the seconds since the begin.
func (c *clock) since() float64 { return c.now.Sub(c.begin).Seconds() }

// run does all that is due, and what comes of it.
func (c *clock) run() {
	for len(c.due) > 0 {
		e := c.due[0]
		c.due, c.now = c.due[1:], e.at
		e.do()
	}
}

// steady is the gap of what comes at equal distances.
func steady() float64 { return 1 }

// always is a rate that does not change.
func always(perSecond float64) func() float64 { return func() float64 { return perSecond } }

// course is the line of what happened at times, in seconds, as a rate a second by steps.
func course(name string, at []float64, step, length float64) report.Line {
	l := report.Line{Name: name, Y: make([]float64, int(length/step))}
	for i := range l.Y {
		l.X = append(l.X, float64(i)*step)
	}
	for _, t := range at {
		if i := int(t / step); i < len(l.Y) {
			l.Y[i] += 1 / step
		}
	}
	return l
}

// spread is the line of values by the share of them that are not above.
func spread(name string, values []float64) report.Line {
	l := report.Line{Name: name}
	for i := range 100 {
		l.X, l.Y = append(l.X, float64(i)/100), append(l.Y, quantile(values, float64(i)/100))
	}
	return l
}

// quantile returns a part of a list's values; of an empty one 0.
func quantile(list []float64, part float64) float64 {
	if len(list) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(list))[min(len(list)-1, int(part*float64(len(list))))]
}

func mean(list []float64) (v float64) {
	for _, x := range list {
		v += x / float64(len(list))
	}
	return v
}

// busiest returns the most of what happened at ascending times within any second.
func busiest(at []float64) (most float64) {
	const whole = 1 - 1e-9 // 1.1 − 0.1 is a little more than 1 to a computer
	first := 0
	for i := range at {
		for at[i]-at[first] >= whole {
			first++
		}
		most = max(most, float64(i-first+1))
	}
	return most
}
