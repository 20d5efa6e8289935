package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/backoff"
	"chatclub/loadtest/report"
)

// Ledger is the judge: fakeapi's client.
type Ledger interface {
	Pages(ctx context.Context, seconds int) (ledger.Report, error)
	Control(ctx context.Context, patch any) error
}

// System is the deployment that is made to fail. Its methods are called by one goroutine.
type System interface {
	// Begin makes the step's fault, and returns the function that ends it, which
	// returns when all that was ended runs again.
	Begin(ctx context.Context, s Step) (end func(context.Context) error, err error)
	// Ready returns nil when every program says that it is ready.
	Ready(ctx context.Context) error
	// Meter begins to watch the machine. end says why times on it are doubtful
	// since then, or "".
	Meter() (end func() string)
	// Failures returns all that went wrong since it was last asked: programs that ended
	// by themselves, or otherwise than they should.
	Failures() []string
	// Quiet stops the users, and returns how many events were never taken.
	Quiet(ctx context.Context) (undelivered int64, err error)
	// Dead returns how many messages are on the dead-letter queue, by reason; "" is
	// none of ours.
	Dead(ctx context.Context) (map[string]int, error)
}

// Config of a run.
type Config struct {
	System System
	Ledger Ledger
	Faults []Fault
	Seed   uint64
	For    time.Duration // no step begins after that
	Steps  int           // as many at most; 0: any number
	Load   Load
	Say    func(line string) // called when something begins or has ended
}

// What the times of a step are made of.
const (
	look      = 250 * time.Millisecond // between two looks at the ledger: silence is known to that
	calmAge   = 5 * time.Second        // nothing awaited is older when a step begins
	crowdFor  = 5 * time.Second        // pages are in excess before their step's fault
	aftermath = 3 * time.Second        // for copies that come a second time
	patience  = 3 * time.Minute        // for all that must arrive after a fault
)

// row is the cost of one step.
type row struct {
	Step
	figures  report.Figures
	busy     string   // why the machine makes times and doubles doubtful
	broken   []string // bounds that were not kept, and failures
	doubtful []string // bounds that were not kept while the machine was busy
}

// runner is a run.
type runner struct {
	Config
	started time.Time
	rows    []row
}

// Run plays the script until its time is over or ctx ends, and reports it. All that is
// under way when ctx ends is undone. The error is of a run that could not begin: where
// the ledger did not answer at all.
func Run(ctx context.Context, cfg Config) (*report.Report, error) {
	r := &runner{Config: cfg, started: time.Now()}
	if _, err := cfg.Ledger.Pages(ctx, 0); err != nil {
		return nil, err
	}
	next := Script(cfg.Seed, cfg.Faults)
	for time.Since(r.started) < cfg.For && (cfg.Steps == 0 || len(r.rows) < cfg.Steps) && ctx.Err() == nil {
		r.step(ctx, next())
	}
	return r.finish(ctx), nil
}

// step makes one fault and judges it. One that ctx ends is undone and has no row.
func (r *runner) step(ctx context.Context, s Step) {
	w := row{Step: s, figures: make(report.Figures)}
	note := func(err error) {
		if err != nil {
			w.broken = append(w.broken, err.Error())
		}
	}
	note(r.awaitCalm(ctx))
	before, err := r.Ledger.Pages(ctx, 0)
	note(err)
	pages, err := r.crowd(ctx, s)
	note(err)
	r.Say(s.String())
	meter := r.System.Meter()
	length, over, err := r.fail(ctx, s, w.figures, pages)
	note(err)
	w.busy = meter()
	if ctx.Err() != nil {
		return
	}
	backoff.Sleep(ctx, aftermath)
	after, err := r.Ledger.Pages(ctx, 0)
	note(err)
	w.figures[report.Sent] = float64(after.Totals.Expected - before.Totals.Expected)
	w.figures[report.Duplicated] = float64(after.Totals.Duplicated - before.Totals.Duplicated)
	w.figures[report.Overtaken] = float64(after.Totals.Inversions - before.Totals.Inversions)
	w.figures[report.Unexpected] = float64(after.Totals.Unexpected - before.Totals.Unexpected + after.Totals.Unidentified - before.Totals.Unidentified)
	w.broken = append(w.broken, r.System.Failures()...)
	if w.figures[report.Sent] == 0 {
		w.broken = append(w.broken, "nobody wrote anything while it lasted: it shows nothing")
	}
	w.judge(s.Fault.bounds(r.Load, length, over))
	r.rows = append(r.rows, w)
	r.Say("  " + w.line())
}

