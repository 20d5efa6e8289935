package report

import (
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func TestLatencyOfAHistogram(t *testing.T) {
	t.Parallel()
	h := hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
	if l := NewLatency("none", h, time.Microsecond); l.Count != 0 || len(l.Percentiles) != 0 {
		t.Errorf("latency of nothing = %+v, want no percentiles", l)
	}
	for ms := range int64(1000) {
		if err := h.RecordValue((ms + 1) * 1000); err != nil {
			t.Fatal(err)
		}
	}
	l := NewLatency("cold", h, time.Microsecond)
	if l.Class != "cold" || l.Count != 1000 {
		t.Errorf("latency = %s, %d, want cold, 1000", l.Class, l.Count)
	}
	for _, c := range []struct{ percent, ms float64 }{{50, 500}, {99, 990}, {99.9, 999}, {100, 1000}} {
		i := slices.IndexFunc(l.Percentiles, func(p Percentile) bool { return p.Percent == c.percent })
		if i < 0 {
			t.Errorf("percentile %v is missing", c.percent)
			continue
		}
		// Three significant digits: within one in a thousand.
		if got := l.Percentiles[i].MS; got < c.ms*.999 || got > c.ms*1.001 {
			t.Errorf("percentile %v = %v ms, want %v", c.percent, got, c.ms)
		}
	}
	if slices.ContainsFunc(l.Percentiles, func(p Percentile) bool { return p.Percent > 99.9 && p.Percent < 100 }) {
		t.Errorf("percentiles = %v, want none that a thousand messages cannot tell", l.Percentiles)
	}
	r := &Report{Schema: Schema, Scenario: "x", Runs: []Run{{Figures: Figures{Strategy: "s"}, Latency: []Latency{l}}}}
	if err := r.validate(); err != nil {
		t.Errorf("validate = %v", err)
	}
}
