package report

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The samples are invented: they show what reports look like, not what any
// strategy does.

// sampleRun is what differs between the runs of sampleSaturate.
type sampleRun struct {
	strategy        string
	replicas        int
	use, refused    float64
	cold50, cold99  float64
	hot99           float64
	ops, cpu        float64
	dup, inversions int64
}

// sampleSaturate is a comparison of nine strategies.
func sampleSaturate() *Report {
	r := &Report{
		Schema: Schema, Scenario: "saturate", Title: "TEST SAMPLE, invented figures: three pages with three times what they may send",
		Source:     "this is a sample for the tests of package report; nothing was measured",
		Parameters: []Parameter{{"replicas", "4"}, {"duration", "20s"}, {"limit", "300"}, {"pages", "3"}},
		Expectations: []Expectation{
			{Text: "at least 97 % of the quota is used", Of: "chatclub", Met: new(true), Got: "98.01 %"},
			{Text: "at most 0.1 % of the calls are refused", Of: "chatclub", Met: new(false), Got: "0.12 %"},
			{Text: "the published algorithm has several refusals per send", Of: "article"},
		},
		Command:  "loadtest compare saturate -replicas 4 -duration 20s -seed 7",
		Seed:     7,
		Started:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Versions: Versions{Go: "go1.26.0", Chatclub: "0123456789ab", Broker: "memory", Redis: "7.0.15"},
		Machine:  Machine{OS: "linux", Arch: "amd64", CPUs: 2, CPU: "Sample CPU", MemoryBytes: 8 << 30, Kernel: "6.1.0"},
		Notes:    []string{"figures of this report are invented"},
	}
	for i, s := range []sampleRun{
		{"naive", 4, .81, 8.07, 55, 390, 9100, 3, 210, 0, 4012},
		{"article", 4, .969, 5.76, 4900, 49000, 21000, 47.2, 640, 0, 1822},
		{"static", 4, .98, 0, 41, 152, 13200, 5.9, 140, 0, 12},
		{"pinned", 4, .974, .0002, 42, 160, 13300, 5.9, 141, 0, 0},
		{"redis", 4, .98, 0, 44, 171, 13100, 5.9, 212, 0, 31},
		{"synced", 4, .962, .031, 42, 158, 13500, 5.9, 160, 0, 44},
		{"leased", 4, .871, .0004, 43, 166, 15100, 6, 151, 0, 19},
		{"aimd-only", 4, .913, .041, 42, 161, 14200, 5.9, 146, 2, 51},
		{"chatclub", 4, .9801, .0012, 41, 150, 13150, 5.9, 139, 0, 0},
	} {
		r.Runs = append(r.Runs, s.run(uint64(i+1)))
	}
	naive := &r.Runs[0]
	naive.Status, naive.Reason = Interrupted, "stopped after 20s of 40s"
	leased := &r.Runs[6]
	leased.BrokerOpsPerSent, leased.CPUUSPerSent = nil, nil
	leased.Lost = new(int64(3))
	return r
}

func (s sampleRun) run(seed uint64) Run {
	rng := rand.New(rand.NewPCG(seed, 0))
	series := Series{Name: "hot page 1", StepMS: 1000}
	var sent int64
	for t := range 20 {
		n := int64(math.Round(300 * min(1, s.use*(1+.02*rng.NormFloat64()))))
		if t < 2 {
			n = n * int64(t+1) / 3
		}
		refused := int64(math.Round(float64(n) * s.refused * (1 + .2*rng.NormFloat64())))
		sent += 3 * n
		series.Sent = append(series.Sent, n)
		series.Refused = append(series.Refused, max(0, refused))
		series.Limit = append(series.Limit, 300)
	}
	return Run{
		Figures: Figures{
			Strategy: s.strategy, Replicas: s.replicas, QuotaUse: new(s.use), RefusedPerSent: new(s.refused),
			Lost: new(int64(0)), Duplicated: new(s.dup), Unexpected: new(int64(0)), Inversions: new(s.inversions),
			ColdP50MS: new(s.cold50), ColdP99MS: new(s.cold99), HotP99MS: new(s.hot99),
			BrokerOpsPerSent: new(s.ops), CPUUSPerSent: new(s.cpu), Sent: new(sent), Dead: new(int64(0)), Seconds: 20,
		},
		Extras: Extras{
			PeakMemoryBytes: new(int64(48+seed) << 20),
			CPU:             &CPUSplit{Dispatchers: new(s.cpu * .5), Broker: new(s.cpu * .3), Fake: new(s.cpu * .2)},
		},
		Series: []Series{series},
		Latency: []Latency{
			sampleLatency(rng, "cold", 5000, s.cold50, s.cold99),
			sampleLatency(rng, "hot", 17000, s.hot99/2.1, s.hot99),
		},
	}
}

