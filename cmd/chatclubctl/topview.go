package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"chatclub/internal/console"
)

// topView is what top shows.
type topView struct {
	Time     time.Time `json:"time"`
	Programs []program `json:"programs"`

	// A second, over all replicas, since the last look.
	Events  float64 `json:"events"` // that webhook queued, or where it is not asked, that core handled
	Copies  float64 `json:"copies"`
	Sent    float64 `json:"sent"` // messages
	Refused float64 `json:"refused"`
	Dead    float64 `json:"dead"`

	InFlight   int      `json:"in_flight"`
	Limit      int      `json:"limit"`        // calls at a time
	AgeP95     *float64 `json:"age_p95"`      // seconds, of what was sent since the last look; nil: nothing was
	Excess     int      `json:"pages_excess"` // pages and classes
	Sick       int      `json:"pages_sick"`   //
	Suspended  int      `json:"pages_suspended"`
	Queues     *depths  `json:"queues,omitempty"`
	QueueError string   `json:"queues_error,omitempty"` // why there are none

	Dispatchers []console.Dispatcher `json:"dispatchers"`
	Pages       []console.Page       `json:"pages"` // those with the most to do
	AllPages    int                  `json:"all_pages"`
}

// program is one of the three, and its replicas.
type program struct {
	Name   string            `json:"program"`
	Up     int               `json:"up"`
	Of     int               `json:"of"`
	Silent map[string]string `json:"silent,omitempty"` // who does not answer, and why
}

// err names the replicas that did not answer, for those who look once.
func (v *topView) err() error {
	var errs []error
	for _, line := range v.silent() {
		errs = append(errs, errors.New(line))
	}
	if v.QueueError != "" {
		errs = append(errs, errors.New(v.QueueError))
	}
	return errors.Join(errs...)
}

// silent says of each replica that does not answer why.
func (v *topView) silent() (lines []string) {
	for _, p := range v.Programs {
		for _, name := range slices.Sorted(maps.Keys(p.Silent)) {
			lines = append(lines, fmt.Sprintf("%s %s: %s", p.Name, name, p.Silent[name]))
		}
	}
	return lines
}

// print writes it as people read it.
func (v *topView) print(out io.Writer) {
	fmt.Fprintf(out, "%s ", v.Time.Format(time.TimeOnly))
	for _, p := range v.Programs {
		fmt.Fprintf(out, "  %s %d of %d up", p.Name, p.Up, p.Of)
	}
	age := "-"
	if v.AgeP95 != nil {
		age = seconds(*v.AgeP95)
	}
	fmt.Fprintf(out, "\na second  events %.0f  copies %.0f  sent %.0f  refused %.0f  dead %.0f\n", v.Events, v.Copies, v.Sent, v.Refused, v.Dead)
	fmt.Fprintf(out, "calls     %d in flight of %d  p95 age %s\n", v.InFlight, v.Limit, age)
	fmt.Fprintf(out, "pages     %d in excess  %d suspended  %d sick\n", v.Excess, v.Suspended, v.Sick)
	switch {
	case v.Queues != nil:
		q := v.Queues
		fmt.Fprintf(out, "queues    inbound %d  overflow %d  partitions %d", q.Inbound, q.Overflow, q.Partitions)
		if q.Deepest != "" {
			fmt.Fprintf(out, " (most on %s)", printable(q.Deepest))
		}
		fmt.Fprintf(out, "  lanes %d  retry %d  dead %d\n", q.Lanes, q.Retry, q.Dead)
	case v.QueueError != "":
		fmt.Fprintf(out, "queues    %s\n", printable(v.QueueError))
	}
	for _, line := range v.silent() {
		fmt.Fprintln(out, printable(line))
	}
	fmt.Fprintln(out)
	v.printDispatchers(out)
	fmt.Fprintln(out)
	v.printPages(out)
}

func (v *topView) printDispatchers(out io.Writer) {
	w := newTable(out)
	fmt.Fprintln(w, "DISPATCHER\tSTATE\tCALLS/S\tIN FLIGHT\tLIMIT\tPARTITIONS\tIN EXCESS")
	for i := range v.Dispatchers {
		d := &v.Dispatchers[i]
		if d.State == "lost" {
			fmt.Fprintf(w, "%s\tno answer\t-\t-\t-\t-\t-\n", printable(d.Name))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\n", printable(d.Name), d.State, d.Calls, d.InFlight, d.Limit, len(d.Partitions), len(d.Excess))
	}
	_ = w.Flush() // as all that is printed here
}

func (v *topView) printPages(out io.Writer) {
	w := newTable(out)
	// On 80 columns the last ones are cut off.
	fmt.Fprintln(w, "PAGE\tSTATE\tPACE\tLIMIT\tSENT/S\tREFUSED/S\tWAITING\tDELAY\tOWNER\tEXCESS SINCE")
	for i := range v.Pages {
		p := &v.Pages[i]
		pace, excess, state := "-", "-", p.State
		if p.Since != nil { // others have a pace, too, but do not need it
			pace, excess = fmt.Sprintf("%g", p.Pace), since(*p.Since)
		}
		if p.Why != "" {
			state += " (" + p.Why + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", printable(p.ID), printable(state),
			pace, p.Limit, p.Sent, p.Refused, p.Waiting, seconds(p.Delay), printable(p.Owner), excess)
	}
	_ = w.Flush()
	if more := v.AllPages - len(v.Pages); more > 0 {
		fmt.Fprintf(out, "and %d more, with less to do\n", more)
	}
}
