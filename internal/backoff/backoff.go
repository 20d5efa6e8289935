// Package backoff spaces the tries of a step that fails for a while: capped
// exponential delays with jitter, and a sleep that a context ends.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Policy says how long to wait between two tries. The delay doubles with each
// failure in a row, from Min up to Max. A random factor then keeps those who
// failed together from trying again together.
//
// Low and High bound the factor: 0 and 1 is full jitter, ½ and 1 is equal
// jitter. Both names are Marc Brooker's (Exponential Backoff And Jitter, 2015).
// The bounds ¾ and 1¼ keep the mean. The zero value never waits: Min, Max and High must be set.
type Policy struct {
	Min, Max  time.Duration
	Low, High float64
	Random    func() float64 // [0, 1), safe for concurrent use; nil: math/rand
}

// Delay returns the delay after so many failures in a row, from 1.
func (p Policy) Delay(failures int) time.Duration {
	delay := p.Min
	for n := 1; n < failures && delay < p.Max; n++ {
		delay *= 2
	}
	random := p.Random
	if random == nil {
		random = rand.Float64
	}
	factor := p.Low + random()*(p.High-p.Low)
	return time.Duration(factor * float64(min(delay, p.Max)))
}
