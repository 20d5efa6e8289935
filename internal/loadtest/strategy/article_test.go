package strategy

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"chatclub/internal/dispatch"
	"chatclub/internal/excess"
)

var _ dispatch.Gate = (*Article)(nil)

var (
	busy  = excess.Key{Page: "busy", Class: "text"}
	quiet = excess.Key{Page: "quiet", Class: "text"}
	now   = time.Unix(1000, 0)
)

func pass(t *testing.T, a *Article, k excess.Key, retry bool) excess.Permit {
	t.Helper()
	d := a.Offer(now, k, retry)
	if d.Action != excess.Send {
		t.Fatalf("Offer(%v, retry %v) = %v, want Send", k, retry, d.Action)
	}
	return d.Permit
}

func TestRefusedPageTakesNoFurtherMessage(t *testing.T) {
	t.Parallel()
	a := NewArticle(nil)
	p := pass(t, a, busy, false)
	if d := a.Done(now, p, excess.Refused); d.Action != excess.Wait || d.Wait < pause/2 || d.Wait > 3*pause/2 {
		t.Errorf("Done(refused) = %+v, want Wait around %v", d, pause)
	}
	if d := a.Offer(now, busy, false); d.Action != excess.Return {
		t.Errorf("Offer after a refusal = %v, want Return", d.Action)
	}
	pass(t, a, quiet, false)
	pass(t, a, excess.Key{Page: busy.Page, Class: "media"}, false)

	a.Done(now, pass(t, a, busy, true), excess.Refused) // tried again, refused retry: counts once
	a.Done(now, pass(t, a, busy, true), excess.Accepted)
	pass(t, a, busy, false)
	if got := a.Counts().Excess; got != 0 {
		t.Errorf("pages in excess = %d, want 0", got)
	}
}

func TestDroppedMessageFreesItsPage(t *testing.T) {
	t.Parallel()
	a := NewArticle(nil)
	a.Done(now, pass(t, a, busy, false), excess.Refused)
	a.Drop(busy)
	pass(t, a, busy, false)
}

// The model is the plain set of refused and not yet sent messages per page.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := NewArticle(nil)
		type held struct {
			pass    excess.Permit
			refused bool
		}
		var open []*held
		refused := map[string]int{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			k := excess.Key{Page: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "page")}
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				d := a.Offer(now, k, false)
				if want := refused[k.Page] == 0; (d.Action == excess.Send) != want {
					t.Fatalf("Offer(%v) = %v, want Send: %v", k, d.Action, want)
				}
				if d.Action == excess.Send {
					open = append(open, &held{pass: d.Permit})
				}
			case 1:
				if len(open) == 0 {
					continue
				}
				h := open[rapid.IntRange(0, len(open)-1).Draw(t, "which")]
				a.Done(now, h.pass, excess.Refused)
				if !h.refused {
					h.refused = true
					refused[h.pass.Key.Page]++
				}
				h.pass.Retry = true
			case 2:
				if len(open) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				h := open[i]
				a.Done(now, h.pass, excess.Accepted)
				if h.refused {
					refused[h.pass.Key.Page]--
				}
				open = append(open[:i], open[i+1:]...)
			}
		}
		for _, h := range open {
			a.Done(now, h.pass, excess.Accepted)
		}
		if got := a.Counts().Excess; got != 0 {
			t.Fatalf("pages in excess after all left = %d, want 0", got)
		}
	})
}
