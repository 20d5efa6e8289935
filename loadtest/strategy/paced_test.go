package strategy

import (
	"fmt"
	"math"
	"testing"
	"time"

	"chatclub/internal/article"
)

// sends is how many calls the gate lets through at once; wait is the answer
// after them.
func sends(t *testing.T, g interface {
	Offer(time.Time, article.Key, bool) article.Decision
}, at time.Time, k article.Key,
) (n int, next article.Decision) {
	t.Helper()
	for ; n < 10_000; n++ {
		if d := g.Offer(at, k, false); d.Action != article.Send {
			return n, d
		}
	}
	t.Fatal("the gate lets everything through")
	return 0, article.Decision{}
}

// A share of 50/s has a slot of 20 ms, and runs ahead by one.
func TestStatic(t *testing.T) {
	t.Parallel()
	g := newStatic(Config{Limit: fixed(200 / headroom), Replicas: 4, Random: half})
	for _, step := range []struct {
		at   time.Duration
		want int
		wait time.Duration
	}{
		{0, 2, 20 * time.Millisecond},
		{10 * time.Millisecond, 0, 10 * time.Millisecond},
		{20 * time.Millisecond, 1, 20 * time.Millisecond},
		{time.Second, 2, 20 * time.Millisecond}, // no credit for idleness
		{1020 * time.Millisecond, 1, 20 * time.Millisecond},
	} {
		n, d := sends(t, g, now.Add(step.at), busy)
		if n != step.want || d.Action != article.Wait || d.Wait.Round(time.Microsecond) != step.wait {
			t.Errorf("at %v: %d sends, then %v, want %d, then wait %v", step.at, n, d, step.want, step.wait)
		}
	}
	if n, _ := sends(t, g, now, quiet); n != 2 {
		t.Errorf("sends of another page = %d, want 2", n)
	}
	if d := g.Done(now, busy, false, article.Refused); d != article.Pause(half) {
		t.Errorf("Done(refused) = %v, want wait %v", d, article.Pause(half))
	}
}

// Each page has one replica that takes it, and none has many more than others.
func TestPinned(t *testing.T) {
	t.Parallel()
	const n, pages = 4, 4000
	taken := make([]int, n)
	for i := range pages {
		k := article.Key{Page: fmt.Sprint(100_000 + i), Class: "text"}
		owners := 0
		for r := range n {
			g := newPinned(Config{Limit: fixed(300), Replicas: n, Replica: r, Random: half})
			switch d := g.Offer(now, k, false); d.Action {
			case article.Send:
				owners++
				taken[r]++
				if more, _ := sends(t, g, now, k); more != 5 { // a slot of 294/s is 3.4 ms, and 20 ms may be ahead
					t.Fatalf("sends at once = %d, want 6 at the whole limit", 1+more)
				}
			case article.Return:
			case article.Wait:
				t.Fatalf("Offer = %v, want Send or Return", d)
			}
		}
		if owners != 1 {
			t.Fatalf("page %s has %d replicas, want 1", k.Page, owners)
		}
	}
	for r, got := range taken {
		if math.Abs(float64(got)-pages/n) > 5*math.Sqrt(pages/n) {
			t.Errorf("replica %d has %d pages, want %d ± 5 σ", r, got, pages/n)
		}
	}
}

func TestAIMD(t *testing.T) {
	t.Parallel()
	g := newAIMD(Config{Limit: fixed(100 / headroom), Random: half})
	state := func() float64 { return g.pageLocked(busy).state.perSecond }
	sends(t, g, now, busy)
	for _, step := range []struct {
		name  string
		at    time.Duration
		do    article.Result
		offer bool
		want  float64
	}{
		{"begins at the whole limit", 0, article.Accepted, false, 100},
		{"cut", time.Second, article.Refused, false, 90},
		{"sent before the cut", 1099 * time.Millisecond, article.Refused, false, 90},
		{"cut again", 1100 * time.Millisecond, article.Refused, false, 81},
		{"says nothing", 2 * time.Second, article.Other, false, 81},
		{"grows while messages wait", 2100 * time.Millisecond, article.Accepted, true, 82},
		{"half a second", 2600 * time.Millisecond, article.Accepted, true, 82.5},
		{"not for idle time", 20 * time.Second, article.Accepted, true, 83.5},
		{"up to the limit", 20 * time.Second, article.Accepted, false, 83.5},
	} {
		at := now.Add(step.at)
		g.Done(at, busy, false, step.do)
		if step.offer {
			sends(t, g, at, busy)
		}
		if got := state(); math.Abs(got-step.want) > 1e-6 {
			t.Errorf("%s: rate = %v, want %v", step.name, got, step.want)
		}
	}
	at := now.Add(21 * time.Second)
	for range 1000 {
		at = at.Add(cutEvery)
		g.Done(at, busy, false, article.Refused)
	}
	if got := g.pageLocked(busy).state.perSecond; got != least {
		t.Errorf("rate after many refusals = %v, want %v", got, least)
	}
	for range 300 {
		at = at.Add(time.Second)
		sends(t, g, at, busy)
	}
	if got := g.pageLocked(busy).state.perSecond; got != 100 {
		t.Errorf("rate long after = %v, want 100", got)
	}
}
