package flow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/loadtest/report"

	"chatclub/fakeapi"
)

// row is one scenario.
type row struct {
	name       string
	replicas   int                     // at the start
	latency    string                  // of the platform: its median and its 99th percentile; empty: slow
	limit      int                     // of text, as the platform has it and the dispatchers are told; 0: pageLimit
	capacity   int                     // of each queue, operations a second; 0: without limit
	brokers    int                     // that share the partitions; then capacity is of each; 0: one, without limit as a whole
	partitions int                     // 0: 64
	settings   func(*fakeapi.Settings) // what differs from the documented platform
	faulty     bool                    // something is broken: messages may overtake others
	deaths     bool                    // messages may die
	doubles    bool                    // messages may be sent twice
	script     func(*rig)
	control    func(*rig) // the same without what is to be shown: its cold pages are what ratios are to
	bounds     []report.Bound
	ifSlow     []report.Bound // in their place at the platform's own latency
}

// median is half of all answers' time at most.
func (r row) median() time.Duration {
	text, _, _ := strings.Cut(cmp.Or(r.latency, slow), ",")
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// both are a row at the platform's own latency and at a quick one.
func both(r row) []row {
	q := r
	q.latency = quick
	r.latency = slow
	if r.ifSlow != nil {
		r.bounds = r.ifSlow
	}
	return []row{r, q}
}

// group is rows with the same columns.
type group struct {
	title, text string
	rows        []row
}

const preface = `# Flow: what the dispatcher does with a page's quota

Every row runs the real dispatchers, excess map and sender against the fake platform in virtual time (testing/synctest), on the in-memory broker behind a network of 0.3 ms a hop.

- The latency is the platform's own, 700 ms at the median and 1.9 s at the 99th percentile, or 40 ms and 150 ms, as the second column says.
- Calls and messages are counted by the platform. One call may carry several texts; quota and refusals are counted in calls.
- A wait is from publish to the begin of the call. A delay is from publish to the answer.
- What is lost or sent twice is what the ledger and the queues say at the end of the run, after a clean stop. Inversions are messages accepted after one to the same recipient and class that was published later. Without a fault none is allowed.
- The loads are Poisson processes from fixed seeds, where the text does not say otherwise, and each figure is the worst of three runs (-seeds); "613s" are refused calls. The order in which goroutines run is not fixed, so figures differ a little from run to run.

`

// The tables of what the dispatchers do, and what each row must keep.
func TestFlow(t *testing.T) {
	e := extentOf()
	groups := scenarios(e)
	runs := make([][]report.Run, len(groups))
	left, found := 0, make(map[string]bool)
	t.Run("rows", func(t *testing.T) { // returns when all that runs in parallel has ended
		for i, g := range groups {
			runs[i] = make([]report.Run, len(g.rows))
			for j, row := range g.rows {
				if e.rows != nil && !slices.Contains(e.rows, row.title()) {
					left++
					continue
				}
				found[row.title()] = true
				t.Run(g.title+"/"+row.title(), func(t *testing.T) {
					t.Parallel()
					runs[i][j] = measure(t, row)
				})
			}
		}
	})
	if len(found) < len(e.rows) {
		t.Errorf("there are the rows %v, want all of %q", found, e.rows)
	}
	if left > 0 {
		t.Logf("%d rows did not run: go test ./flow runs them, without -short and the race detector", left)
	}
	var doc strings.Builder
	doc.WriteString(preface)
	for i, g := range groups {
		// A row that -run leaves out has no figures.
		if ran := slices.DeleteFunc(runs[i], func(r report.Run) bool { return r.Figures == nil }); len(ran) > 0 {
			doc.WriteString("## " + g.title + "\n\n" + g.text + "\n\n" + report.Markdown(ran) + "\n")
		}
	}
	t.Log("\n" + doc.String())
}

// title names the row within its group.
func (r row) title() string {
	return fmt.Sprintf("%s, %s, R=%d", r.name, cmp.Or(r.latency, slow), r.replicas)
}

// measure runs a row with every seed and checks the worst of each figure.
func measure(t *testing.T, r row) report.Run {
	t.Helper()
	run := report.Run{Label: r.title()}
	for seed := range *seeds {
		f := play(t, r, uint64(seed)+1, r.script)
		if r.control != nil {
			without := play(t, r, uint64(seed)+1, r.control)
			if f == nil || without == nil {
				return run // it has failed
			}
			f[ratioP50] = f[report.ColdP50] / without[report.ColdP50]
			f[ratioP99] = f[report.ColdP99] / without[report.ColdP99]
		}
		if f == nil {
			return run
		}
		run.Figures = report.Worst(run.Figures, f)
	}
	t.Log("\n" + report.Markdown([]report.Run{run}))
	if !r.faulty {
		r.bounds = append(slices.Clone(r.bounds), report.AtMost(report.Inversions, 0))
	}
	for _, b := range r.bounds {
		if e := b.Check(run.Figures, nil); e.Met == nil || !*e.Met {
			t.Errorf("%s, got %s", e.Text, e.Got)
		}
	}
	return run
}
