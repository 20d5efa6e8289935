package faults

import (
	"fmt"
	"time"
)

// Row is what one fault has cost.
type Row struct {
	Step    string    `json:"step"` // as the script has it
	Fault   string    `json:"fault"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"` // it lasted, a restart included

	Due        int64   `json:"due"` // copies announced from the fault's begin until it was settled
	Lost       int64   `json:"lost"`
	Doubled    int64   `json:"doubled"`
	Unexpected int64   `json:"unexpected"` // those without an id included
	Silence    float64 `json:"silence_s"`
	Back       float64 `json:"back_s"`
	Settled    float64 `json:"settled_s"` // from the fault's end until all that was due then had come

	MaxDoubled int64   `json:"max_doubled"`
	MaxSilence float64 `json:"max_silence_s"`
	MaxBack    float64 `json:"max_back_s"`

	Busy     string   `json:"busy,omitempty"`     // why the machine makes times and doubles doubtful
	Broken   []string `json:"broken,omitempty"`   // bounds that were not kept
	Doubtful []string `json:"doubtful,omitempty"` // bounds that were not kept while the machine was busy
	Failures []string `json:"failures,omitempty"` // of the harness, and programs that ended by themselves
}

// judge compares the row with its bounds.
func (r *Row) judge() {
	if r.Lost > 0 {
		r.Broken = append(r.Broken, fmt.Sprintf("%d lost", r.Lost))
	}
	if r.Unexpected > 0 {
		r.Broken = append(r.Broken, fmt.Sprintf("%d unexpected", r.Unexpected))
	}
	var timed []string
	if r.Doubled > r.MaxDoubled {
		timed = append(timed, fmt.Sprintf("%d doubled, at most %d promised", r.Doubled, r.MaxDoubled))
	}
	if r.Silence > r.MaxSilence {
		timed = append(timed, fmt.Sprintf("silent for %.1f s, at most %.1f s promised", r.Silence, r.MaxSilence))
	}
	if r.Back > r.MaxBack {
		timed = append(timed, fmt.Sprintf("back after %.1f s, at most %.1f s promised", r.Back, r.MaxBack))
	}
	if r.Busy != "" {
		r.Doubtful = append(r.Doubtful, timed...)
		return
	}
	r.Broken = append(r.Broken, timed...)
}

// Outcome is what a run proves. Its values are those of the other load tests.
type Outcome string

// The outcomes.
const (
	Pass      Outcome = "PASS"       // every bound was kept
	Fail      Outcome = "FAIL"       // one was not
	NoVerdict Outcome = "NO VERDICT" // neither is proven
)

// judge sets the report's outcome and its reasons.
func (r *Report) judge() {
	r.Outcome, r.Reasons = Pass, nil
	for _, row := range r.Rows {
		for _, b := range row.Broken {
			r.Reasons = append(r.Reasons, row.Fault+": "+b)
		}
		for _, f := range row.Failures {
			r.Reasons = append(r.Reasons, row.Fault+": "+f)
		}
	}
	count := func(n int64, what string) {
		if n > 0 {
			r.Reasons = append(r.Reasons, fmt.Sprintf("at the end: %d %s", n, what))
		}
	}
	if r.Whole {
		count(r.Totals.Pending, "copies lost")
	}
	count(r.Totals.Unexpected, "copies unexpected")
	count(r.Totals.Unidentified, "copies without an id")
	count(r.Totals.Excused, "copies of events that were never taken")
	count(int64(r.Dead[""]), "dead letters without a reason")
	r.Reasons = append(r.Reasons, r.Failures...)
	for _, g := range r.Growth {
		r.Reasons = append(r.Reasons, "growth: "+g)
	}
	if len(r.Reasons) > 0 {
		r.Outcome = Fail
		return
	}
	if len(r.Rows) == 0 {
		r.Reasons = append(r.Reasons, "no fault was made")
	}
	if !r.Whole {
		r.Reasons = append(r.Reasons, "stopped before its end: what was awaited then is not known")
	}
	for _, row := range r.Rows {
		for _, d := range row.Doubtful {
			r.Reasons = append(r.Reasons, fmt.Sprintf("%s: %s, but %s", row.Fault, d, row.Busy))
		}
	}
	if len(r.Reasons) > 0 {
		r.Outcome = NoVerdict
		return
	}
	r.Reasons = []string{fmt.Sprintf("%d faults, every bound kept", len(r.Rows))}
}
