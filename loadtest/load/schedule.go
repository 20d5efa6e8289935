// Package load makes load in open loop: things happen when they are due,
// however slow the system is that they happen to, and how late the generator
// itself was is known. So a latency that counts from when a thing was due has
// no coordinated omission.
package load

import (
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// Segment is a part of a schedule. Burst things are due at its begin; during
// it Rate a second.
type Segment struct {
	Burst int
	Rate  float64 // per second; 0: none, a pause
	For   time.Duration
}

// Schedule says when things are due, counted from its start. The zero value is
// empty.
type Schedule struct {
	Segments []Segment
	// Random makes the distances exponential, as those of independent users
	// are. nil: the n-th thing of a segment is due n/Rate after its begin.
	Random *rand.Rand
}

// Due yields the time of each thing, ascending. With Random it may be ranged
// over once.
func (s Schedule) Due() iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		begin := time.Duration(0)
		for _, g := range s.Segments {
			for range g.Burst {
				if !yield(begin) {
					return
				}
			}
			if !g.steady(begin, s.Random, yield) {
				return
			}
			begin += g.For
		}
	}
}

// steady yields the things of a segment beyond its burst; false: no more are
// wanted.
func (g Segment) steady(begin time.Duration, random *rand.Rand, yield func(time.Duration) bool) bool {
	if g.Rate <= 0 {
		return true
	}
	after := 0.0 // in seconds
	for n := 0; ; n++ {
		if random == nil {
			after = float64(n) / g.Rate
		} else {
			after += random.ExpFloat64() / g.Rate
		}
		if d := time.Duration(math.Round(after * float64(time.Second))); d >= g.For {
			return true
		} else if !yield(begin + d) {
			return false
		}
	}
}
