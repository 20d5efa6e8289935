package excess

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// How many messages of a free page may wait: a second's worth on a replica that
// is alone, and no opinion when there are others.
func TestMaxWaiting(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		replicas int
		joined   time.Time
		want     int
	}{
		{"alone", 1, begin.Add(-time.Hour), 294},
		{"alone, and just begun", 1, begin, 29},
		{"two", 2, begin.Add(-time.Hour), 0},
	} {
		m := newMap(row.replicas)
		m.Join(row.joined)
		burst(m, begin, page)
		if d := m.Offer(begin, page, false); d.Action != Wait || d.MaxWaiting != row.want {
			t.Errorf("%s: Offer = %v, at most %d waiting; want Wait, %d", row.name, d.Action, d.MaxWaiting, row.want)
		}
	}
}

// owned returns the map of a replica that has the page's lane, and has sent one
// message from it.
func owned(t *testing.T, replicas int) *Map {
	t.Helper()
	m := newMap(replicas)
	m.OfferLane(begin, page) // a new owner waits for a moment
	d := m.OfferLane(at(5*time.Millisecond), page)
	if d.Action != Send {
		t.Fatalf("OfferLane = %v, want Send", d.Action)
	}
	m.Done(at(5*time.Millisecond), d.Permit, Accepted)
	return m
}

// laneBurst is how many messages of the page's lane m sends at once.
func laneBurst(m *Map, now time.Time) (sent []Permit) {
	for {
		d := m.OfferLane(now, page)
		if d.Action != Send {
			return sent
		}
		sent = append(sent, d.Permit)
	}
}

// The owner that is alone sends at once what the second has left, once what may
// have been sent before it began is two seconds old; one of several does not.
func TestOwnerBurst(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		replicas int
		after    time.Duration // since it became owner
		want     int
	}{{1, 1990 * time.Millisecond, 1}, {1, 2 * time.Second, 294}, {2, 2 * time.Second, 1}} {
		m := owned(t, row.replicas)
		if got := len(laneBurst(m, at(row.after))); got != row.want {
			t.Errorf("sent at once by the owner of %d after %v = %d, want %d", row.replicas, row.after, got, row.want)
		}
	}
}

// A burst of the lane that is refused ends such bursts until the pace is again
// what was configured, and ten seconds at least. Only the call that was in its
// time, the first, says something about the pace.
func TestRefusedOwnerBurst(t *testing.T) {
	t.Parallel()
	m := owned(t, 1)
	now := at(3 * time.Second)
	for _, p := range laneBurst(m, now) {
		m.Done(now, p, Refused)
	}
	if got := m.Views(1)[0].Pace; got < 289 || got > 290 { // 294 less 1.5 %
		t.Errorf("pace after a refused burst = %v, want 289.6", got)
	}
	busy := now.Add(9 * time.Second)
	for ; now.Before(busy); now = now.Add(time.Millisecond) {
		for i, p := range laneBurst(m, now) {
			if i > 0 {
				t.Fatalf("%d sent at once %v after a refused burst, want no burst", i+1, now.Sub(at(3*time.Second)))
			}
			m.Done(now, p, Accepted)
		}
	}
	if got := len(laneBurst(m, now.Add(2*time.Second))); got != 147 { // one was refused: half of what it was
		t.Errorf("sent at once 11 s after a refused burst = %d, want 147", got)
	}
}

// What the owner sent counts when the page is free again, and the other way
// round: no burst comes on top of the other.
func TestOwnerAndFreeShareTheSecond(t *testing.T) {
	t.Parallel()
	m := newMap(1)
	m.OfferLane(begin, page)
	now := leave(t, m, at(time.Second))
	if got := len(burst(m, now, page)); got != 294 {
		t.Fatalf("sent at once when the page left excess = %d, want 294", got)
	}
	m.Overflow(now, page, 300)
	if got := len(laneBurst(m, now)); got != 0 {
		t.Errorf("sent at once from the lane after a burst of the free page = %d, want 0", got)
	}
}

// The bound of the package comment for a replica that is alone, however a
// page goes to its lane and back.
func TestAloneBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const bound = 0.993*limit*1.1 + 0.02*limit + 1
		m := newMap(1)
		now := begin
		gap := rapid.OneOf(rapid.IntRange(0, 5000), rapid.IntRange(0, 300_000), rapid.IntRange(0, 1_500_000))
		var sent []time.Time
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now = now.Add(time.Duration(gap.Draw(t, "µs")) * time.Microsecond)
			n := rapid.IntRange(0, 400).Draw(t, "messages")
			ask := func() Decision { return m.Offer(now, page, false) }
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				ask = func() Decision { return m.OfferLane(now, page) }
			case 1:
				m.Overflow(now, page, n)
			case 2, 3:
				m.SetLaneDepth(now, page, 0)
			}
			for range n {
				d := ask()
				if d.Action != Send {
					break
				}
				m.Done(now, d.Permit, Accepted)
				sent = append(sent, now)
			}
		}
		first := 0
		for i, last := range sent {
			for last.Sub(sent[first]) >= time.Second {
				first++
			}
			if n := float64(i - first + 1); n > bound {
				t.Fatalf("%v sends in a second, want at most %.1f", n, bound)
			}
		}
	})
}
