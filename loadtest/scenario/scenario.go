// Package scenario is the table of what can be put to the test: each scenario
// says where it comes from, what load it makes, with which parameters, and what
// is to be expected of this project's dispatcher. What it measures is package
// trial's.
package scenario

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/limit"
	"chatclub/loadtest/report"
	"chatclub/loadtest/trial"
)

// Own is the strategy that the expectations are about.
const Own = report.Own

// Scenario is a row of the table.
type Scenario struct {
	Name   string
	Title  string // one line
	Source string // where it comes from, one line

	// OwnOnly says that it is about the dispatcher and not about the ways of
	// sharing a limit: comparing those in it would show nothing.
	OwnOnly bool
	// Paired says that it repeats its runs by itself, in pairs.
	Paired   bool
	defaults Common
	// unused are the common flags that mean nothing to it: it does not have
	// them, so that setting one is an error.
	unused []string
	// define adds the scenario's own flags, and returns what makes a Set of
	// them once they are parsed.
	define func(fs *flag.FlagSet) func(c Common) (Set, error)
}

// Set is what a scenario came to with given parameters.
type Set struct {
	Parts []Part
	// Expect judges the runs of one strategy, in the order of Parts.
	Expect func(runs []report.Run) []report.Expectation
}

// Takes returns about how long it takes to run all parts with so many strategies.
func (s Set) Takes(strategies int) (all time.Duration) {
	for _, part := range s.Parts {
		times := strategies
		if part.Baseline {
			times = 1
		}
		all += time.Duration(times) * part.Plan.Takes()
	}
	return all
}

// Part is one run of each strategy.
type Part struct {
	Label string // "": the only one
	Plan  trial.Plan

	// Baseline says that it is not compared, but what the others are measured
	// against: it runs with this project's strategy alone, or with Strategy.
	Baseline bool
	// Strategy runs in place of the one that is put to the test: what it is
	// measured against. "": none does.
	Strategy string
}

// Common are the parameters that scenarios have in common.
type Common struct {
	Duration  time.Duration
	Warm      time.Duration
	Replicas  int
	Limit     int
	Algorithm string
	Refused   bool
	Latency   string
	Via       string
	Room      int
	Drain     time.Duration
	Seed      uint64

	Partitions int // queues that share the messages to the dispatchers; no flag of the scenarios
}

// Flags adds the common flags with the scenario's defaults, and its own; the
// returned function makes the Set once fs is parsed.
func (s Scenario) Flags(fs *flag.FlagSet) (*Common, func() (Set, error)) {
	c := s.defaults
	common := flag.NewFlagSet("", flag.ContinueOnError)
	c.add(common)
	common.VisitAll(func(f *flag.Flag) {
		if !slices.Contains(s.unused, f.Name) {
			fs.Var(f.Value, f.Name, f.Usage)
		}
	})
	build := s.define(fs)
	return &c, func() (Set, error) {
		if err := c.validate(); err != nil {
			return Set{}, err
		}
		if c.Warm < 0 {
			c.Warm = min(5*time.Second, (c.Duration / 4).Round(time.Second))
		}
		if c.Room == 0 && c.Via == trial.ViaWebhook {
			c.Room = 10
		}
		set, err := build(c)
		if err != nil {
			return Set{}, err
		}
		for i := range set.Parts {
			c.apply(&set.Parts[i].Plan)
		}
		return set, nil
	}
}

// CommonFlags adds the common flags with their usual defaults.
func CommonFlags(fs *flag.FlagSet) { new(Common).add(fs) }

// add fills in what has no default and adds a flag for each.
func (c *Common) add(fs *flag.FlagSet) {
	c.fill()
	fs.DurationVar(&c.Duration, "duration", c.Duration, "how long the load lasts")
	fs.DurationVar(&c.Warm, "warm", c.Warm, "how much of it the quota used leaves out; -1s: a quarter in whole seconds, 5s at most")
	fs.IntVar(&c.Replicas, "replicas", c.Replicas, "dispatchers at the start")
	fs.IntVar(&c.Limit, "limit", c.Limit, "messages per second and page that the platform takes")
	fs.StringVar(&c.Algorithm, "algorithm", c.Algorithm, "the platform's limiter: "+algorithms())
	fs.BoolVar(&c.Refused, "count-refused", c.Refused, "refused calls count against the limit too")
	fs.StringVar(&c.Latency, "latency", c.Latency, "the platform's: "+fakeapi.Latency{}.Describe())
	fs.StringVar(&c.Via, "via", c.Via, "entry: outbound (copies straight onto the queue) or webhook (signed events through the whole system)")
	fs.IntVar(&c.Room, "room", c.Room, "members of a room; 0: single copies, via webhook rooms of 10")
	fs.DurationVar(&c.Drain, "drain", c.Drain, "how long to wait after the load until everything has arrived; 0: what is left is counted, not awaited")
	fs.Uint64Var(&c.Seed, "seed", c.Seed, "of the load")
}