// judge compares the step with its bounds. On a busy machine only a loss, a copy that
// nobody was to get, and one that was overtaken are certain.
func (w *row) judge(bounds []report.Bound) {
	for _, b := range bounds {
		e := b.Check(w.figures, nil)
		certain := w.busy == "" || b.Figure == report.Lost || b.Figure == report.Unexpected || b.Figure == report.Overtaken
		switch text := e.Text + ": " + e.Got; {
		case e.Met != nil && *e.Met:
		case certain:
			w.broken = append(w.broken, text)
		default:
			w.doubtful = append(w.doubtful, text)
		}
	}
}

// line is the step in one line.
func (w *row) line() string {
	var list []string
	for _, name := range report.Names(w.figures) {
		list = append(list, string(name)+" "+name.Text(w.figures[name]))
	}
	verdict := "kept"
	switch {
	case len(w.broken) > 0:
		verdict = "NOT KEPT: " + strings.Join(w.broken, "; ")
	case len(w.doubtful) > 0:
		verdict = "doubtful, " + w.busy + ": " + strings.Join(w.doubtful, "; ")
	}
	return w.String() + ": " + strings.Join(list, ", ") + ": " + verdict
}

// awaitCalm waits until nothing of an earlier step can be taken for this one's.
func (r *runner) awaitCalm(ctx context.Context) error {
	var why error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		v, err := r.Ledger.Pages(ctx, 0)
		switch {
		case err != nil:
			why = err
		case v.PendingSeconds > calmAge.Seconds():
			why = fmt.Errorf("a copy is awaited for %.0f s", v.PendingSeconds)
		default:
			if why = r.System.Ready(ctx); why == nil {
				return nil
			}
		}
		if !backoff.Sleep(ctx, time.Second) {
			return nil
		}
	}
	return fmt.Errorf("not calm before it within %v: %w", patience, why)
}

// crowd puts half of the pages in excess, where the step says so, and returns them.
func (r *runner) crowd(ctx context.Context, s Step) (pages []string, err error) {
	if !s.Crowd {
		return nil, nil
	}
	v, err := r.Ledger.Pages(ctx, 0)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(v.Pages); i += 2 {
		pages = append(pages, v.Pages[i].Page)
	}
	// Less than half of what a page asks for: joined texts keep up with that.
	if err := r.limit(ctx, pages, max(1, int(r.Load.Flow()/float64(r.Load.Pages)*0.4))); err != nil {
		return pages, err
	}
	backoff.Sleep(ctx, crowdFor)
	return pages, nil
}

// limit gives pages a limit of their own; 0: that of all.
func (r *runner) limit(ctx context.Context, pages []string, perSecond int) error {
	if len(pages) == 0 {
		return nil
	}
	own := make(map[string]any, len(pages))
	for _, p := range pages {
		own[p] = map[string]int{"text": perSecond}
	}
	return r.Ledger.Control(ctx, map[string]any{"pages": own})
}

