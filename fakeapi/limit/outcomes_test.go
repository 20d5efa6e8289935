package limit

import (
	"testing"
	"time"
)

// 10,000 calls are made at 1,000/s against a limit of 300/s, the load of a
// published comparison. There are pauses of a second after the fourth and the
// sixth second of calling.
const (
	perSecond = 300
	calls     = 10_000
	gap       = time.Millisecond // 1,000/s
	pause     = time.Second
)

// begin lies a quarter into a window, so that the end of a window and the end
// of a pause can be seen apart.
var begin = time.Unix(1_700_000_000, 0).Add(250 * time.Millisecond)

// Each algorithm admits as many of the same calls as docs/limits.md says.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	type numbers struct{ total, first, busiest int }
	for a, want := range map[Algorithm]numbers{
		FixedWindow:   {3750, 100, 550}, // ten whole windows, and the remains of those that the pauses and the ends cut
		SlidingWindow: {3216, 100, 374},
		SlidingLog:    {3000, 100, 300}, // 300 in each of ten seconds of calling
		TokenBucket:   {3897, 100, 599}, // a burst of 300, 300/s for ten seconds, and the savings of two pauses
		LeakyBucket:   {3087, 59, 329},  // the same with a bucket of 30
	} {
		l, err := New(Config{Algorithm: a, Limit: perSecond})
		if err != nil {
			t.Fatal(err)
		}
		var got numbers
		var admitted []time.Duration // in the second before
		for i := range calls {
			at := at(i)
			if !l.Allow(begin.Add(at)) {
				continue
			}
			for admitted = append(admitted, at); admitted[0] <= at-time.Second; {
				admitted = admitted[1:]
			}
			got.total++
			if at < 100*time.Millisecond {
				got.first++
			}
			got.busiest = max(got.busiest, len(admitted))
		}
		if got != want {
			t.Errorf("%s admits %+v, want %+v", a, got, want)
		}
	}
}

// at returns when the i-th call is made, counted from the first.
func at(i int) time.Duration {
	t := time.Duration(i) * gap
	if t >= 4*time.Second {
		t += pause
	}
	if t >= 6*time.Second+pause {
		t += pause
	}
	return t
}