func (c *Common) fill() {
	if c.Duration == 0 {
		c.Duration = 20 * time.Second
	}
	if c.Warm == 0 {
		c.Warm = -time.Second
	}
	if c.Replicas == 0 {
		c.Replicas = 4
	}
	if c.Limit == 0 {
		c.Limit = 300
	}
	if c.Algorithm == "" {
		c.Algorithm = string(limit.FixedWindow)
	}
	if c.Latency == "" {
		c.Latency = "lognormal:700ms,1.9s"
	}
	if c.Via == "" {
		c.Via = trial.ViaOutbound
	}
	if c.Partitions == 0 {
		c.Partitions = 64
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
}

func algorithms() string {
	var names []string
	for _, a := range limit.Algorithms() {
		names = append(names, string(a))
	}
	return strings.Join(names, ", ")
}

// validate names every faulty flag.
func (c *Common) validate() error {
	var faults []error
	bad := func(flag, format string, args ...any) {
		faults = append(faults, fmt.Errorf("-%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	if c.Duration < time.Second || c.Duration > 24*time.Hour {
		bad("duration", "%v must be 1s to 24h", c.Duration)
	}
	if c.Warm >= c.Duration {
		bad("warm", "%v must be below -duration", c.Warm)
	}
	if c.Replicas < 1 || c.Replicas > 256 {
		bad("replicas", "%d must be 1 to 256", c.Replicas)
	}
	if c.Limit < 1 || c.Limit > 1_000_000 {
		bad("limit", "%d must be 1 to 1000000", c.Limit)
	}
	if err := (limit.Config{Algorithm: limit.Algorithm(c.Algorithm), Limit: max(1, c.Limit)}).Validate(); err != nil {
		bad("algorithm", "%v", err)
	}
	if _, err := fakeapi.ParseLatency(c.Latency); err != nil {
		bad("latency", "%v", err)
	}
	if c.Via != trial.ViaOutbound && c.Via != trial.ViaWebhook {
		bad("via", "%.40q is neither outbound nor webhook", c.Via)
	}
	if c.Room != 0 && (c.Room < 2 || c.Room > 100) {
		bad("room", "%d must be 2 to 100, or 0", c.Room)
	}
	if c.Drain < 0 || c.Drain > 24*time.Hour {
		bad("drain", "%v must be 0 to 24h", c.Drain)
	}
	return errors.Join(faults...)
}

// apply gives a plan what all plans have.
func (c *Common) apply(p *trial.Plan) {
	if p.Limit == 0 {
		p.Limit = float64(c.Limit)
	}
	if p.Length == 0 {
		p.Length = c.Duration
	}
	if p.Warm == 0 {
		p.Warm = c.Warm
	}
	if p.Replicas == 0 {
		p.Replicas = c.Replicas
	}
	if p.Drain == 0 {
		p.Drain = c.Drain
	}
	if p.Room == 0 {
		p.Room = c.Room
	}
	// No dispatcher knows where in a second the platform's windows begin. It is
	// the same for all strategies.
	phase := fakeapi.Duration(time.Duration(c.Seed*317%1000) * time.Millisecond)
	algorithm := c.Algorithm
	if p.Algorithm != "" {
		algorithm = p.Algorithm
	}
	settings := map[string]any{
		"text":    map[string]any{"algorithm": algorithm, "per_second": int(p.Limit), "count_refused": c.Refused, "phase": phase},
		"latency": c.Latency,
	}
	maps.Copy(settings, p.Platform)
	p.Platform = settings
}

// All is the table.
func All() []Scenario {
	return []Scenario{
		chatclubRoom(), saturate(), neighbour(), zipf(), bursts(), scale(), limitChange(), sharedLimit(), smallLimits(),
		livelyRoom(), tenRooms(), voice(), sickMember(), sickPage(), laneNeighbour(), rollingRestart(),
		azure(), pushwoosh(), mindbox(), aws(), ceiling(),
	}
}

// Find returns the scenario of a name.
func Find(name string) (Scenario, bool) {
	for _, s := range All() {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}
