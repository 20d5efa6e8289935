package limit_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chatclub/fakeapi/limit"
)

// model is an algorithm's definition, evaluated over the whole history of
// calls with exact fractions and without any of the package's shortcuts.
type model struct {
	limit, burst, width, phase int64
	countRefused               bool
	calls                      []int64 // times that count, µs
	level                      *big.Rat
	last                       int64
}

func (m *model) in(from, to int64) int64 { // counted in [from, to)
	n := int64(0)
	for _, t := range m.calls {
		if t >= from && t < to {
			n++
		}
	}
	return n
}

func (m *model) windowStart(t int64) int64 {
	r := (t - m.phase) % m.width
	if r < 0 {
		r += m.width
	}
	return t - r
}

func rat(a, b int64) *big.Rat { return big.NewRat(a, b) }

func (m *model) fixedWindow(t int64) bool {
	s := m.windowStart(t)
	return m.in(s, s+m.width) < m.limit
}

func (m *model) slidingWindow(t int64) bool {
	s := m.windowStart(t)
	estimate := new(big.Rat).Mul(rat(m.in(s-m.width, s), 1), rat(m.width-(t-s), m.width))
	estimate.Add(estimate, rat(m.in(s, s+m.width)+1, 1))
	return estimate.Cmp(rat(m.limit, 1)) <= 0
}

func (m *model) slidingLog(t int64) bool { return m.in(t-m.width+1, t+1) < m.limit }

// bucket is a meter that leaks; a token bucket's tokens are burst − level.
func (m *model) bucket(t int64) bool {
	if m.level == nil {
		m.level, m.last = new(big.Rat), t
	}
	m.level.Sub(m.level, rat((t-m.last)*m.limit, m.width))
	if m.level.Sign() < 0 {
		m.level.SetInt64(0)
	}
	m.last = t
	full := new(big.Rat).Add(m.level, rat(1, 1))
	ok := full.Cmp(rat(m.burst, 1)) <= 0
	if ok || m.countRefused {
		m.level = full
	}
	if most := rat(2*m.burst, 1); m.level.Cmp(most) > 0 {
		m.level = most
	}
	return ok
}

func (m *model) allow(a limit.Algorithm, t int64) bool {
	var ok bool
	switch a {
	case limit.FixedWindow:
		ok = m.fixedWindow(t)
	case limit.SlidingWindow:
		ok = m.slidingWindow(t)
	case limit.SlidingLog:
		ok = m.slidingLog(t)
	case limit.TokenBucket, limit.LeakyBucket:
		return m.bucket(t)
	}
	if ok || m.countRefused && a != limit.FixedWindow {
		m.calls = append(m.calls, t)
	}
	return ok
}

// TestDefinition: over random arrivals each limiter admits exactly what its
// definition admits: never more, and never refusing what it admits.
func TestDefinition(t *testing.T) {
	t.Parallel()
	for _, a := range limit.Algorithms() {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				c := limit.Config{
					Algorithm:    a,
					Limit:        rapid.IntRange(1, 12).Draw(t, "limit"),
					Burst:        rapid.IntRange(1, 12).Draw(t, "burst"),
					Window:       time.Duration(rapid.IntRange(1, 20).Draw(t, "window")) * time.Millisecond,
					Phase:        time.Duration(rapid.IntRange(0, 9_000).Draw(t, "phase")) * time.Microsecond,
					CountRefused: rapid.Bool().Draw(t, "count refused"),
				}
				l, err := limit.New(c)
				if err != nil {
					t.Fatal(err)
				}
				m := &model{
					limit: int64(c.Limit), burst: int64(c.Burst), width: c.Window.Microseconds(),
					phase: c.Phase.Microseconds(), countRefused: c.CountRefused,
				}
				now := at(0).UnixMicro()
				for i, gap := range rapid.SliceOfN(rapid.IntRange(0, 4_000), 1, 150).Draw(t, "gaps") {
					now += int64(gap)
					moment := time.UnixMicro(now)
					free := l.Wait(moment) == 0
					want := m.allow(a, now)
					if got := l.Allow(moment); got != want || got != free {
						t.Fatalf("call %d after %d µs: Allow = %t, Wait = 0 is %t, want %t", i, gap, got, free, want)
					}
				}
				// The call is admitted after Wait, and not a microsecond earlier.
				moment := time.UnixMicro(now)
				w := l.Wait(moment)
				if w > time.Microsecond && l.Wait(moment.Add(w-time.Microsecond)) == 0 {
					t.Fatalf("Wait = %s, but a call is admitted earlier", w)
				}
				if !l.Allow(moment.Add(w)) {
					t.Fatalf("Wait = %s, but the call is refused then", w)
				}
			})
		})
	}
}
