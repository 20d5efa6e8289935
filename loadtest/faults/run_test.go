package faults

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/fakeapi/ledger"
)

// fake is a system and its ledger: four pages that get a copy each, ten times a
// second, but for what the test lets go wrong. Its clock is the test's.
type fake struct {
	// What goes wrong in each fault.
	lost, doubled, unexpected int64
	silent                    time.Duration // of page 0, from the fault's begin
	ends                      string        // a program that ends by itself
	busy                      string
	endError                  error
	dead                      map[string]int

	mu       sync.Mutex
	began    time.Time // of the system
	fault    time.Time // when the latest fault began; zero: none
	faults   int64
	ended    int64
	failures []string
	patches  []any
}

const fakePages = 4

func newFake() *fake { return &fake{began: time.Now()} }

// Pages implements Ledger.
func (f *fake) Pages(context.Context, int) (ledger.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := ledger.Report{Now: time.Now()}
	for i := range fakePages {
		count := int64(time.Since(f.began) / (100 * time.Millisecond))
		p := ledger.PageReport{Page: string(rune('a' + i)), Totals: ledger.Counts{Accepted: count, Expected: count + 1, Pending: 1}}
		if i == 0 {
			if !f.fault.IsZero() && time.Since(f.fault) < f.silent {
				p.Totals.Accepted = int64(f.fault.Sub(f.began) / (100 * time.Millisecond))
				p.Totals.Pending = p.Totals.Expected - p.Totals.Accepted
			}
			p.Totals.Duplicated, p.Totals.Unexpected = f.faults*f.doubled, f.faults*f.unexpected
			p.Totals.Accepted += f.faults * f.doubled
			if lost := f.faults * f.lost; lost > 0 {
				p.Series = []ledger.Second{{Unix: f.fault.Unix(), Lost: uint32(lost)}}
			}
		}
		r.Pages = append(r.Pages, p)
		r.Totals.Expected += p.Totals.Expected
		r.Totals.Accepted += p.Totals.Accepted
		r.Totals.Duplicated += p.Totals.Duplicated
		r.Totals.Unexpected += p.Totals.Unexpected
	}
	return r, nil
}

// Control implements Ledger.
func (f *fake) Control(_ context.Context, patch any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.patches = append(f.patches, patch)
	return nil
}

// Begin implements System.
func (f *fake) Begin(context.Context, Step) (func(context.Context) error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = time.Now()
	f.faults++
	if f.ends != "" {
		f.failures = append(f.failures, f.ends)
	}
	return func(ctx context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if ctx.Err() == nil { // with one that has ended nothing could be undone
			f.ended++
		}
		return f.endError
	}, nil
}

func (f *fake) Ready(context.Context) error { return nil }
func (f *fake) Meter() func() string        { return func() string { return f.busy } }
func (f *fake) Usage(context.Context) []Usage {
	return []Usage{{Process: "core-1", PID: 1, Memory: 20 << 20, Goroutines: 50, Files: 20}}
}
func (f *fake) Dead(context.Context) (map[string]int, error) { return f.dead, nil }

func (f *fake) Failures() []string {
	list := f.failures
	f.failures = nil
	return list
}

func (f *fake) Quiet(context.Context) (ledger.Counts, error) {
	return ledger.Counts{Pending: f.faults * f.lost}, nil
}

// play runs a fault of links on the fake, twice, in virtual time.
func play(t *testing.T, change func(*fake)) *Report {
	t.Helper()
	var rep *Report
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		if change != nil {
			change(f)
		}
		var err error
		rep, err = Run(t.Context(), f.config())
		if err != nil {
			t.Fatal(err)
		}
		if f.ended != f.faults || f.faults != 2 {
			t.Errorf("%d faults began and %d ended, want 2 and 2", f.faults, f.ended)
		}
	})
	return rep
}

