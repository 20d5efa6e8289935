package excess

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	begin = time.Unix(1_000_000, 0)
	page  = Key{Page: "p", Class: "text"}
)

const limit = 300.0

func newMap(replicas int) *Map {
	m := New(Config{
		Limit: func(string) float64 { return limit }, LaneHold: 512,
		Random: func() float64 { return 0.5 },
	}, begin.Add(-time.Hour))
	m.SetReplicas(replicas)
	return m
}

func at(d time.Duration) time.Time { return begin.Add(d) }

func TestNewWithoutLimit(t *testing.T) {
	t.Parallel()
	defer func() {
		if got, want := fmt.Sprint(recover()), "excess: Config.Limit must be set"; got != want {
			t.Errorf("New without a limit panics with %q, want %q", got, want)
		}
	}()
	New(Config{}, begin)
}

// How many messages of one page a replica sends in a second when it is asked
// all the time: its share and, once, the tolerance.
func TestFreeShare(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		replicas, want int
	}{{1, 300}, {2, 150}, {4, 75}, {16, 19}, {64, 5}} {
		m := newMap(row.replicas)
		sent := 0
		for d := time.Duration(0); d < time.Second; d += 100 * time.Microsecond {
			if m.Offer(at(d), page, false).Action == Send {
				sent++
			}
		}
		if sent != row.want {
			t.Errorf("sent in a second with %d replicas = %d, want %d", row.replicas, sent, row.want)
		}
	}
}

func TestNewReplicaUsesATenth(t *testing.T) {
	t.Parallel()
	m := newMap(1)
	m.Join(begin)
	sent := 0
	for d := time.Duration(0); d < 800*time.Millisecond; d += time.Millisecond {
		if m.Offer(at(d), page, false).Action == Send {
			sent++
		}
	}
	if sent != 25 { // 0.1 × 294/s × 0.82 s, and the first at once
		t.Errorf("sent in the first 800 ms = %d, want 25", sent)
	}
}

// burst is how many messages m sends at once.
func burst(m *Map, now time.Time, k Key) (sent []Permit) {
	for {
		d := m.Offer(now, k, false)
		if d.Action != Send {
			return sent
		}
		sent = append(sent, d.Permit)
	}
}

// A page sends at once what its share of a second has left, and then no more
// than its pace and tolerance allow until the sends are a second old.
func TestBurst(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		after []time.Duration // when all is sent that may be
		want  []int
	}{
		{"at once, then at its pace", []time.Duration{0, 970 * time.Millisecond, 975 * time.Millisecond}, []int{73, 0, 1}},
		{"what the last second had not", []time.Duration{0, 1000 * time.Millisecond, 1200 * time.Millisecond}, []int{73, 2, 71}},
		{"after forgetting", []time.Duration{0, 30 * time.Second}, []int{73, 73}},
	} {
		m := newMap(4)
		for i, d := range row.after {
			m.TakeDue(at(d))
			if got := len(burst(m, at(d), page)); got != row.want[i] {
				t.Errorf("%s: sent at once at %v = %d, want %d", row.name, d, got, row.want[i])
			}
		}
	}
}

// Where bursts are refused they become shorter, for all pages, once for all
// refusals that come together; accepted ones make them longer again.
func TestRefusedBursts(t *testing.T) {
	t.Parallel()
	m := newMap(4)
	now := begin
	pages := 0
	next := func() []Permit { // another page's burst
		pages++
		now = now.Add(time.Second)
		return burst(m, now, Key{Page: fmt.Sprint(pages), Class: "text"})
	}
	for _, want := range []int{73, 36, 18, 9, 4, 3, 3} {
		sent := next()
		if len(sent) != want {
			t.Fatalf("burst of page %d = %d messages, want %d", pages, len(sent), want)
		}
		for _, p := range sent {
			m.Done(now, p, Refused)
		}
	}
	ahead := 0
	for ahead < 2000 {
		for _, p := range next() {
			m.Done(now, p, Accepted)
			if p.ahead {
				ahead++
			}
		}
	}
	if got := len(next()); got != 73 {
		t.Errorf("burst after 2,000 accepted calls of bursts = %d, want 73", got)
	}
}

