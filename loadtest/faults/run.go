package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/backoff"
)

// Ledger is the judge: fakeapi's client.
type Ledger interface {
	Pages(ctx context.Context, seconds int) (ledger.Report, error)
	Control(ctx context.Context, patch any) error
}

// System is the deployment that is made to fail. Its methods are called by one
// goroutine, but for Usage.
type System interface {
	// Begin makes the step's fault, and returns what ends it, which returns when
	// what was ended runs again.
	Begin(ctx context.Context, s Step) (end func(context.Context) error, err error)
	// Ready returns nil when every program says that it is ready.
	Ready(ctx context.Context) error
	Usage(ctx context.Context) []Usage
	// Meter begins to watch the machine. end says why times on it are doubtful
	// since then, or "".
	Meter() (end func() string)
	// Failures returns what went wrong since it was last asked: programs that ended
	// by themselves, or otherwise than they should.
	Failures() []string
	// Quiet stops the users, waits for what is awaited, and returns the last
	// balance.
	Quiet(ctx context.Context) (ledger.Counts, error)
	// Dead returns how many messages are on the dead-letter queue, by reason; "" is
	// none of ours.
	Dead(ctx context.Context) (map[string]int, error)
}

// Config says what is to be done.
type Config struct {
	System   System
	Ledger   Ledger
	Faults   []Fault
	Seed     uint64
	For      time.Duration // no step begins after that
	Steps    int           // as many at most; 0: any number
	Patience time.Duration // for what must arrive after a fault
	Load     Load
	Say      func(line string) // called when something begins or has ended
}

// What the times of a step are made of.
const (
	look      = 250 * time.Millisecond // between two looks at the ledger: silence is known to that
	calmAge   = 5 * time.Second        // nothing awaited is older when a step begins
	crowdFor  = 5 * time.Second        // pages are in excess before their step's fault
	aftermath = 3 * time.Second        // for copies that come a second time
)

// runner is a run.
type runner struct {
	Config
	script  *Script
	report  *Report
	sampled time.Time
	sample  time.Duration // between two samples of usage
}

// Run plays the script until its time is over or ctx ends, and returns what was
// seen. All that is under way when ctx ends is undone. The error is of a run that
// could not begin: where the ledger did not answer at all.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	r := &runner{Config: cfg, script: NewScript(cfg.Seed, cfg.Faults), report: &Report{Seed: cfg.Seed, Load: cfg.Load, Started: time.Now().UTC()}}
	r.sample = max(cfg.For/120, 10*time.Second)
	if _, err := cfg.Ledger.Pages(ctx, 0); err != nil {
		return nil, err
	}
	end := r.report.Started.Add(cfg.For)
	for time.Now().Before(end) && (cfg.Steps == 0 || len(r.report.Rows) < cfg.Steps) && ctx.Err() == nil {
		r.step(ctx, r.script.Next())
	}
	r.finish(ctx)
	return r.report, nil
}

// finish lets the users end, and writes the balance.
func (r *runner) finish(ctx context.Context) {
	rep := r.report
	rep.Whole = ctx.Err() == nil
	if rep.Whole {
		r.Say("the users stop; what is awaited is waited for")
		var err error
		if rep.Totals, err = r.System.Quiet(ctx); err != nil {
			rep.Failures = append(rep.Failures, err.Error())
		}
		rep.Whole = ctx.Err() == nil
	} else if last, err := r.Ledger.Pages(context.WithoutCancel(ctx), 0); err == nil {
		rep.Totals = last.Totals
	}
	n, err := r.System.Dead(context.WithoutCancel(ctx))
	if err != nil {
		rep.Failures = append(rep.Failures, err.Error())
	}
	rep.Dead = n
	rep.Failures = append(rep.Failures, r.System.Failures()...)
	rep.Growth = growth(rep.Samples)
	rep.Seconds = time.Since(rep.Started).Seconds()
	rep.judge()
}

