// Package report keeps what a load run has found, and shows it: as report.json,
// a table for a terminal, report.md, pictures, and one report.html that needs
// no network.
//
// A figure that a run cannot know is nil: null or absent in JSON and "–"
// wherever people read it, never 0. Nothing here measures, and nothing here
// judges a figure but for marking the best of a column. The verdict is that of
// the scenario's expectations.
package report

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Schema is the version of report.json. It grows when a field changes its
// meaning or goes, not when an optional one comes.
const Schema = 1

// Strategies that have a part in every comparison.
const (
	Own       = "chatclub" // this project's
	published = "article"  // the published algorithm
)

// Report is what was run and found for one scenario.
type Report struct {
	Schema       int           `json:"schema"`
	Scenario     string        `json:"scenario"`               // the name it is run by, as in "saturate"
	Title        string        `json:"title,omitempty"`        // one line for people
	Source       string        `json:"source,omitempty"`       // where the scenario comes from, one line
	Parameters   []Parameter   `json:"parameters,omitempty"`   // in the order to show them in
	Expectations []Expectation `json:"expectations,omitempty"` //
	Command      string        `json:"command,omitempty"`      // what to type to run it again
	Seed         uint64        `json:"seed"`                   // of the load
	Started      time.Time     `json:"started"`                //
	Versions     Versions      `json:"versions"`               //
	Machine      Machine       `json:"machine"`                //
	Notes        []string      `json:"notes,omitempty"`        // on the whole report
	Unfinished   string        `json:"unfinished,omitempty"`   // why not all runs are here, as in "stopped after 2 of 9 strategies"
	Runs         []Run         `json:"runs"`                   //
}

// Parameter is one setting of the scenario.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Expectation is what the scenario says should be seen.
type Expectation struct {
	Text string `json:"text"`
	Of   string `json:"of,omitempty"`  // the strategy that it is about; empty: the whole scenario
	Met  *bool  `json:"met"`           // nil: the run could not tell
	Got  string `json:"got,omitempty"` // what was seen instead, or in proof
}

// Versions are those of the software that was measured.
type Versions struct {
	Go       string `json:"go,omitempty"`
	Chatclub string `json:"chatclub,omitempty"` // revision of this project, "+dirty" if changed since
	Broker   string `json:"broker,omitempty"`   // as in "memory" or "RabbitMQ 3.10.8"
	Redis    string `json:"redis,omitempty"`
}

// Machine is what it was measured on.
type Machine struct {
	OS          string `json:"os,omitempty"`
	Arch        string `json:"arch,omitempty"`
	CPUs        int    `json:"cpus,omitempty"` // that may be used
	CPU         string `json:"cpu,omitempty"`  // the model
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	Kernel      string `json:"kernel,omitempty"`
}

// Figures are the columns of the comparison, and a run in the compact form.
// All counts are of messages unless it says otherwise; all latencies count
// from the moment a message was meant to be sent until the platform accepts the
// call, which is before the platform's own latency.
type Figures struct {
	Strategy         string   `json:"strategy"`
	Replicas         int      `json:"replicas"`
	QuotaUse         *float64 `json:"quota_use"`           // share of what the limits allowed while there was something to send, 0–1
	RefusedPerSent   *float64 `json:"refused_per_sent"`    // calls that were answered with a throttle, per message accepted
	Lost             *int64   `json:"lost"`                // in the end neither accepted, nor left on a queue, nor dead-lettered
	Duplicated       *int64   `json:"duplicated"`          // accepted again
	Unexpected       *int64   `json:"unexpected"`          // accepted although nobody was to get them
	Inversions       *int64   `json:"inversions"`          // accepted before one to the same recipient and of the same class that is older
	ColdP50MS        *float64 `json:"cold_p50_ms"`         // pages that stay below their limit
	ColdP99MS        *float64 `json:"cold_p99_ms"`         //
	HotP99MS         *float64 `json:"hot_p99_ms"`          // pages that have more to send than their limit
	BrokerOpsPerSent *float64 `json:"broker_ops_per_sent"` // publishes, deliveries, acknowledgements
	CPUUSPerSent     *float64 `json:"cpu_us_per_sent"`     // processor time of dispatchers, broker and fake together, µs; in one process, of all of it
	Sent             *int64   `json:"sent"`                // accepted by the API
	Dead             *int64   `json:"dead"`                // dead-lettered with a reason
	Seconds          float64  `json:"seconds"`             // how long the run took
}

// Status says whether a run can be relied on.
type Status string

// The states of a run.
const (
	Complete     Status = ""             // ran to its end
	Interrupted  Status = "interrupted"  // stopped early, by Ctrl-C for example: the figures are of what ran
	Inconclusive Status = "inconclusive" // ran, but proves nothing: the machine was too noisy, for example
	Failed       Status = "failed"       // did not run
)

// Run is one strategy's run of the scenario.
type Run struct {
	Figures

	Label    string   `json:"label,omitempty"`    // names the run where the strategy alone does not, as in "chatclub, 3 dispatchers"
	Baseline bool     `json:"baseline,omitempty"` // not one of those compared but what they are measured against: it wins nothing
	Status   Status   `json:"status,omitempty"`   //
	Reason   string   `json:"reason,omitempty"`   // why the status is not Complete
	Notes    []string `json:"notes,omitempty"`    // errors, warnings, what to keep in mind

	Extras

	// Rounds are the runs of which the figures are the medians, in the order in
	// which they ran; nil where the strategy ran once. See Fold.
	Rounds []Round `json:"rounds,omitempty"`

	Series  []Series  `json:"series,omitempty"`
	Latency []Latency `json:"latency,omitempty"`
	Curve   *Curve    `json:"curve,omitempty"`
}