// fail makes the fault, ends it, and waits until its consequences are over. It
// returns how long the fault lasted, and how long until all was settled.
func (r *runner) fail(ctx context.Context, s Step, f report.Figures, pages []string) (length, over time.Duration, err error) {
	looking, stop := context.WithCancel(ctx)
	defer stop()
	w := newWatch()
	ended := make(chan time.Time, 1) // when the fault had ended
	done := make(chan int64)
	began := time.Now()
	go func() { done <- r.follow(looking, w, ended) }()
	end, err := r.begin(ctx, s)
	backoff.Sleep(ctx, s.Length)
	whole := context.WithoutCancel(ctx) // a fault that has begun is ended, whatever comes
	err = errors.Join(err, end(whole), r.limit(whole, pages, 0))
	healed := time.Now()
	ended <- healed
	lost := <-done
	f[report.Lost], f[report.Silence], f[report.Back], f[report.Settled] = float64(lost), w.worst.Seconds(), w.back.Seconds(), time.Since(healed).Seconds()
	return healed.Sub(began), time.Since(began), err
}

// begin makes the fault, which is the platform's or the system's. end is never nil.
func (r *runner) begin(ctx context.Context, s Step) (end func(context.Context) error, err error) {
	if s.Fault.Part == API {
		on, off := platformFault(s.Fault.Action, r.Load, time.Now().Add(s.Length))
		return func(ctx context.Context) error { return r.Ledger.Control(ctx, off) }, r.Ledger.Control(ctx, on)
	}
	end, err = r.System.Begin(ctx, s)
	if end == nil {
		end = func(context.Context) error { return nil }
	}
	return end, err
}

// platformFault returns the settings that make the platform fail so, and those that end
// it. until is when a refusal ends by itself: the judge too needs connections.
func platformFault(a Action, l Load, until time.Time) (on, off any) {
	fault := func(values map[string]any) any { return map[string]any{"faults": values} }
	limit := func(n int) any { return map[string]any{"text": map[string]any{"per_second": n}} }
	both := map[Action][2]any{ //nolint:exhaustive // the others are not the platform's
		Errors: {
			fault(map[string]any{"server_error": errorShare, "reset_before": errorShare, "reset_after": errorShare, "sent_yet": errorShare}),
			fault(map[string]any{"server_error": 0, "reset_before": 0, "reset_after": 0, "sent_yet": 0}),
		},
		NoAnswers:  {fault(map[string]any{"timeout": errorShare}), fault(map[string]any{"timeout": 0})},
		Refuse:     {fault(map[string]any{"refuse_until": until}), fault(map[string]any{"refuse_until": time.Time{}})},
		HalveLimit: {limit(max(1, l.PageLimit()/2)), limit(l.PageLimit())},
	}[a]
	return both[0], both[1]
}

// PageLimit is each page's limit, in calls a second: half as much again as its
// users ask for, so that half of it is too little and a backlog is worked off.
func (l Load) PageLimit() int { return max(2, int(1.5*l.Flow()/float64(l.Pages))) }

// follow watches the ledger from the fault's begin until it has ended and all that
// was announced before its end has come, or patience ends, and returns how many have
// not.
func (r *runner) follow(ctx context.Context, w *watch, ended <-chan time.Time) (lost int64) {
	var healed time.Time
	for ; ctx.Err() == nil; backoff.Sleep(ctx, look) {
		select {
		case healed = <-ended:
			w.heal(healed)
		default:
		}
		seconds := 0
		if !healed.IsZero() {
			seconds = int(time.Since(r.started).Seconds()) + 1
		}
		v, err := r.Ledger.Pages(ctx, seconds)
		if err != nil {
			continue // a platform that refuses, or a busy machine; the next look tells
		}
		w.note(time.Now(), v.Pages)
		if healed.IsZero() {
			continue
		}
		lost = announced(v.Pages, healed)
		if lost == 0 && len(w.waits) == 0 || time.Since(healed) > patience {
			return lost
		}
	}
	if healed.IsZero() { // ctx has ended; the fault is being ended
		<-ended
	}
	return lost
}

// announced counts the awaited copies that were announced in the seconds before t.
func announced(pages []ledger.PageReport, t time.Time) (n int64) {
	for i := range pages {
		for _, s := range pages[i].Series {
			if s.Unix < t.Unix() {
				n += int64(s.Lost)
			}
		}
	}
	return n
}