// leave lets the page leave excess, and returns when it did.
func leave(t *testing.T, m *Map, from time.Time) time.Time {
	t.Helper()
	now := from
	for m.InExcess(page) {
		if now = now.Add(time.Second); now.Sub(from) > 10*time.Second {
			t.Fatal("the page is in excess after 10 s of an empty lane")
		}
		m.SetLaneDepth(now, page, 0)
	}
	return now
}

// An owner begins when its own burst of the page has had its second, and a page
// that leaves excess has no burst in the ten seconds after.
func TestBurstAndLane(t *testing.T) {
	t.Parallel()
	m := newMap(1)
	burst(m, begin, page)
	m.Overflow(begin, page, 33)
	if d := m.OfferLane(begin, page); d.Action != Wait || d.Wait < 990*time.Millisecond {
		t.Errorf("the owner's first message after a burst: %v, wait %v, want Wait, a second", d.Action, d.Wait)
	}
	// One who has owned the page before does so, too.
	m = newMap(1)
	m.OfferLane(begin, page)
	again := leave(t, m, begin).Add(10*time.Second + 1)
	burst(m, again, page)
	m.Overflow(again, page, 33)
	if d := m.OfferLane(again, page); d.Action != Wait || d.Wait < 990*time.Millisecond {
		t.Errorf("an owner's next message after a burst: %v, wait %v, want Wait, a second", d.Action, d.Wait)
	}
	m = newMap(1)
	m.Overflow(begin, page, 0)
	left := leave(t, m, begin)
	if got := len(burst(m, left, page)); got != 6 { // the tolerance
		t.Errorf("sent at once when the page left excess = %d, want 6", got)
	}
	if got := len(burst(m, left.Add(9*time.Second), page)); got != 6 {
		t.Errorf("sent at once 9 s later = %d, want 6", got)
	}
	if got := len(burst(m, left.Add(11*time.Second), page)); got != 294 {
		t.Errorf("sent at once 11 s later = %d, want 294", got)
	}
}

func TestWaitIsExact(t *testing.T) {
	t.Parallel()
	m := newMap(1)
	var d Decision
	now := begin
	for d = m.Offer(now, page, false); d.Action == Send; d = m.Offer(now, page, false) {
	}
	if early := m.Offer(now.Add(d.Wait-time.Nanosecond), page, false); early.Action != Wait {
		t.Errorf("Offer a nanosecond early = %v, want Wait", early.Action)
	}
	if due := m.Offer(now.Add(d.Wait), page, false); due.Action != Send {
		t.Errorf("Offer when due = %v, want Send", due.Action)
	}
}

func TestRefusalPutsThePageInExcess(t *testing.T) {
	t.Parallel()
	m := newMap(2)
	d := m.Offer(begin, page, false)
	if got := m.Done(begin, d.Permit, Refused); got.Action != Overflow {
		t.Errorf("Done(Refused) = %v, want Overflow", got.Action)
	}
	if got := m.Offer(begin, page, false); got.Action != Overflow {
		t.Errorf("Offer of a page in excess = %v, want Overflow", got.Action)
	}
	other := Key{Page: page.Page, Class: "media"}
	if got := m.Offer(begin, other, false); got.Action != Send {
		t.Errorf("Offer of its other class = %v, want Send", got.Action)
	}
}

// The page leaves excess when every look found its lane empty for as long as
// its owner, at 294/s, needs for the 512 that it may hold and for what came
// since: from here, times the replicas.
func TestLeavingExcess(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name      string
		ready     []int // messages at each second
		overflows int   // messages that come here each second
		want      bool  // still in excess
	}{
		{"512 / 294 = 1.7 s", []int{0, 0, 0}, 0, false},
		{"too short", []int{0, 0}, 0, true},
		{"a message in between", []int{0, 0, 1, 0, 0}, 0, true},
		{"512 / (294 - 2 × 60) = 2.9 s", []int{0, 0, 0, 0}, 60, false},
		{"too short with what comes", []int{0, 0, 0}, 60, true},
		{"all that the page may have", []int{0, 0, 0, 0, 0, 0, 0, 0}, 147, true},
	} {
		m := newMap(2)
		m.Overflow(begin, page, 1000)
		now := begin.Add(5 * time.Second)
		for _, ready := range row.ready {
			m.SetLaneDepth(now, page, ready)
			for range row.overflows {
				m.Offer(now, page, false)
			}
			now = now.Add(time.Second)
		}
		if got := m.Counts().Excess == 1; got != row.want {
			t.Errorf("%s: in excess = %v, want %v", row.name, got, row.want)
		}
	}
}