// step makes one fault and judges it. One that ctx ends is undone and has no row.
func (r *runner) step(ctx context.Context, s Step) {
	row := Row{Step: s.String(), Fault: s.Fault.Name}
	if !r.awaitCalm(ctx, &row) {
		return
	}
	r.takeSample(ctx)
	before, err := r.Ledger.Pages(ctx, 0)
	if err != nil {
		row.Failures = append(row.Failures, err.Error())
	}
	pages, err := r.crowd(ctx, s)
	if err != nil {
		row.Failures = append(row.Failures, err.Error())
	}
	r.Say(s.String())
	meter := r.System.Meter()
	length, over := r.fail(ctx, s, &row, pages)
	row.Busy = meter()
	if ctx.Err() != nil {
		return
	}
	backoff.Sleep(ctx, aftermath)
	after, err := r.Ledger.Pages(ctx, 0)
	if err != nil {
		row.Failures = append(row.Failures, err.Error())
	}
	count(&row, before.Totals, after.Totals)
	row.Failures = append(row.Failures, r.System.Failures()...)
	row.MaxDoubled = s.Fault.Bound.Doubled(r.Load, over)
	row.MaxSilence, row.MaxBack = s.Fault.Bound.Silent(length).Seconds(), s.Fault.Bound.Back.Seconds()
	row.judge()
	r.report.Rows = append(r.report.Rows, row)
	r.Say(row.line())
}

// count takes the differences of two balances.
func count(row *Row, before, after ledger.Counts) {
	row.Due = after.Expected - before.Expected
	row.Doubled = after.Duplicated - before.Duplicated
	row.Unexpected = after.Unexpected - before.Unexpected + after.Unidentified - before.Unidentified
}

// awaitCalm waits until nothing of an earlier step can be taken for this one's. It
// reports whether the step may begin.
func (r *runner) awaitCalm(ctx context.Context, row *Row) bool {
	var why error
	for end := time.Now().Add(r.Patience); time.Now().Before(end); backoff.Sleep(ctx, time.Second) {
		if ctx.Err() != nil {
			return false
		}
		v, err := r.Ledger.Pages(ctx, 0)
		switch {
		case err != nil:
			why = err
		case v.PendingSeconds > calmAge.Seconds():
			why = fmt.Errorf("a copy is awaited for %.0f s", v.PendingSeconds)
		default:
			if why = r.System.Ready(ctx); why == nil {
				return true
			}
		}
	}
	row.Failures = append(row.Failures, fmt.Sprintf("not calm before it within %v: %v", r.Patience, why))
	return ctx.Err() == nil
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
	for i := range v.Pages {
		if i%2 == 0 {
			pages = append(pages, v.Pages[i].Page)
		}
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
func (r *runner) fail(ctx context.Context, s Step, row *Row, pages []string) (length, over time.Duration) {
	looking, stop := context.WithCancel(ctx)
	defer stop()
	w := newWatch()
	ended := make(chan time.Time, 1) // when the fault had ended
	done := make(chan struct{})
	row.Began = time.Now().UTC()
	var lost int64
	go func() {
		defer close(done)
		lost = r.follow(looking, w, ended)
	}()
	end, err := r.begin(ctx, s)
	if err != nil {
		row.Failures = append(row.Failures, "begin: "+err.Error())
	}
	backoff.Sleep(ctx, s.Length)
	whole := context.WithoutCancel(ctx) // what has begun is ended, whatever comes
	if err := errors.Join(end(whole), r.limit(whole, pages, 0)); err != nil {
		row.Failures = append(row.Failures, "end: "+err.Error())
	}
	healed := time.Now()
	ended <- healed
	<-done
	length = healed.Sub(row.Began)
	row.Lost, row.Silence, row.Back = lost, w.worst.Seconds(), w.back.Seconds()
	row.Seconds, row.Settled = length.Seconds(), time.Since(healed).Seconds()
	return length, time.Since(row.Began)
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

// platformFault returns what makes the platform fail so, and what ends it. until is
// when a refusal ends by itself: the judge too needs connections.
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
			seconds = int(time.Since(r.report.Started).Seconds()) + 1
		}
		v, err := r.Ledger.Pages(ctx, seconds)
		if err != nil {
			continue // a platform that refuses, or a busy machine; the next look tells
		}
		w.note(time.Now(), v.Pages)
		if healed.IsZero() {
			r.takeSample(ctx)
			continue
		}
		lost = announced(v.Pages, healed)
		since := time.Since(healed)
		if lost == 0 && w.isBack() || since > r.Patience {
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

// takeSample notes what the processes use, when it is time.
func (r *runner) takeSample(ctx context.Context) {
	if time.Since(r.sampled) < r.sample {
		return
	}
	r.sampled = time.Now()
	r.report.Samples = append(r.report.Samples, Sample{At: r.sampled.UTC(), Usage: r.System.Usage(ctx)})
}
