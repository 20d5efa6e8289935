package report

import "math"

// column is a figure as tables show it.
type column struct {
	field  string // its name in JSON
	title  string // its head in documents
	short  string // its head on a terminal
	better Better
	tie    tie
	unit   unit
	rank   int  // the lower, the more it says; 0: it is not in the short table
	spare  bool // it counts what is wrong: the short table does without it where it is 0 in every run
	value  func(*Run) *float64

	format func(float64) string // of the column's unit, once the figures are known
}

// columns are those of the comparison, in their order.
var columns = []column{
	{field: "quota_use", title: "quota used", short: "quota", better: Higher, tie: within(.01), unit: fixed(percent), rank: 1, value: func(r *Run) *float64 { return r.QuotaUse }},
	{field: "refused_per_sent", title: "refused per sent", short: "refused", better: Lower, tie: within(.005), unit: fixed(percent), rank: 2, value: func(r *Run) *float64 { return r.RefusedPerSent }},
	{field: "lost", title: "lost", short: "lost", better: Lower, tie: within(0), unit: fixed(whole), rank: 3, spare: true, value: func(r *Run) *float64 { return float(r.Lost) }},
	{field: "duplicated", title: "duplicated", short: "dup", better: Lower, tie: within(0), unit: fixed(whole), rank: 3, spare: true, value: func(r *Run) *float64 { return float(r.Duplicated) }},
	{field: "unexpected", title: "unexpected", short: "unexp", better: Lower, tie: within(0), unit: fixed(whole), rank: 3, spare: true, value: func(r *Run) *float64 { return float(r.Unexpected) }},
	{field: "inversions", title: "inversions", short: "inv", better: Lower, tie: upTo(2), unit: fixed(whole), rank: 7, spare: true, value: func(r *Run) *float64 { return float(r.Inversions) }},
	{field: "cold_p50_ms", title: "cold p50", short: "cold p50", better: Lower, tie: upTo(1.2), unit: latencies, rank: 10, value: func(r *Run) *float64 { return r.ColdP50MS }},
	{field: "cold_p99_ms", title: "cold p99", short: "cold p99", better: Lower, tie: upTo(1.2), unit: latencies, rank: 5, value: func(r *Run) *float64 { return r.ColdP99MS }},
	{field: "hot_p50_ms", title: "hot p50", short: "hot p50", better: Lower, tie: upTo(1.2), unit: latencies, rank: 11, value: func(r *Run) *float64 { return r.HotP50MS }},
	{field: "hot_p99_ms", title: "hot p99", short: "hot p99", better: Lower, tie: upTo(1.2), unit: latencies, rank: 6, value: func(r *Run) *float64 { return r.HotP99MS }},
	{field: "goodput_per_s", title: "complete rooms per second", short: "rooms/s", better: Higher, tie: upTo(1.05), unit: fixed(number), rank: 4, value: func(r *Run) *float64 { return r.GoodputPerS }},
	{field: "drain_s", title: "drained in", short: "drain", better: Lower, tie: upTo(1.05), unit: fixed(seconds), rank: 4, value: func(r *Run) *float64 { return r.DrainS }},
	{field: "ideal_drain_s", title: "ideal drain", short: "ideal", unit: fixed(seconds), value: func(r *Run) *float64 { return r.IdealDrainS }},
	{field: "calls_per_record", title: "calls per message", short: "calls", better: Lower, tie: upTo(1.05), unit: fixed(number), rank: 12, value: func(r *Run) *float64 { return r.CallsPerRecord }},
	{field: "broker_ops_per_sent", title: "broker operations per sent", short: "ops", better: Lower, tie: upTo(2), unit: fixed(number), rank: 8, value: func(r *Run) *float64 { return r.BrokerOpsPerSent }},
	{field: "cpu_us_per_sent", title: "CPU per sent", short: "CPU", better: Lower, tie: upTo(2), unit: fixed(microseconds), rank: 9, value: func(r *Run) *float64 { return r.CPUUSPerSent }},
	{field: "peak_memory_bytes", title: "peak memory of a dispatcher", short: "memory", better: Lower, tie: upTo(1.2), unit: sizes, rank: 13, value: func(r *Run) *float64 { return float(r.PeakMemoryBytes) }},
	{field: "sent", title: "sent", short: "sent", unit: fixed(whole), value: func(r *Run) *float64 { return float(r.Sent) }},
	{field: "dead", title: "dead", short: "dead", better: Lower, tie: upTo(1.05), unit: fixed(whole), rank: 3, spare: true, value: func(r *Run) *float64 { return float(r.Dead) }},
	{field: "seconds", title: "ran for", short: "ran", unit: fixed(seconds), value: func(r *Run) *float64 { return &r.Seconds }},
}

// tie reports whether two figures differ by no more than two equal runs do.
//
// The quota moves by half a percent with where a second's last calls land, in
// either run. Refusals below half a percent are those of a page's first second.
// Equal runs were seen to differ by a twentieth in latency, and by up to twofold
// in order, operations and what the processors cost. What is counted for each
// message hardly differs.
type tie func(a, b float64) bool

func within(most float64) tie { return func(a, b float64) bool { return math.Abs(a-b) <= most } }

func upTo(ratio float64) tie {
	return func(a, b float64) bool { return max(a, b) <= ratio*min(a, b) }
}

// figures are those of the column that runs know.
func (c *column) figures(runs []Run) (known []float64) {
	for i := range runs {
		if v := c.value(&runs[i]); v != nil {
			known = append(known, *v)
		}
	}
	return known
}

// text is the run's figure as people read it.
func (c *column) text(r *Run) string {
	if v := c.value(r); v != nil {
		return c.format(*v)
	}
	return unknown
}

func float(v *int64) *float64 {
	if v == nil {
		return nil
	}
	return new(float64(*v))
}
