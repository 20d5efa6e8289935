package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chatclub/fakeapi/ledger"
)

// checkBalance reports an error unless the ledger's counts add up.
func checkBalance(t interface{ Errorf(string, ...any) }, l *ledger.Ledger) {
	c := l.Totals()
	if owed, got := c.Expected+c.Duplicated+c.Unexpected+c.Unidentified, c.Accepted+c.Lost; owed != got {
		t.Errorf("expected + duplicated + unexpected + unidentified = %d, accepted + lost = %d, want them equal: %+v", owed, got, c)
	}
}

// account is a ledger that remembers everything by name and counts at the end.
type account struct {
	state      map[string]state
	page, to   map[string]string // of announced ids
	accepted   int64
	duplicated int64
	unexpected int64
	events     int64
}

// state is the state of an id in the model.
type state int

const (
	unknown state = iota
	pending
	excused
	came
	cameUnexpected
)

func (a *account) announce(page, id, to string) {
	a.events++
	switch a.state[id] {
	case unknown:
		a.state[id], a.page[id], a.to[id] = pending, page, to
	case cameUnexpected:
		a.state[id] = came
		a.unexpected--
	case pending, excused, came:
	}
}

func (a *account) excuse(id string) {
	if a.state[id] == pending {
		a.state[id] = excused
	}
}

func (a *account) accept(page, id, to string) {
	a.accepted++
	switch s := a.state[id]; {
	case s == unknown && id == unannounced:
		a.state[id] = came
	case s == unknown:
		a.state[id] = cameUnexpected
		a.unexpected++
	case s == came || s == cameUnexpected:
		a.duplicated++
	case a.page[id] != page || a.to[id] != to:
		a.unexpected++
	default:
		a.state[id] = came
	}
}

func (a *account) counts() ledger.Counts {
	c := ledger.Counts{Events: a.events, Accepted: a.accepted, Calls: a.accepted, Duplicated: a.duplicated, Unexpected: a.unexpected}
	for _, s := range a.state {
		switch s {
		case pending:
			c.Expected++
			c.Lost++
		case excused:
			c.Excused++
		case came:
			c.Expected++
		case unknown, cameUnexpected:
		}
	}
	c.Pending = c.Lost
	return c
}

// TestBalance does everything that can happen to a few ids, in any order, and
// compares the ledger with an account that remembers all.
func TestBalance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l, c := newLedger()
		a := &account{state: make(map[string]state), page: make(map[string]string), to: make(map[string]string)}
		events := make(map[string]*ledger.Event) // those that can be withdrawn, by their id
		draw := func() (page, id, to string) {
			return rapid.SampledFrom([]string{"1", "2"}).Draw(t, "page"), rapid.SampledFrom([]string{"a", "b", "c", unannounced}).Draw(t, "id"),
				rapid.SampledFrom([]string{"u", "v"}).Draw(t, "recipient")
		}
		t.Repeat(map[string]func(*rapid.T){
			"announce": func(*rapid.T) {
				page, id, to := draw()
				e := l.Announce(page, ledger.Expected{ID: id, Recipient: to})
				if a.state[id] == unknown {
					events[id] = e
				}
				a.announce(page, id, to)
			},
			"answer": func(*rapid.T) {
				_, id, _ := draw()
				if e := events[id]; e != nil {
					e.Answered()
					delete(events, id)
				}
			},
			"withdraw": func(*rapid.T) {
				_, id, _ := draw()
				if e := events[id]; e != nil {
					e.Withdraw()
					a.excuse(id)
				}
			},
			"excuse": func(*rapid.T) {
				_, id, _ := draw()
				l.Excuse(id)
				a.excuse(id)
			},
			"accept": func(*rapid.T) {
				page, id, to := draw()
				accept(l, c, page, to, id)
				a.accept(page, id, to)
			},
			"reject": func(*rapid.T) {
				page, id, to := draw()
				l.Page(page).Record(c.now, ledger.Send{Recipient: to, Result: ledger.Rejected, ID: id})
				if a.page[id] == page && a.to[id] == to {
					a.excuse(id)
				}
			},
			"": func(t *rapid.T) {
				got := l.Totals()
				got.Rejected, got.Inversions = 0, 0
				if diff := cmp.Diff(a.counts(), got); diff != "" {
					t.Fatalf("Totals: -want +got\n%s", diff)
				}
				checkBalance(t, l)
			},
		})
	})
}

// TestKeep: of a long run the ledger remembers the ids that were accepted or
// excused lately, and counts all.
func TestKeep(t *testing.T) {
	t.Parallel()
	c := &clock{start}
	l := ledger.New(ledger.Config{Now: func() time.Time { return c.now }, Keep: time.Hour})
	const perMinute, minutes = 100, 600
	for m := range minutes {
		c.now = start.Add(time.Duration(m) * time.Minute)
		for i := range perMinute {
			id := fmt.Sprintf("%d/%d", m, i)
			e := l.Announce("1", ledger.Expected{ID: id, Recipient: "u"}, ledger.Expected{ID: id + "x", Recipient: "u"})
			accept(l, c, "1", "u", id)
			e.Withdraw()
		}
		if kept, most := ledger.Settled(l), 2*perMinute*(60+15+1); kept > most {
			t.Fatalf("after %d minutes the ledger remembers %d ids, want %d at most", m, kept, most)
		}
		checkBalance(t, l)
	}
	const all = perMinute * minutes
	want := ledger.Counts{Events: all, Expected: all, Accepted: all, Calls: all, Excused: all}
	checkTotals(t, l, want)
	// A repetition within the hour is one, and an id that was excused may come.
	accept(l, c, "1", "u", fmt.Sprintf("%d/0", minutes-60))
	accept(l, c, "1", "u", fmt.Sprintf("%d/0x", minutes-60))
	want.Accepted, want.Calls, want.Duplicated, want.Expected, want.Excused = all+2, all+2, 1, all+1, all-1
	checkTotals(t, l, want)
	// One that was forgotten is unexpected, and the counts add up.
	accept(l, c, "1", "u", "0/0")
	want.Accepted, want.Calls, want.Unexpected = all+3, all+3, 1
	checkTotals(t, l, want)
	checkBalance(t, l)
}

// TestKeepAfterPause: after a pause of any length the ledger goes on.
func TestKeepAfterPause(t *testing.T) {
	t.Parallel()
	c := &clock{start}
	l := ledger.New(ledger.Config{Now: func() time.Time { return c.now }, Keep: time.Hour})
	accept(l, c, "1", "u", "a")
	c.now = start.Add(1000 * time.Hour)
	accept(l, c, "1", "u", "b")
	accept(l, c, "1", "u", "b")
	c.now = c.now.Add(time.Hour)
	accept(l, c, "1", "u", "b")
	checkTotals(t, l, ledger.Counts{Accepted: 4, Calls: 4, Unexpected: 2, Duplicated: 2})
}
