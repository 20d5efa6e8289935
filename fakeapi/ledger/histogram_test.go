package ledger

import (
	"testing"
	"time"
)

// Every duration is counted in one bin, which is right to three digits; what is
// longer than an hour is an hour.
func TestHistogramIsRightToThreeDigits(t *testing.T) {
	t.Parallel()
	for us := int64(1); us < 2*longest; us += us/100 + 1 {
		var h histogram
		h.record(time.Duration(us) * time.Microsecond)
		bins := h.bins()
		want := min(us, longest)
		if len(bins) != 1 || bins[0].Count != 1 || h.total != 1 || abs(bins[0].Micros-want)*1000 > want {
			t.Fatalf("bins of %d µs = %v, want one of %d", us, bins, want)
		}
	}
	var h histogram
	for _, d := range []time.Duration{-time.Second, time.Millisecond, time.Second, time.Millisecond} {
		h.record(d)
	}
	if bins := h.bins(); len(bins) != 3 || bins[0] != (Bin{1, 1}) || bins[1] != (Bin{1000, 2}) || h.total != 4 {
		t.Errorf("bins = %v, want one of 1 µs, two of 1 ms and one of a second", bins)
	}
}

func abs(n int64) int64 { return max(n, -n) }
