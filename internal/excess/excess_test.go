package excess

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	busy  = Key{Page: "busy", Class: "text"}
	quiet = Key{Page: "quiet", Class: "text"}
)

func enter(t *testing.T, m *Map, k Key) *Pass {
	t.Helper()
	p, ok := m.Enter(k)
	if !ok {
		t.Fatalf("Enter(%v) = refused, want a pass", k)
	}
	return p
}

func TestRefusedPageTakesNoFurtherMessage(t *testing.T) {
	t.Parallel()
	m := New(nil)
	p := enter(t, m, busy)
	p.Refused()
	if _, ok := m.Enter(busy); ok {
		t.Error("Enter after a refusal = pass, want none")
	}
	if _, ok := m.Enter(Key{Page: busy.Page, Class: "media"}); !ok {
		t.Error("Enter for another class of the page = none, want a pass")
	}
	enter(t, m, quiet).Leave()

	p.Leave()
	enter(t, m, busy).Leave()
	if got := m.Len(); got != 0 {
		t.Errorf("Len() = %d, want 0", got)
	}
}

func TestPageIsFreeOnlyWhenEveryRefusedMessageIsThrough(t *testing.T) {
	t.Parallel()
	m := New(nil)
	a, b, c := enter(t, m, busy), enter(t, m, busy), enter(t, m, busy)
	a.Refused()
	b.Refused()
	b.Refused() // a second refusal of the same message counts once
	c.Leave()   // sent in between: it was never counted
	a.Leave()
	a.Leave() // twice: gives back once
	if _, ok := m.Enter(busy); ok {
		t.Error("Enter with one refused message left = pass, want none")
	}
	b.Leave()
	enter(t, m, busy).Leave()
}

func TestRefusalAfterLeaveCountsNothing(t *testing.T) {
	t.Parallel()
	m := New(nil)
	p := enter(t, m, busy)
	p.Leave()
	p.Refused()
	if got := m.Len(); got != 0 {
		t.Errorf("Len() = %d, want 0", got)
	}
}

func TestPauseIsSpreadAroundItsMean(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		random float64
		want   time.Duration
	}{{0, 50 * time.Millisecond}, {0.5, 100 * time.Millisecond}, {0.99, 149 * time.Millisecond}} {
		m := New(func() float64 { return row.random })
		if got := enter(t, m, busy).Refused(); got != row.want {
			t.Errorf("Refused() with random %v = %v, want %v", row.random, got, row.want)
		}
	}
}

// The model is the plain set of refused and not yet left passes per page.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := New(nil)
		type held struct {
			key     Key
			pass    *Pass
			refused bool
		}
		var open []*held
		refusedOf := func(k Key) (n int) {
			for _, h := range open {
				if h.key == k && h.refused {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			k := Key{Page: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "page"), Class: "text"}
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				p, ok := m.Enter(k)
				if want := refusedOf(k) == 0; ok != want {
					t.Fatalf("Enter(%v) = %v, want %v", k, ok, want)
				}
				if ok {
					open = append(open, &held{key: k, pass: p})
				}
			case 1:
				if len(open) > 0 {
					h := open[rapid.IntRange(0, len(open)-1).Draw(t, "which")]
					h.pass.Refused()
					h.refused = true
				}
			case 2:
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
					open[i].pass.Leave()
					open = append(open[:i], open[i+1:]...)
				}
			}
		}
		for _, h := range open {
			h.pass.Leave()
		}
		if got := m.Len(); got != 0 {
			t.Fatalf("Len() after all left = %d, want 0", got)
		}
	})
}

func TestConcurrentUseLeavesTheMapEmpty(t *testing.T) {
	t.Parallel()
	m := New(nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				k := busy
				if i%3 == 0 {
					k = quiet
				}
				if p, ok := m.Enter(k); ok {
					if i%2 == 0 {
						p.Refused()
					}
					p.Leave()
				}
			}
		})
	}
	wg.Wait()
	if got := m.Len(); got != 0 {
		t.Errorf("Len() = %d, want 0", got)
	}
}