// Extras are the figures that not every run has.
type Extras struct {
	HotP50MS        *float64  `json:"hot_p50_ms,omitempty"`
	Rooms           *int64    `json:"rooms,omitempty"`              // room messages that were to be copied
	CompleteRooms   *int64    `json:"complete_rooms,omitempty"`     // of these, those whose every copy arrived in time
	GoodputPerS     *float64  `json:"goodput_per_s,omitempty"`      // complete rooms per second
	DrainS          *float64  `json:"drain_s,omitempty"`            // until the backlog was sent
	IdealDrainS     *float64  `json:"ideal_drain_s,omitempty"`      // backlog / limit
	CallsPerRecord  *float64  `json:"calls_per_record,omitempty"`   // calls made, refused ones included, per message accepted
	PeakMemoryBytes *int64    `json:"peak_memory_bytes,omitempty"`  // the most that any one dispatcher held; unknown in one process
	CPU             *CPUSplit `json:"cpu_us_per_sent_of,omitempty"` // cpu_us_per_sent, by program
	Measures        []Measure `json:"measures,omitempty"`           // what only this scenario has
}

// Round is one of the runs that a Run is the median of, without what is only for
// pictures.
type Round struct {
	Figures
	Extras

	Seed uint64 `json:"seed"` // of its load
}

// Name returns what to call the run: its label, or else its strategy.
func (r *Run) Name() string {
	if r.Label != "" {
		return r.Label
	}
	return r.Strategy
}

// CPUSplit is processor time per sent message, in µs. What runs in one process
// with something else has no figure of its own.
type CPUSplit struct {
	Dispatchers *float64 `json:"dispatchers,omitempty"`
	Front       *float64 `json:"front,omitempty"` // webhook and core
	Broker      *float64 `json:"broker,omitempty"`
	Fake        *float64 `json:"fake,omitempty"`
}

// Better is the direction in which a measure is good.
type Better string

// The directions.
const (
	Neither Better = ""       // no end of it is better, as with the rate that was offered
	Lower   Better = "lower"  //
	Higher  Better = "higher" //
)

// Measure is a figure that the scenario has beside the usual ones. Runs of one
// scenario give equal measures the same name: it is the column.
type Measure struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit,omitempty"`
	Value  *float64 `json:"value"`
	Better Better   `json:"better,omitempty"`
}

// Series is what one page (or group of pages) saw, step by step from the start
// of the run. The slices are as long as each other or absent.
type Series struct {
	Name    string    `json:"name"`              // as in "page 1" or "hot pages"
	StepMS  int64     `json:"step_ms"`           // length of a step: 1000, or 100 for a close look
	Sent    []int64   `json:"sent"`              // accepted in the step
	Refused []int64   `json:"refused,omitempty"` // answered with a throttle in the step
	Limit   []float64 `json:"limit,omitempty"`   // how many the limit allowed in the step
}

// Latency is the distribution of one class of messages.
type Latency struct {
	Class       string       `json:"class"` // as in "cold", "hot", "accepted"
	Count       int64        `json:"count"`
	Percentiles []Percentile `json:"percentiles"` // ascending
}

// Percentile is the latency that so many percent of the messages did not exceed.
type Percentile struct {
	Percent float64 `json:"percent"`
	MS      float64 `json:"ms"`
}

// Curve is what came out for what was offered, step by step.
type Curve struct {
	CapacityPerS *float64     `json:"capacity_per_s,omitempty"`
	Points       []CurvePoint `json:"points"` // in the order they ran in
}

// CurvePoint is one step of offered load. The latencies are of what was accepted.
type CurvePoint struct {
	OfferedPerS float64  `json:"offered_per_s"`
	GoodputPerS *float64 `json:"goodput_per_s"`
	P50MS       *float64 `json:"p50_ms,omitempty"`
	P99MS       *float64 `json:"p99_ms,omitempty"`
	Recovery    bool     `json:"recovery,omitempty"` // a step back after an overload
}

// NewLatency reads a class's distribution out of a histogram whose values are
// in units of unit. An empty histogram has no percentiles.
func NewLatency(class string, h *hdrhistogram.Histogram, unit time.Duration) Latency {
	l := Latency{Class: class, Count: h.TotalCount()}
	if l.Count == 0 {
		return l
	}
	for _, p := range percentiles(l.Count) {
		v := time.Duration(h.ValueAtPercentile(p)) * unit
		l.Percentiles = append(l.Percentiles, Percentile{Percent: p, MS: float64(v) / float64(time.Millisecond)})
	}
	return l
}

// percentiles returns those that n samples can tell: each further one needs at
// least one sample beyond it.
func percentiles(n int64) []float64 {
	known := []float64{0, 1, 5, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92.5, 95, 96, 97, 98, 98.5, 99, 99.25, 99.5, 99.75, 99.9, 99.95, 99.99, 99.995, 99.999}
	var out []float64
	for _, p := range known {
		if (100-p)/100*float64(n) >= 1-1e-9 {
			out = append(out, p)
		}
	}
	return append(out, 100)
}
