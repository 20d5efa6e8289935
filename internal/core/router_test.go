package core

import (
	"fmt"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
)

// TestCopiesBeyondTheLimitGoToTheLane checks that a page's copies go to the common
// queue up to a second's worth ahead of its limit, and then to its lane. Other
// pages' copies do not.
func TestCopiesBeyondTheLimitGoToTheLane(t *testing.T) {
	t.Parallel()
	b := memorytest.New(t, queue.Topology{Prefix: "t", Lanes: 4})
	defer b.Close()
	now := time.Unix(1000, 0)
	cfg := Config{Broker: b, Limit: func(string) float64 { return 300 }, Now: func() time.Time { return now }}
	r := newRouter(cfg, newMetrics(nil).overflowed)
	now = now.Add(time.Minute) // after the cautious first second
	count := func(page string, n int) (common, lane int) {
		for i := range n {
			switch q := r.queueFor(message.Outbound{Page: page, To: fmt.Sprint(i), Class: message.ClassText}, now); q {
			case b.Topology().Outbound():
				common++
			case b.Topology().LaneOf(page):
				lane++
			default:
				t.Fatalf("queueFor() = %q", q)
			}
		}
		return common, lane
	}
	if common, lane := count("hot", 1000); common != 295 || lane != 705 {
		t.Errorf("of 1000 copies at once %d went to the common queue and %d to the lane, want 295 and 705", common, lane)
	}
	if common, lane := count("cold", 99); common != 99 || lane != 0 {
		t.Errorf("of another page's 99 copies %d went to the common queue and %d to the lane, want all to the common one", common, lane)
	}
	now = now.Add(10 * time.Second)
	if _, lane := count("hot", 10); lane != 10 {
		t.Errorf("while its lane was not seen empty %d of 10 copies went there, want all, so that none overtakes", lane)
	}
}