// A call from before may still be refused. One of the lane says no more than
// that there was a message: a page with steady traffic always has some.
func TestLeavingExcessWithACallInFlight(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		offer func(m *Map) Decision
		want  bool // still in excess
	}{
		{"made while the page was free", func(m *Map) Decision { return m.Offer(begin, page, false) }, true},
		{"of the lane", func(m *Map) Decision {
			m.OfferLane(begin, page) // which makes it wait
			return m.OfferLane(begin.Add(time.Second), page)
		}, false},
	} {
		m := newMap(2)
		d := row.offer(m)
		if d.Action != Send {
			t.Fatalf("%s: %+v, want it sent", row.name, d)
		}
		m.Overflow(begin, page, 1)
		for i := range 4 {
			m.SetLaneDepth(begin.Add(time.Duration(5+i)*time.Second), page, 0)
		}
		if got := m.Counts().Excess == 1; got != row.want {
			t.Errorf("a call %s: in excess = %v, want %v", row.name, got, row.want)
		}
		m.Done(begin.Add(10*time.Second), d.Permit, Accepted)
		m.SetLaneDepth(begin.Add(10*time.Second), page, 0)
		if m.Counts().Excess != 0 {
			t.Errorf("a call %s has ended: still in excess", row.name)
		}
	}
}

func TestDueAsksOnceASecond(t *testing.T) {
	t.Parallel()
	m := newMap(1)
	m.Overflow(begin, page, 1)
	asked := 0
	for d := time.Duration(0); d <= 3*time.Second; d += 250 * time.Millisecond {
		asked += len(m.TakeDue(at(d)))
	}
	if asked != 3 {
		t.Errorf("times asked in 3 s = %d, want 3", asked)
	}
}

func TestViewsAndCounts(t *testing.T) {
	t.Parallel()
	m := newMap(1)
	m.Overflow(begin, Key{Page: "a"}, 1)
	m.OfferLane(begin, page) // a new owner waits for a moment
	d := m.OfferLane(begin.Add(time.Second), page)
	m.Done(begin.Add(time.Second), d.Permit, Refused)
	got := m.Views(10)
	if len(got) != 2 || got[0].Page != "p" || !got[0].Owned || got[0].Refused != 1 || got[0].Pace < 290 || got[1].Page != "a" {
		t.Errorf("Views = %+v, want p, owned and refused once, then a", got)
	}
	if c := m.Counts(); c != (Counts{Excess: 2, Owned: 1}) {
		t.Errorf("Counts = %+v, want 2 in excess, 1 owned", c)
	}
	if got := m.Views(1); len(got) != 1 {
		t.Errorf("Views(1) = %d pages, want 1", len(got))
	}
}

// The bound of the package comment, against any arrivals: no second of the free
// state holds more than the share, its tolerance, and one.
func TestFreeBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.IntRange(1, 64).Draw(t, "replicas")
		m := newMap(replicas)
		share := 0.98 * limit / float64(replicas)
		bound := share*1.02 + 1
		var sent []time.Time
		now := begin
		gap := rapid.OneOf(rapid.IntRange(0, 1000), rapid.IntRange(0, 20_000), rapid.IntRange(0, 1_500_000))
		for range rapid.IntRange(1, 2000).Draw(t, "offers") {
			now = now.Add(time.Duration(gap.Draw(t, "gap")) * time.Microsecond)
			if m.Offer(now, page, false).Action == Send {
				sent = append(sent, now)
			}
		}
		first := 0
		for i, last := range sent {
			for last.Sub(sent[first]) >= time.Second {
				first++
			}
			if n := float64(i - first + 1); n > bound {
				t.Fatalf("%v sends in a second with %d replicas, want at most %.1f", n, replicas, bound)
			}
		}
	})
}

