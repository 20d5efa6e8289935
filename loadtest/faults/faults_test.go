package faults

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"chatclub/fakeapi/ledger"
	"chatclub/loadtest/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a system and its ledger: four pages that get a copy each, ten times a
// second, but for what the test lets go wrong. Its clock is the test's.
type fake struct {
	// What goes wrong in each fault.
	lost, doubled, unexpected int64
	overtaken                 int64
	silent                    time.Duration // of page 0, from the fault's begin
	ends                      string        // a program that ends by itself
	busy                      string
	idle                      bool // nobody writes
	endError                  error
	dead                      map[string]int

	mu       sync.Mutex
	began    time.Time // of the system
	fault    time.Time // when the latest fault began; zero: none
	faults   int64
	ended    int64
	quiet    bool
	failures []string
	patches  []any
}

const fakePages = 4

// Pages implements Ledger.
func (f *fake) Pages(context.Context, int) (ledger.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := ledger.Report{Now: time.Now()}
	for i := range fakePages {
		count := int64(time.Since(f.began) / (100 * time.Millisecond))
		if f.idle {
			count = 1
		}
		p := ledger.PageReport{Page: string(rune('a' + i)), Totals: ledger.Counts{Accepted: count, Expected: count + 1, Pending: 1}}
		if f.quiet {
			p.Totals.Pending = 0
		}
		if i == 0 {
			if !f.fault.IsZero() && time.Since(f.fault) < f.silent {
				p.Totals.Accepted = int64(f.fault.Sub(f.began) / (100 * time.Millisecond))
				p.Totals.Pending = p.Totals.Expected - p.Totals.Accepted
			}
			p.Totals.Duplicated, p.Totals.Unexpected = f.faults*f.doubled, f.faults*f.unexpected
			p.Totals.Accepted += f.faults * f.doubled
			p.Totals.Inversions = f.faults * f.overtaken
			if lost := f.faults * f.lost; lost > 0 {
				p.Series = []ledger.Second{{Unix: f.fault.Unix(), Lost: uint32(lost)}}
			}
		}
		r.Pages = append(r.Pages, p)
		r.Totals.Expected += p.Totals.Expected
		r.Totals.Accepted += p.Totals.Accepted
		r.Totals.Pending += p.Totals.Pending
		r.Totals.Duplicated += p.Totals.Duplicated
		r.Totals.Unexpected += p.Totals.Unexpected
		r.Totals.Inversions += p.Totals.Inversions
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

func (f *fake) Ready(context.Context) error                  { return nil }
func (f *fake) Meter() func() string                         { return func() string { return f.busy } }
func (f *fake) Dead(context.Context) (map[string]int, error) { return f.dead, nil }

func (f *fake) Failures() []string {
	list := f.failures
	f.failures = nil
	return list
}

func (f *fake) Quiet(context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quiet = true
	return 0, nil
}

func (f *fake) config() Config {
	return Config{
		System: f, Ledger: f, Seed: 1, For: time.Hour, Steps: 2, Say: func(string) {},
		Load: Load{Pages: fakePages, Members: 11, Events: 4},
		Faults: []Fault{{
			Name: "half-open-dispatcher-broker", Title: "for the test", Action: HalfOpen, Part: DispatcherBroker, Length: 10 * time.Second,
			Bound: Bound{Sends: time.Second, Silence: 5 * time.Second, Back: 8 * time.Second}, // 40 copies
		}},
	}
}

// A broken promise is found, and nothing else is.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*fake)
		want   report.Outcome
		reason string
	}{
		{"all kept", func(*fake) {}, report.Pass, ""},
		{"as many doubled as promised", func(f *fake) { f.doubled = 40 }, report.Pass, ""},
		{"silent for less than promised", func(f *fake) { f.silent = 4 * time.Second }, report.Pass, ""},
		{"one lost", func(f *fake) { f.lost = 1 }, report.Fail, "lost at most 0: 1"},
		{"more doubled", func(f *fake) { f.doubled = 41 }, report.Fail, "duplicated at most 40: 41"},
		{"unexpected", func(f *fake) { f.unexpected = 1 }, report.Fail, "unexpected at most 0: 1"},
		{"one overtaken", func(f *fake) { f.overtaken = 1 }, report.Fail, "overtaken at most 0: 1"},
		{"silent for longer", func(f *fake) { f.silent = 6 * time.Second }, report.Fail, "longest silence at most 5.0 s"},
		{"back later", func(f *fake) { f.silent = 30 * time.Second }, report.Fail, "back after at most 8.0 s"},
		{"a program ends by itself", func(f *fake) { f.ends = "core-1 ended by itself" }, report.Fail, "core-1 ended by itself"},
		{"nobody writes", func(f *fake) { f.idle = true }, report.Fail, "nobody wrote anything"},
		{"a fault cannot be ended", func(f *fake) { f.endError = errors.New("no such process") }, report.Fail, "no such process"},
		{"dead for a reason", func(f *fake) { f.dead = map[string]int{"ambiguous": 3} }, report.Pass, ""},
		{"dead without a reason", func(f *fake) { f.dead = map[string]int{"": 3} }, report.Fail, "3 have none"},
		{"silent on a busy machine", func(f *fake) { f.silent, f.busy = 6*time.Second, "others had it" }, report.NoVerdict, "on a busy machine"},
		{"kept on a busy machine", func(f *fake) { f.busy = "others had it" }, report.Pass, ""},
		{"overtaken on a busy machine", func(f *fake) { f.overtaken, f.busy = 1, "others had it" }, report.Fail, "overtaken at most 0: 1"},
		{"lost on a busy machine", func(f *fake) { f.lost, f.busy = 1, "others had it" }, report.Fail, "lost at most 0: 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{began: time.Now()}
				tc.change(f)
				rep, err := Run(t.Context(), f.config())
				if err != nil {
					t.Fatal(err)
				}
				if v := rep.Verdict(); v.Outcome != tc.want || !strings.Contains(v.Reason, tc.reason) {
					t.Errorf("verdict = %s, want %s: …%s…", v, tc.want, tc.reason)
				}
				if f.ended != f.faults || f.faults != 2 {
					t.Errorf("%d faults began and %d ended, want 2 and 2", f.faults, f.ended)
				}
			})
		})
	}
}