func (f *fake) config() Config {
	return Config{
		System: f, Ledger: f, Seed: 1, For: time.Hour, Steps: 2, Patience: time.Minute, Say: func(string) {},
		Load: Load{Pages: fakePages, Members: 11, Events: 4},
		Faults: []Fault{{
			Name: "half-open-dispatcher-broker", Title: "for the test", Action: HalfOpen, Part: DispatcherBroker, Length: 10 * time.Second, Nodes: 1,
			Bound: Bound{Sends: time.Second, Silence: 5 * time.Second, Back: 8 * time.Second}, // 40 copies
		}},
	}
}

// What breaks a promise is found, and nothing else is.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*fake)
		want   Outcome
		reason string
	}{
		{"all kept", nil, Pass, "2 faults, every bound kept"},
		{"as many doubled as promised", func(f *fake) { f.doubled = 40 }, Pass, ""},
		{"silent for less than promised", func(f *fake) { f.silent = 4 * time.Second }, Pass, ""},
		{"one lost", func(f *fake) { f.lost = 1 }, Fail, "1 lost"},
		{"more doubled", func(f *fake) { f.doubled = 41 }, Fail, "41 doubled, at most 40 promised"},
		{"unexpected", func(f *fake) { f.unexpected = 1 }, Fail, "1 unexpected"},
		{"silent for longer", func(f *fake) { f.silent = 6 * time.Second }, Fail, "at most 5.0 s promised"},
		{"back later", func(f *fake) { f.silent = 30 * time.Second }, Fail, "at most 8.0 s promised"},
		{"a program ends by itself", func(f *fake) { f.ends = "core-1 ended by itself" }, Fail, "core-1 ended by itself"},
		{"a fault cannot be ended", func(f *fake) { f.endError = errors.New("no such process") }, Fail, "end: no such process"},
		{"dead for a reason", func(f *fake) { f.dead = map[string]int{"ambiguous": 3} }, Pass, ""},
		{"dead without a reason", func(f *fake) { f.dead = map[string]int{"": 3} }, Fail, "3 dead letters without a reason"},
		{"silent on a busy machine", func(f *fake) { f.silent, f.busy = 6*time.Second, "others had it" }, NoVerdict, "but others had it"},
		{"kept on a busy machine", func(f *fake) { f.busy = "others had it" }, Pass, ""},
		{"lost on a busy machine", func(f *fake) { f.lost, f.busy = 1, "others had it" }, Fail, "1 lost"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rep := play(t, tc.change)
			if all := strings.Join(rep.Reasons, "; "); rep.Outcome != tc.want || !strings.Contains(all, tc.reason) {
				t.Errorf("outcome = %s: %s, want %s: …%s…", rep.Outcome, all, tc.want, tc.reason)
			}
		})
	}
}

// An interrupt in the middle of a fault ends the fault, and what was seen before is
// told. It is no verdict.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		cfg := f.config()
		ctx, cancel := context.WithCancel(t.Context())
		began := 0
		cfg.Say = func(line string) {
			if strings.Contains(line, " for ") {
				if began++; began == 2 {
					time.AfterFunc(time.Second, cancel)
				}
			}
		}
		rep, err := Run(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if f.faults != 2 || f.ended != 2 {
			t.Errorf("%d faults began and %d ended, want 2 and 2", f.faults, f.ended)
		}
		if rep.Outcome != NoVerdict || rep.Whole || len(rep.Rows) != 1 {
			t.Errorf("outcome = %s, whole %v, %d rows; want no verdict, not whole, the one row of before", rep.Outcome, rep.Whole, len(rep.Rows))
		}
	})
}

