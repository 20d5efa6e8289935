package report

import (
	"errors"
	"fmt"
	"math"
	"regexp"
)

// scenarioName is what a scenario may be called: it names a folder and an
// argument of a command.
var scenarioName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)

// validate returns every fault of the report, each with the field's path as
// JSON names it.
func (r *Report) validate() error {
	var f faults
	if r.Schema != Schema {
		f.add("schema is %d, want %d", r.Schema, Schema)
	}
	if !scenarioName.MatchString(r.Scenario) {
		f.add("scenario is %q, want a name of small letters, digits and dashes", r.Scenario)
	}
	for i := range r.Runs {
		r.Runs[i].validate(&f, fmt.Sprintf("runs[%d]", i))
	}
	return errors.Join(f...)
}

// most bounds every figure: beyond it float64 no longer tells whole numbers
// apart, and no run gets near.
const most = 1e15

// faults are what is wrong with a report.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

// figure checks a figure that may be unknown.
func (f *faults) figure(path string, v *float64) {
	if v != nil && !(*v >= 0 && *v <= most) {
		f.add("%s is %v, want a number from 0 to %g, or null", path, *v, most)
	}
}

func (f *faults) count(path string, v *int64) {
	if v != nil && (*v < 0 || *v > most) {
		f.add("%s is %d, want 0 to %g, or null", path, *v, most)
	}
}

func (r *Run) validate(f *faults, at string) {
	if r.Strategy == "" {
		f.add("%s.strategy is empty", at)
	}
	switch r.Status {
	case Complete, Interrupted, Inconclusive, Failed:
	default:
		f.add("%s.status is %q, want %q, %q, %q or none", at, r.Status, Interrupted, Inconclusive, Failed)
	}
	if r.Replicas < 0 {
		f.add("%s.replicas is %d, want 0 or more", at, r.Replicas)
	}
	for _, c := range columns {
		f.figure(at+"."+c.field, c.value(r))
	}
	r.Extras.validate(f, at)
	r.validateRounds(f, at)
	for i := range r.Series {
		r.Series[i].validate(f, fmt.Sprintf("%s.series[%d]", at, i))
	}
	for i := range r.Latency {
		r.Latency[i].validate(f, fmt.Sprintf("%s.latency[%d]", at, i))
	}
	if r.Curve != nil {
		r.Curve.validate(f, at+".curve")
	}
}

// validateRounds wants them to be of the run's strategy, and as sound as it.
func (r *Run) validateRounds(f *faults, at string) {
	for i := range r.Rounds {
		o := &r.Rounds[i]
		path := fmt.Sprintf("%s.rounds[%d]", at, i)
		if o.Strategy != r.Strategy {
			f.add("%s.strategy is %q, want the run's, %q", path, o.Strategy, r.Strategy)
		}
		if o.Replicas != r.Replicas {
			f.add("%s.replicas is %d, want the run's, %d", path, o.Replicas, r.Replicas)
		}
		for _, c := range columns {
			f.figure(path+"."+c.field, c.value(&Run{Figures: o.Figures, Extras: o.Extras}))
		}
		o.validate(f, path)
	}
}

func (e *Extras) validate(f *faults, at string) {
	f.count(at+".rooms", e.Rooms)
	f.count(at+".complete_rooms", e.CompleteRooms)
	if e.CPU != nil {
		f.figure(at+".cpu_us_per_sent_of.dispatchers", e.CPU.Dispatchers)
		f.figure(at+".cpu_us_per_sent_of.front", e.CPU.Front)
		f.figure(at+".cpu_us_per_sent_of.broker", e.CPU.Broker)
		f.figure(at+".cpu_us_per_sent_of.fake", e.CPU.Fake)
	}
	e.validateMeasures(f, at)
}

func (e *Extras) validateMeasures(f *faults, at string) {
	seen := make(map[string]bool)
	for i, m := range e.Measures {
		path := fmt.Sprintf("%s.measures[%d]", at, i)
		if m.Name == "" {
			f.add("%s.name is empty", path)
		}
		if seen[m.Name] {
			f.add("%s.name is %q again", path, m.Name)
		}
		seen[m.Name] = true
		switch m.Better {
		case Neither, Lower, Higher:
		default:
			f.add("%s.better is %q, want %q, %q or none", path, m.Better, Lower, Higher)
		}
		if m.Value != nil && !(math.Abs(*m.Value) <= most) {
			f.add("%s.value is %v, want a number from -%[3]g to %[3]g, or null", path, *m.Value, most)
		}
	}
}

func (s *Series) validate(f *faults, at string) {
	if s.StepMS < 1 || s.StepMS > 3_600_000 {
		f.add("%s.step_ms is %d, want 1 to an hour", at, s.StepMS)
	}
	for _, o := range []struct {
		name string
		n    int
	}{{"refused", len(s.Refused)}, {"limit", len(s.Limit)}} {
		if o.n != 0 && o.n != len(s.Sent) {
			f.add("%s.%s has %d steps, sent has %d", at, o.name, o.n, len(s.Sent))
		}
	}
	for i := range s.Sent {
		f.count(fmt.Sprintf("%s.sent[%d]", at, i), &s.Sent[i])
	}
	for i := range s.Refused {
		f.count(fmt.Sprintf("%s.refused[%d]", at, i), &s.Refused[i])
	}
	for i := range s.Limit {
		f.figure(fmt.Sprintf("%s.limit[%d]", at, i), &s.Limit[i])
	}
}

func (l *Latency) validate(f *faults, at string) {
	if l.Class == "" {
		f.add("%s.class is empty", at)
	}
	for i := range l.Percentiles {
		p := &l.Percentiles[i]
		path := fmt.Sprintf("%s.percentiles[%d]", at, i)
		if !(p.Percent >= 0 && p.Percent <= 100) {
			f.add("%s.percent is %v, want 0 to 100", path, p.Percent)
		}
		f.figure(path+".ms", &p.MS)
		if i > 0 && (p.Percent <= l.Percentiles[i-1].Percent || p.MS < l.Percentiles[i-1].MS) {
			f.add("%s is below the one before", path)
		}
	}
}

func (c *Curve) validate(f *faults, at string) {
	f.figure(at+".capacity_per_s", c.CapacityPerS)
	for i := range c.Points {
		p := &c.Points[i]
		path := fmt.Sprintf("%s.points[%d]", at, i)
		f.figure(path+".offered_per_s", &p.OfferedPerS)
		f.figure(path+".goodput_per_s", p.GoodputPerS)
		f.figure(path+".p50_ms", p.P50MS)
		f.figure(path+".p99_ms", p.P99MS)
	}
}
