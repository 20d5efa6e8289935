package report

// column is a figure as tables show it.
type column struct {
	field  string // its name in JSON
	title  string // its head in documents, with its unit
	short  string // its head on a terminal
	better Better
	format func(float64) string
	value  func(*Run) *float64
	always bool // shown even if no run knows it
}

// columns are those of the comparison, in their order.
var columns = []column{
	{"quota_use", "quota used", "quota", Higher, percent, func(r *Run) *float64 { return r.QuotaUse }, true},
	{"refused_per_sent", "refused per sent", "refused", Lower, percent, func(r *Run) *float64 { return r.RefusedPerSent }, true},
	{"lost", "lost", "lost", Lower, whole, func(r *Run) *float64 { return float(r.Lost) }, true},
	{"duplicated", "duplicated", "dup", Lower, whole, func(r *Run) *float64 { return float(r.Duplicated) }, true},
	{"unexpected", "unexpected", "unexp", Lower, whole, func(r *Run) *float64 { return float(r.Unexpected) }, true},
	{"inversions", "inversions", "inv", Lower, whole, func(r *Run) *float64 { return float(r.Inversions) }, true},
	{"cold_p50_ms", "cold p50", "cold p50", Lower, milliseconds, func(r *Run) *float64 { return r.ColdP50MS }, true},
	{"cold_p99_ms", "cold p99", "cold p99", Lower, milliseconds, func(r *Run) *float64 { return r.ColdP99MS }, true},
	{"hot_p50_ms", "hot p50", "hot p50", Lower, milliseconds, func(r *Run) *float64 { return r.HotP50MS }, false},
	{"hot_p99_ms", "hot p99", "hot p99", Lower, milliseconds, func(r *Run) *float64 { return r.HotP99MS }, true},
	{"goodput_per_s", "complete rooms per second", "rooms/s", Higher, number, func(r *Run) *float64 { return r.GoodputPerS }, false},
	{"drain_s", "drained in", "drain", Lower, seconds, func(r *Run) *float64 { return r.DrainS }, false},
	{"ideal_drain_s", "ideal drain", "ideal", Neither, seconds, func(r *Run) *float64 { return r.IdealDrainS }, false},
	{"calls_per_record", "calls per message", "calls", Lower, number, func(r *Run) *float64 { return r.CallsPerRecord }, false},
	{"broker_ops_per_sent", "broker operations per sent", "ops", Lower, number, func(r *Run) *float64 { return r.BrokerOpsPerSent }, true},
	{"cpu_us_per_sent", "CPU per sent", "CPU", Lower, microseconds, func(r *Run) *float64 { return r.CPUUSPerSent }, true},
	{"peak_memory_bytes", "peak memory of a dispatcher", "memory", Lower, bytesize, func(r *Run) *float64 { return float(r.PeakMemoryBytes) }, false},
	{"sent", "sent", "sent", Neither, whole, func(r *Run) *float64 { return float(r.Sent) }, true},
	{"dead", "dead", "dead", Lower, whole, func(r *Run) *float64 { return float(r.Dead) }, true},
	{"seconds", "ran for", "ran", Neither, seconds, func(r *Run) *float64 { return &r.Seconds }, true},
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
