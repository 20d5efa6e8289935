package ledger_test

import (
	"testing"
	"time"

	"chatclub/fakeapi/ledger"
)

// Latencies count from when an event was due, not from when it was announced.
// An event is whole when its last id is accepted, and never when one was
// excused. An awaited id shows how long it has waited.
func TestGroupKeepsLatencies(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	l := ledger.New(ledger.Config{Now: func() time.Time { return now }})
	announce := func(due time.Duration, ids ...string) {
		x := ledger.Announcement{Page: "1", Group: "hot", Due: time.Unix(1000, 0).Add(due)}
		for _, id := range ids {
			x.IDs = append(x.IDs, ledger.Expected{ID: id, Recipient: id})
		}
		l.Enter(x)
	}
	accept := func(at time.Duration, id string) {
		now = time.Unix(1000, 0).Add(at)
		l.Page("1").Record(now, ledger.Send{Result: ledger.Accepted, Recipient: id, ID: id})
	}
	announce(0, "a1", "a2")
	announce(50*time.Millisecond, "b1", "b2") // announced 50 ms before it is due
	announce(0, "c1", "c2")
	l.Announce("1", ledger.Expected{ID: "in no group"})
	accept(100*time.Millisecond, "a1")
	accept(250*time.Millisecond, "a2")
	accept(250*time.Millisecond, "a2") // a repetition is no latency
	accept(300*time.Millisecond, "b1")
	l.Excuse("b2")
	accept(400*time.Millisecond, "c1")
	now = time.Unix(1001, 0)
	groups := l.Groups()
	if len(groups) != 1 {
		t.Fatalf("Groups() = %v, want one", groups)
	}
	g := groups[0]
	if g.Group != "hot" || g.Events != 3 || g.Accepted != 4 || g.Completed != 1 || !g.Last.Equal(time.Unix(1000, 400e6)) || !g.Began.Equal(time.Unix(1000, 0)) {
		t.Errorf("group = %+v, want hot, 3 events, 4 accepted, 1 completed, from 0 to 400 ms", g)
	}
	want := []uint32{0, 1, 1, 1, 1}
	if len(g.Tenths) != len(want) {
		t.Fatalf("tenths = %v, want %v", g.Tenths, want)
	}
	for i := range want {
		if g.Tenths[i] != want[i] {
			t.Errorf("tenths = %v, want %v", g.Tenths, want)
		}
	}
	for _, c := range []struct {
		name      string
		bins      []ledger.Bin
		n         int64
		low, high int64 // ms
	}{{"copies", g.Copies, 4, 100, 400}, {"whole", g.Whole, 1, 250, 250}, {"waiting", g.Waiting, 1, 1000, 1000}} {
		n, first, last := int64(0), c.bins[0].Micros, c.bins[len(c.bins)-1].Micros
		for _, b := range c.bins {
			n += b.Count
		}
		if n != c.n || (first+500)/1000 != c.low || (last+500)/1000 != c.high {
			t.Errorf("%s: %d from %d to %d µs, want %d from %d to %d ms", c.name, n, first, last, c.n, c.low, c.high)
		}
	}
	l.Reset()
	if groups = l.Groups(); len(groups) != 0 {
		t.Errorf("Groups() after Reset = %v, want none", groups)
	}
}

// A group keeps its acceptances by tenths of a second for a day, and no longer.
func TestGroupKeepsTenthsForADay(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	now := began
	l := ledger.New(ledger.Config{Now: func() time.Time { return now }})
	l.Enter(ledger.Announcement{Page: "1", Group: "hot", Due: began, IDs: []ledger.Expected{{ID: "a"}, {ID: "b"}}})
	for id, after := range map[string]time.Duration{"a": 24*time.Hour - time.Millisecond, "b": 24 * time.Hour} {
		l.Page("1").Record(began.Add(after), ledger.Send{Result: ledger.Accepted, Recipient: id, ID: id})
	}
	groups := l.Groups()
	if len(groups) != 1 {
		t.Fatalf("Groups() = %v, want one", groups)
	}
	if n := len(groups[0].Tenths); n != 864_000 || groups[0].Tenths[n-1] != 1 || groups[0].Accepted != 2 {
		t.Errorf("%d tenths, %d accepted, want 864000 with the first of the 2 in the last", n, groups[0].Accepted)
	}
}