// sampleLatency draws from a log-normal distribution with the percentiles given.
func sampleLatency(rng *rand.Rand, class string, n int, p50, p99 float64) Latency {
	h := hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
	sigma := math.Log(p99/p50) / 2.326
	for range n {
		if err := h.RecordValue(int64(1000 * p50 * math.Exp(sigma*rng.NormFloat64()))); err != nil {
			panic(err)
		}
	}
	return NewLatency(class, h, time.Microsecond)
}

// sampleOverload has a goodput curve, and figures that are not known.
func sampleOverload() *Report {
	r := &Report{
		Schema: Schema, Scenario: "aws-overload", Title: "TEST SAMPLE, invented figures: half to ten times the capacity is offered",
		Source:       "this is a sample for the tests of package report; nothing was measured",
		Command:      "loadtest compare aws-overload -seed 7",
		Seed:         7,
		Started:      time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC),
		Expectations: []Expectation{{Text: "the curve stays flat and recovers", Of: "chatclub", Met: new(true), Got: "at least 294 of 300/s"}},
	}
	for _, s := range []string{"naive", "chatclub"} {
		run := Run{Figures: Figures{Strategy: s, Replicas: 2, QuotaUse: new(.97), Sent: new(int64(40000)), Lost: new(int64(0)), Seconds: 90}, Curve: &Curve{CapacityPerS: new(300.)}}
		run.Measures = []Measure{{Name: "worst goodput", Unit: "/s", Better: Higher, Value: new(294.)}}
		for i, f := range []float64{.5, .8, 1, 1.5, 2, 4, 7, 10, 1} {
			p := CurvePoint{OfferedPerS: 300 * f, GoodputPerS: new(min(300*f, 294)), P50MS: new(42.), P99MS: new(170.), Recovery: i == 8}
			if s == "naive" && f >= 1 {
				p.GoodputPerS, p.P50MS, p.P99MS = new(300/f/1.1), new(40*f*f), new(600*f*f)
				if i == 8 {
					p.GoodputPerS = new(120.)
				}
			}
			run.Curve.Points = append(run.Curve.Points, p)
		}
		r.Runs = append(r.Runs, run)
	}
	r.Runs[0].Measures[0].Value = new(27.3)
	return r
}

// sampleHostile is full of texts that are no markup.
func sampleHostile() *Report {
	const evil = `</script><script>alert(1)</script><img src=x onerror=alert(1)>| a "b" 'c' & Grüße ` + "\x1b[31m`code` \n# no heading"
	r := &Report{
		Schema: Schema, Scenario: "hostile", Title: evil, Source: evil, Command: evil, Notes: []string{evil},
		Parameters: []Parameter{{evil, evil}}, Expectations: []Expectation{{Text: evil, Of: evil, Got: evil}},
		Versions: Versions{Go: evil, Chatclub: evil, Broker: evil}, Machine: Machine{OS: evil, CPU: evil, Kernel: evil},
	}
	run := sampleRun{evil, 1, .9, .1, 40, 150, 1000, 3, 100, 0, 0}.run(1)
	run.Label, run.Status, run.Reason, run.Notes = evil, Inconclusive, evil, []string{evil}
	run.Series[0].Name, run.Latency[0].Class = evil, evil
	run.Measures = []Measure{{Name: evil, Unit: evil, Value: new(1.)}}
	r.Runs = []Run{run}
	return r
}
