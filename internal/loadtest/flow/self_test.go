package flow

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The tables are worth no more than what makes them: these are tests of it.

func TestRecordJudges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRecord()
		id := make([]string, 7)
		for i := range id {
			id[i] = b.enter(1, i/6, 0) // the last is for somebody else
		}
		for _, i := range []int{2, 1, 3} {
			b.toLane(id[i])
		}
		for _, i := range []int{0, 0, 2, 1, 3} { // 0 twice; 1 after 2, as in the lane
			b.accept(id[i])
			time.Sleep(100 * time.Millisecond)
		}
		want := verdict{published: 7, accepted: 4, missing: 2, doubled: 2, repeated: 1, inversions: 1}
		if got := b.judge([]string{id[4], id[3]}); got != want { // 5 and 6 are nowhere; 3 would be sent again
			t.Errorf("judge = %+v, want %+v", got, want)
		}
		if a := b.accepted(1, window{0, time.Second}); a != 5 {
			t.Errorf("accepted = %d, want 5", a)
		}
		if a := b.accepted(1, window{200 * time.Millisecond, 400 * time.Millisecond}); a != 2 {
			t.Errorf("accepted from 200 to 400 ms = %d, want 2", a)
		}
	})
}

func TestRecordSeesWhatOvertakesInTheLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRecord()
		first, second := b.enter(1, 0, 0), b.enter(1, 0, 0)
		b.toLane(first)
		b.toLane(second)
		b.accept(second)
		b.accept(first)
		if got := b.judge(nil); got.overtaken != 1 || got.inversions != 1 {
			t.Errorf("judge = %+v, want one overtaken and one inversion", got)
		}
	})
}

func TestBackIsTheLastDip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRecord()
		for i := range 100 { // 10/s for 10 s, but for two seconds from 3 s on
			time.Sleep(100 * time.Millisecond)
			if i < 30 || i >= 50 {
				b.accept(b.enter(1, i, 0))
			}
		}
		// The last second with less than 9 of 10 ends when 9 of its cells are full again.
		if got, want := b.back(1, 2*time.Second, 9, 7*time.Second), 3900*time.Millisecond; got != want {
			t.Errorf("back = %v, want %v", got, want)
		}
	})
}

func TestWorstOfSeedsAndBounds(t *testing.T) {
	t.Parallel()
	got := figures{quota: .9, refused: .1, lost: 0}.worst(figures{quota: .8, refused: .05, stall: 3})
	if diff := cmp.Diff(figures{quota: .8, refused: .1, lost: 0, stall: 3}, got); diff != "" {
		t.Errorf("worst (-want +got):\n%s", diff)
	}
	for _, b := range []bound{atLeast(quota, .81), atMost(refused, .09), atMost(operations, 1)} {
		if b.broken(got) == "" {
			t.Errorf("%+v holds for %v, want it broken", b, got)
		}
	}
	for _, b := range []bound{atLeast(quota, .8), atMost(refused, .1), atMost(stall, 3)} {
		if s := b.broken(got); s != "" {
			t.Errorf("%+v of %v: %s, want it kept", b, got, s)
		}
	}
}

// The rows that run with -short exist.
func TestTellingRowsExist(t *testing.T) {
	t.Parallel()
	e := extentOf()
	for _, name := range e.rows {
		if !slices.ContainsFunc(scenarios(e), func(g group) bool {
			return slices.ContainsFunc(g.rows, func(r row) bool { return r.title() == name })
		}) {
			t.Errorf("no row is called %q", name)
		}
	}
}