// An interrupt in the middle of a fault ends the fault, and the rows of before are
// told. It is no verdict.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{began: time.Now()}
		cfg := f.config()
		ctx, cancel := context.WithCancel(t.Context())
		began := 0
		cfg.Say = func(line string) {
			if strings.HasPrefix(line, "half-open") {
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
		if v := rep.Verdict(); v.Outcome != report.NoVerdict || !strings.Contains(v.Reason, "stopped before its end") || rep.Expectations[0].Got != "1 times" {
			t.Errorf("verdict = %s, %v; want no verdict, and the one row of before", v, rep.Expectations)
		}
	})
}

// All that the platform is told to do wrong is taken back, the pages' limits too.
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
		f := &fake{began: time.Now()}
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

// The bounds are those that their terms say at a load.
func TestBound(t *testing.T) {
	t.Parallel()
	l := Load{Pages: 4, Members: 11, Events: 4} // 40 copies a second
	for _, tc := range []struct {
		bound Bound
		want  int64
	}{
		{Bound{}, 0},
		{Bound{Calls: 1}, 76 + 30},
		{Bound{Calls: 1, Every: 4 * time.Second}, 3 * (76 + 30)},
		{Bound{Events: 8, Moves: 64}, 80 + 64},
		{Bound{Sends: 1500 * time.Millisecond}, 60},
		{Bound{Share: .05}, 20},
	} {
		if got := tc.bound.Doubled(l, 10*time.Second); got != tc.want {
			t.Errorf("bound of %+v = %d, want %d", tc.bound, got, tc.want)
		}
	}
	list := Fault{Bound: Bound{Silence: 5 * time.Second, Lasting: true}}.bounds(l, 20*time.Second, time.Second)
	if want := report.AtMost(report.Silence, 25); !slices.Contains(list, want) {
		t.Errorf("bounds of a lasting silence = %v, want %v among them", list, want)
	}
}

