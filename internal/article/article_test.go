package article

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"chatclub/internal/excess"
)

var (
	busy  = excess.Key{Page: "busy", Class: "text"}
	quiet = excess.Key{Page: "quiet", Class: "text"}
	now   = time.Unix(1000, 0)
)

func pass(t *testing.T, a *Article, k excess.Key, retry bool) {
	t.Helper()
	if d := a.Offer(now, k, retry); d.Action != Send {
		t.Fatalf("Offer(%v, retry %v) = %v, want Send", k, retry, d.Action)
	}
}

func TestRefusedPageTakesNoFurtherMessage(t *testing.T) {
	t.Parallel()
	a := New(nil)
	pass(t, a, busy, false)
	if d := a.Done(now, busy, false, excess.Refused); d < pause/2 || d > 3*pause/2 {
		t.Errorf("Done(refused) = %v, want around %v", d, pause)
	}
	if d := a.Offer(now, busy, false); d.Action != Return {
		t.Errorf("Offer after a refusal = %v, want Return", d.Action)
	}
	pass(t, a, quiet, false)
	pass(t, a, excess.Key{Page: busy.Page, Class: "media"}, false)

	pass(t, a, busy, true)
	a.Done(now, busy, true, excess.Refused) // tried again, refused again: counts once
	pass(t, a, busy, true)
	a.Done(now, busy, true, excess.Accepted)
	pass(t, a, busy, false)
	if got := len(a.pages); got != 0 {
		t.Errorf("pages in excess = %d, want 0", got)
	}
}

func TestDroppedMessageFreesItsPage(t *testing.T) {
	t.Parallel()
	a := New(nil)
	pass(t, a, busy, false)
	a.Done(now, busy, false, excess.Refused)
	a.Drop(busy)
	pass(t, a, busy, false)
}

// The model is the plain set of refused and not yet sent messages per page.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := New(nil)
		type flying struct {
			key     excess.Key
			refused bool
		}
		var open []*flying
		refused := map[string]int{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			k := excess.Key{Page: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "page")}
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				d := a.Offer(now, k, false)
				if want := refused[k.Page] == 0; (d.Action == Send) != want {
					t.Fatalf("Offer(%v) = %v, want Send: %v", k, d.Action, want)
				}
				if d.Action == Send {
					open = append(open, &flying{key: k})
				}
			case 1:
				if len(open) == 0 {
					continue
				}
				h := open[rapid.IntRange(0, len(open)-1).Draw(t, "which")]
				a.Done(now, h.key, h.refused, excess.Refused)
				if !h.refused {
					h.refused = true
					refused[h.key.Page]++
				}
			case 2:
				if len(open) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				h := open[i]
				a.Done(now, h.key, h.refused, excess.Accepted)
				if h.refused {
					refused[h.key.Page]--
				}
				open = append(open[:i], open[i+1:]...)
			}
		}
		for _, h := range open {
			a.Done(now, h.key, h.refused, excess.Accepted)
		}
		if got := len(a.pages); got != 0 {
			t.Fatalf("pages in excess after all left = %d, want 0", got)
		}
	})
}
