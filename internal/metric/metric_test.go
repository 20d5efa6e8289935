package metric_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/metric"
)

// TestCounters: each value of the label has its series from the start.
func TestCounters(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	taken := metric.Counters(metric.Set{Subsystem: "test", Registerer: reg}.CounterVec("taken_total", "Taken.", "again"), false, true)
	taken[true].Add(2)
	const want = `
# HELP chatclub_test_taken_total Taken.
# TYPE chatclub_test_taken_total counter
chatclub_test_taken_total{again="false"} 0
chatclub_test_taken_total{again="true"} 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestNotShown: without a registry metrics count all the same.
func TestNotShown(t *testing.T) {
	t.Parallel()
	for range 2 { // of one name: neither is registered
		c := metric.Set{Subsystem: "test"}.Counter("taken_total", "Taken.")
		c.Inc()
		if got := testutil.ToFloat64(c); got != 1 {
			t.Errorf("counter = %g, want 1", got)
		}
	}
}
