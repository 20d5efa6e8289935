package aimd_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chatclub/internal/aimd"
)

// model follows the package comment, plainly: it keeps the latencies of
// the sample and sorts them.
type model struct {
	cfg      aimd.Config
	perMille int
	limit    float64
	sample   []time.Duration
	peak     int
	cut      time.Time
}

func (m *model) observe(now time.Time, latency time.Duration, inFlight int) {
	if now.Add(-latency).Before(m.cut) {
		return
	}
	m.sample = append(m.sample, latency)
	m.peak = max(m.peak, inFlight)
	if len(m.sample) < m.cfg.Window {
		return
	}
	m.sample = m.sample[len(m.sample)-m.cfg.Window:]
	rank := (m.perMille*m.cfg.Window + 999) / 1000
	if slices.Sorted(slices.Values(m.sample))[rank-1] > m.cfg.Target {
		m.limit = max(m.cfg.Backoff*min(m.limit, 2*float64(m.peak)), float64(m.cfg.Min))
		m.sample, m.peak, m.cut = nil, 0, now
	} else if inFlight*2 >= int(m.limit) {
		m.limit = min(m.limit+1/max(float64(m.cfg.Window), m.limit), float64(m.cfg.Max))
	}
}

// TestLimiterIsTheModel, whose bounds hold, for any sequence of results.
func TestLimiterIsTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := model{perMille: rapid.IntRange(1, 999).Draw(t, "percentile in ‰")}
		m.cfg = aimd.Config{
			Min:        rapid.IntRange(1, 10).Draw(t, "min"),
			Target:     fast,
			Percentile: float64(m.perMille) / 1000,
			Window:     rapid.IntRange(1, 40).Draw(t, "window"),
			Backoff:    rapid.Float64Range(.01, .99).Draw(t, "backoff"),
		}
		m.cfg.Max = rapid.IntRange(m.cfg.Min, 50).Draw(t, "max")
		m.cfg.Start = rapid.IntRange(m.cfg.Min, m.cfg.Max).Draw(t, "start")
		m.limit = float64(m.cfg.Start)
		l, err := aimd.New(m.cfg)
		if err != nil {
			t.Fatal(err)
		}
		now := epoch
		slowShare := rapid.Float64Range(0, 1).Draw(t, "share of slow calls")
		for range rapid.IntRange(1, 300).Draw(t, "results") {
			now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "pause")) * ms)
			latency := fast - time.Duration(rapid.IntRange(0, 90).Draw(t, "fast by"))*ms
			if rapid.Float64Range(0, 1).Draw(t, "slow") < slowShare {
				latency += fast
			}
			inFlight := rapid.IntRange(-1, 60).Draw(t, "in flight")
			before := l.Limit()
			l.Observe(now, latency, inFlight)
			m.observe(now, latency, inFlight)
			got := l.Limit()
			if got != int(m.limit) {
				t.Fatalf("Limit() = %d, want %d", got, int(m.limit))
			}
			if got < m.cfg.Min || got > m.cfg.Max || got > before+1 || got > before && 2*inFlight < before {
				t.Fatalf("Limit() went from %d to %d with %d in flight, bounds %d and %d", before, got, inFlight, m.cfg.Min, m.cfg.Max)
			}
		}
	})
}

// TestAnyResult: nothing that a caller can say takes the limit out of bounds.
func TestAnyResult(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l, err := aimd.New(aimd.Config{Min: 3, Max: 9, Start: 5, Target: fast, Window: 2})
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			now := time.Unix(0, rapid.Int64().Draw(t, "now"))
			latency := time.Duration(rapid.Int64().Draw(t, "latency"))
			l.Observe(now, latency, rapid.Int().Draw(t, "in flight"))
			if got := l.Limit(); got < 3 || got > 9 {
				t.Fatalf("Limit() = %d, want 3 to 9", got)
			}
		}
	})
}