// What the platform is told to do wrong is taken back, the pages' limits too.
func TestPlatformFaultsEnd(t *testing.T) {
	t.Parallel()
	for _, f := range Table() {
		if f.Part != API {
			continue
		}
		on, off := platformFault(f.Action, Load{Pages: 4, Members: 11, Events: 4}, time.Unix(1e9, 0))
		for key := range on.(map[string]any) {
			for name, value := range on.(map[string]any)[key].(map[string]any) {
				back, ok := off.(map[string]any)[key].(map[string]any)[name]
				if !ok || back == value {
					t.Errorf("%s sets %s.%s to %v and then to %v, want another", f.Name, key, name, value, back)
				}
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		cfg := f.config()
		cfg.Steps = 8
		if _, err := Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if len(f.patches) == 0 || len(f.patches)%2 != 0 {
			t.Fatalf("%d changes of the pages' limits, want some, each taken back", len(f.patches))
		}
		last := f.patches[len(f.patches)-1].(map[string]any)["pages"].(map[string]any)
		for page, own := range last {
			if own.(map[string]int)["text"] != 0 {
				t.Errorf("page %s has a limit of its own at the end: %v", page, own)
			}
		}
	})
}

// A process that grows is found; one that is restarted, swings, or is the judge, is
// not.
func TestGrowth(t *testing.T) {
	t.Parallel()
	series := func(name string, pid func(i int) int, of func(i int) Usage) (all []Sample) {
		for i := range 30 {
			u := of(i)
			u.Process, u.PID = name, pid(i)
			all = append(all, Sample{At: at(float64(60 * i)), Usage: []Usage{u}})
		}
		return all
	}
	same := func(int) int { return 1 }
	leak := func(i int) Usage { return Usage{Memory: int64(20+10*i) << 20, Goroutines: 50, Files: 20} }
	for _, tc := range []struct {
		name    string
		samples []Sample
		want    string
	}{
		{"memory", series("core-1", same, leak), "core-1 has 220 MiB of memory, and had at most 110"},
		{"goroutines", series("core-1", same, func(i int) Usage { return Usage{Memory: 1, Goroutines: 50 + 20*float64(i)} }), "goroutines"},
		{"files", series("core-1", same, func(i int) Usage { return Usage{Memory: 1, Files: 20 + 10*i} }), "open files"},
		{"restarts", series("core-1", func(i int) int { return i / 5 }, leak), ""},
		{"swings", series("core-1", same, func(i int) Usage { return Usage{Memory: int64(20+200*(i%2)) << 20} }), ""},
		{"the judge", series(PlatformProcess, same, leak), ""},
		{"steady", series("core-1", same, func(int) Usage { return Usage{Memory: 20 << 20, Goroutines: 50, Files: 20} }), ""},
	} {
		got := strings.Join(growth(tc.samples), "; ")
		if !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("growth of %s = %q, want …%s…", tc.name, got, tc.want)
		}
	}
}

// The bounds are what their terms say at a load.
func TestBound(t *testing.T) {
	t.Parallel()
	l := Load{Pages: 4, Members: 11, Events: 4} // 40 copies a second
	for _, tc := range []struct {
		bound Bound
		want  int64
		text  string
	}{
		{Bound{}, 0, "0"},
		{Bound{Calls: 1}, 76 + 30, "calls in flight"},
		{Bound{Calls: 1, Every: 4 * time.Second}, 3 * (76 + 30), "calls in flight every 4s"},
		{Bound{Events: 8, Moves: 64}, 80 + 64, "8 events + 64 moves"},
		{Bound{Sends: 1500 * time.Millisecond}, 60, "1.5s of sends"},
		{Bound{Share: .05}, 20, "5 % of the copies"},
	} {
		if got := tc.bound.Doubled(l, 10*time.Second); got != tc.want || tc.bound.String() != tc.text {
			t.Errorf("bound of %+v = %d, %q, want %d, %q", tc.bound, got, tc.bound, tc.want, tc.text)
		}
	}
	b := Bound{Silence: 5 * time.Second, Lasting: true}
	if got := b.Silent(20 * time.Second); got != 25*time.Second {
		t.Errorf("Silent = %v, want 25s", got)
	}
}

// The report tells what was seen, for people.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	rep := play(t, func(f *fake) { f.doubled = 41 })
	var b bytes.Buffer
	if err := rep.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Faults: FAIL", "half-open-dispatcher-broker: 41 doubled, at most 40 promised",
		"| half-open-dispatcher-broker | 2 | 0 | 41 (40) | 0 |", "**not kept**", "| core-1 | 20/50/20 |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
}
