package report

import "testing"

func TestHeadline(t *testing.T) {
	t.Parallel()
	run := func(strategy string, set func(*Run)) Run {
		return runOf(strategy, func(r *Run) { r.Sent = new(int64(9)); set(r) })
	}
	flow := func(quota, refused, calls float64) func(*Run) {
		return func(r *Run) { r.QuotaUse, r.RefusedPerSent, r.CallsPerRecord = &quota, &refused, &calls }
	}
	cold := func(quota, refused, ms float64) func(*Run) {
		return func(r *Run) { r.QuotaUse, r.RefusedPerSent, r.ColdP99MS = &quota, &refused, &ms }
	}
	drain := func(s float64) func(*Run) {
		return func(r *Run) { r.DrainS, r.IdealDrainS = &s, new(4.) }
	}
	stored := func(ms float64) func(*Run) {
		return func(r *Run) {
			r.Measures = []Measure{{Name: "p95", Unit: "ms", Value: &ms, Better: Lower}, {Name: "left on queues", Value: new(3.)}}
		}
	}
	for _, c := range []struct {
		runs []Run
		want string
	}{
		{[]Run{run(Own, flow(.984, 0, 1)), run("article", flow(1, 7.66, 8.66)), run("static", flow(.98, 0, 1))}, "chatclub used 98.40 % of the limit with no refused call; the article's way needed 8.66 calls a message"},
		{[]Run{run(Own, flow(.984, 0, 1)), run("naive", flow(1, 8, 9)), run("article", flow(1, 7.66, 8.66))}, "chatclub used 98.40 % of the limit with no refused call; the article's way needed 8.66 calls a message"},
		{[]Run{run(Own, flow(.98, .0012, 1)), run("aimd", flow(.9, .01, 1.01)), run("static", flow(.97, 0, 1))}, "chatclub used 98.00 % of the limit with 0.12 refused calls for every 100 sent; aimd used 90.00 %"},
		{[]Run{run(Own, cold(.98, 0, 2.4)), run("static", cold(.98, 0, 466))}, "chatclub used 98.00 % of the limit with no refused call; pages below their limit waited 2.4 ms (p99); with static they waited 466 ms"},
		{[]Run{run(Own, flow(.984, 0, 1)), run(Own, flow(.971, .01, 1))}, "chatclub used 97.10 % of the limit with 1.00 refused calls for every 100 sent"},
		{[]Run{run(Own, drain(4.1))}, "chatclub sent all of it within 4.1 s, where the limit alone takes 4.0 s"},
		{[]Run{run(Own, stored(199)), run(Own, stored(200))}, "chatclub, at worst: p95 200 ms"},
		{[]Run{run("article", flow(1, 7.66, 8.66))}, ""},
		{[]Run{run(Own, func(*Run) {})}, ""},
		{[]Run{runOf(Own, flow(.5, 0, 1))}, ""}, // it failed: nothing was sent
	} {
		if got := headline(&Report{Runs: c.runs}); got != c.want {
			t.Errorf("headline = %q, want %q", got, c.want)
		}
	}
	asked := &Report{
		Runs:         []Run{run(Own, func(*Run) {})},
		Expectations: []Expectation{{Text: "nothing lost", Of: Own, Met: new(true)}, {Text: "at most 1.3 × the cost", Of: Own, Met: new(true), Got: "1.05 ×"}},
	}
	if got, want := headline(asked), "chatclub: at most 1.3 × the cost (1.05 ×)"; got != want {
		t.Errorf("headline without a figure of its own = %q, want the last expectation %q", got, want)
	}
	asked.Expectations[1].Met = nil
	if got := headline(asked); got != "" {
		t.Errorf("headline where the question is open = %q, want none", got)
	}
	if got, want := headline(sampleOverload()), "chatclub used 97.00 % of the limit; chatclub delivered 294 a second in time, of 3,000 offered; chatclub: worst goodput 294 /s"; got != want {
		t.Errorf("headline = %q, want %q", got, want)
	}
}