// finish lets the users end, and makes the report.
func (r *runner) finish(ctx context.Context) *report.Report {
	rep := report.New("faults", "A whole deployment is made to fail, one fault after another", r.Seed, report.Parameter{
		Name: "load", Value: fmt.Sprintf("%d pages with a room of %d each, %.3g events a second: %.0f copies a second", r.Load.Pages, r.Load.Members, r.Load.Events, r.Load.Flow()),
	})
	for _, f := range r.Faults {
		r.enter(rep, f)
	}
	expect := func(text string, met bool, got string) {
		rep.Expectations = append(rep.Expectations, report.Expectation{Text: text, Met: &met, Got: got})
	}
	whole := context.WithoutCancel(ctx)
	undelivered, err := r.System.Quiet(whole)
	last, err2 := r.awaitRest(ctx)
	dead, err3 := r.System.Dead(whole)
	failures := r.System.Failures()
	if err := errors.Join(err, err2, err3); err != nil {
		failures = append(failures, err.Error())
	}
	if ctx.Err() != nil {
		rep.Unfinished = "stopped before its end: whether all that was awaited would have come is not known"
	} else {
		expect("at the end nothing is lost", last.Pending == 0, fmt.Sprint(last.Pending))
	}
	expect("at the end nothing came that nobody was to get", last.Unexpected+last.Unidentified == 0, fmt.Sprint(last.Unexpected+last.Unidentified))
	expect("every event was taken", undelivered == 0, fmt.Sprintf("%d were not", undelivered))
	expect("every dead letter has a reason", dead[""] == 0, fmt.Sprintf("%d have none", dead[""]))
	expect("no program ends by itself", len(failures) == 0, strings.Join(failures, "; "))
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(dead)) {
		reasons = append(reasons, fmt.Sprintf("%d %s", dead[reason], cmp.Or(reason, "without a reason")))
	}
	rep.Notes = append(rep.Notes, fmt.Sprintf("%d faults; at the end: %s; dead letters: %s", len(r.rows), last.Line("awaited"), cmp.Or(strings.Join(reasons, ", "), "none")))
	for _, w := range r.rows {
		rep.Notes = append(rep.Notes, w.line())
	}
	if len(r.rows) == 0 {
		rep.Unfinished = "no fault was made"
	}
	return rep
}

// awaitRest waits until all has come that is awaited, or patience ends.
func (r *runner) awaitRest(ctx context.Context) (c ledger.Counts, err error) {
	r.Say("the users stop; the rest is waited for")
	for end := time.Now().Add(patience); ; {
		v, err := r.Ledger.Pages(context.WithoutCancel(ctx), 0)
		if err == nil && v.Totals.Pending == 0 || time.Now().After(end) || !backoff.Sleep(ctx, look) {
			return v.Totals, err
		}
	}
}

// enter puts the worst of a fault's steps into the report, and whether all were kept.
func (r *runner) enter(rep *report.Report, f Fault) {
	run := report.Run{Strategy: report.Own, Replicas: dispatchers, Label: f.Name}
	var broken, doubtful []string
	times := 0
	for _, w := range r.rows {
		if w.Fault.Name == f.Name {
			times++
			run.Figures = report.Worst(run.Figures, w.figures)
			broken, doubtful = append(broken, w.broken...), append(doubtful, w.doubtful...)
		}
	}
	if times == 0 {
		return
	}
	rep.Runs = append(rep.Runs, run)
	e := report.Expectation{
		Of: f.Name, Met: new(len(broken) == 0), Got: fmt.Sprintf("%d times", times),
		Text: "nothing lost, " + f.text(r.Load, f.Length),
	}
	if len(broken) > 0 {
		e.Got += ": " + strings.Join(broken, "; ")
	} else if len(doubtful) > 0 {
		e.Met, e.Got = nil, e.Got+", on a busy machine: "+strings.Join(doubtful, "; ")
	}
	rep.Expectations = append(rep.Expectations, e)
}