// Whatever happens to the messages, the map empties once all calls are done,
// all lanes are empty and time has passed.
func TestAnySequenceLeavesTheMapEmpty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMap(rapid.IntRange(1, 8).Draw(t, "replicas"))
		var open []Permit
		inFlight := map[Key]int{}
		now := begin
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			k := Key{Page: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "page"), Class: "text"}
			var d Decision
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0, 1:
				d = m.Offer(now, k, false)
			case 2:
				d = m.OfferLane(now, k)
			case 3:
				m.Overflow(now, k, 33)
			case 4:
				for _, k := range m.TakeDue(now) {
					m.SetLaneDepth(now, k, rapid.IntRange(0, 1).Draw(t, "ready"))
				}
			case 5:
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
					p := open[i]
					open = append(open[:i], open[i+1:]...)
					inFlight[p.Key]--
					m.Done(now, p, rapid.SampledFrom([]Result{Accepted, Refused, Other}).Draw(t, "result"))
				}
			}
			if d.Action == Send {
				open = append(open, d.Permit)
				inFlight[k]++
			}
			for _, v := range m.Views(10) {
				if v.InFlight != inFlight[v.Key] {
					t.Fatalf("calls of %v in flight = %d, want %d", v.Key, v.InFlight, inFlight[v.Key])
				}
			}
		}
		for _, p := range open {
			m.Done(now, p, Accepted)
		}
		for range 60 {
			now = now.Add(time.Second)
			for _, k := range m.TakeDue(now) {
				m.SetLaneDepth(now, k, 0)
			}
		}
		if got := remembered(m); got != 0 {
			t.Fatalf("pages remembered a minute after the last = %d, want 0", got)
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	m := newMap(4)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 3000 {
				now := at(time.Duration(i) * time.Millisecond)
				k := Key{Page: fmt.Sprint(i % 7), Class: "text"}
				ask := func() Decision { return m.Offer(now, k, false) }
				if g%2 == 0 {
					ask = func() Decision { return m.OfferLane(now, k) }
				}
				d := ask()
				if d.Action == Send {
					m.Done(now, d.Permit, []Result{Accepted, Accepted, Accepted, Refused, Other}[i%5])
				}
				if i%100 == 0 {
					for _, k := range m.TakeDue(now) {
						m.SetLaneDepth(now, k, i%2)
					}
					m.Views(3)
				}
			}
		})
	}
	wg.Wait()
	for i := range 60 {
		now := at(time.Duration(4+i) * time.Second)
		for _, k := range m.TakeDue(now) {
			m.SetLaneDepth(now, k, 0)
		}
	}
	if got := remembered(m); got != 0 {
		t.Errorf("pages remembered at the end = %d, want 0", got)
	}
}

func FuzzOperations(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 250, 7, 9, 11})
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := newMap(3)
		rng := rand.New(rand.NewPCG(1, uint64(len(ops))))
		now := begin
		var open []Permit
		for _, op := range ops {
			now = now.Add(time.Duration(op) * time.Millisecond)
			k := Key{Page: string('a' + rune(op%4)), Class: "text"}
			d := Decision{}
			switch op % 6 {
			case 0, 1:
				d = m.Offer(now, k, false)
			case 2:
				d = m.OfferLane(now, k)
			case 3:
				m.Overflow(now, k, int(op))
			case 4:
				m.SetLaneDepth(now, k, rng.IntN(2))
			case 5:
				if len(open) > 0 {
					m.Done(now, open[0], Result(1+op%3))
					open = open[1:]
				}
			}
			if d.Action == Send {
				open = append(open, d.Permit)
			}
			if d.Action == Wait && d.Wait == 0 {
				t.Fatal("Wait of nothing: the caller would spin")
			}
		}
		for _, p := range open {
			m.Done(now, p, Other)
		}
		for range 60 {
			now = now.Add(time.Second)
			for _, k := range m.TakeDue(now) {
				m.SetLaneDepth(now, k, 0)
			}
		}
		if got := remembered(m); got != 0 {
			t.Fatalf("pages remembered a minute after the last = %d, want 0", got)
		}
	})
}

// remembered is the number of pages of which anything is known.
func remembered(m *Map) (n int) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		n += len(s.current) + len(s.previous) + len(s.busy)
		s.mu.Unlock()
	}
	return n
}