// Each fault has a bound of order: a kill may overtake as many copies as it may double, and
// all else none.
func TestOrderIsBound(t *testing.T) {
	t.Parallel()
	for _, f := range Table() {
		want := report.AtMost(report.Overtaken, 0)
		if f.Action == Kill {
			want.Value = float64(f.Bound.Doubled(UsualLoad, f.Length))
		}
		if list := f.bounds(UsualLoad, f.Length, f.Length); !slices.Contains(list, want) {
			t.Errorf("bounds of %s = %v, want %v among them", f.Name, list, want)
		}
	}
}

// Each round of a script has every fault once, the same for the same seed, and with
// bounds.
func TestScript(t *testing.T) {
	t.Parallel()
	n := len(Table())
	first, again, other := Script(7, Table()), Script(7, Table()), Script(8, Table())
	seen, same := make(map[string]int), 0
	for range 2 * n {
		s, o := first(), other()
		if a := again(); a != s {
			t.Fatalf("two scripts of one seed have %v and %v", s, a)
		}
		if o == s {
			same++
		}
		seen[s.Fault.Name]++
		f := s.Fault
		if s.Length < f.Length || s.Length > f.Length*3/2+time.Second || f.Bound.Silence <= 0 || f.Bound.Back <= 0 || f.Title == "" {
			t.Errorf("%s for %v: its length, bounds or title are not whole: %+v", s, s.Length, f)
		}
	}
	for name, times := range seen {
		if times != 2 {
			t.Errorf("%s is %d times in two rounds, want twice", name, times)
		}
	}
	if len(seen) != n || same == 2*n {
		t.Errorf("two rounds have %d faults of %d, and are the same for another seed: %t", len(seen), n, same == 2*n)
	}
}

func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// A page is silent from when it awaits copies until a new one comes. A copy that has come
// before is no sign of life, and a page that awaits nothing is not silent. It is back
// with its first copy after the fault's end.
func TestSilenceAndBack(t *testing.T) {
	t.Parallel()
	page := func(id string, accepted, duplicated, pending int64) ledger.PageReport {
		return ledger.PageReport{Page: id, Totals: ledger.Counts{Accepted: accepted, Duplicated: duplicated, Pending: pending}}
	}
	w := newWatch()
	w.note(at(0), []ledger.PageReport{page("a", 10, 0, 5), page("b", 0, 0, 0)})
	w.note(at(1), []ledger.PageReport{page("a", 12, 2, 5), page("b", 0, 0, 0)}) // two that had come before
	w.note(at(3), []ledger.PageReport{page("a", 12, 2, 5), page("b", 0, 0, 1)})
	if w.worst != 3*time.Second {
		t.Errorf("silence = %v, want 3s", w.worst)
	}
	w.note(at(4), []ledger.PageReport{page("a", 13, 2, 5), page("b", 0, 0, 1)})
	w.heal(at(10))
	w.note(at(11), []ledger.PageReport{page("a", 14, 2, 5), page("b", 0, 0, 1)})
	if len(w.waits) == 0 {
		t.Error("all are back while one is silent")
	}
	w.note(at(14), []ledger.PageReport{page("a", 20, 2, 0), page("b", 1, 0, 0)})
	w.note(at(90), []ledger.PageReport{page("a", 20, 2, 0), page("b", 1, 0, 0)}) // they await nothing
	if len(w.waits) > 0 || w.back != 4*time.Second || w.worst != 11*time.Second {
		t.Errorf("%d pages are silent, back after %v, silence %v, want 0 after 4s, 11s", len(w.waits), w.back, w.worst)
	}
}
