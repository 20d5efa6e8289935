package circuit

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"chatclub/internal/message"
)

func half() float64 { return 0.5 }

func begin() time.Time { return time.Unix(1000, 0) }

// The breakers, told of calls at given times: whose are open then.
func TestBreakersOpen(t *testing.T) {
	t.Parallel()
	type step struct {
		at     time.Duration
		times  int // 0: once
		page   string
		people int // to whom the calls are, in turn; 0: one
		v      Answer
		open   string // pages, and "*" for the API
	}
	const s = time.Second
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"one sick person opens nothing", []step{
			{0, 100, "p", 1, Failed, ""}, {10 * s, 100, "p", 1, Failed, ""}, {60 * s, 1, "p", 1, Failed, ""},
		}},
		{"nor do two of one page", []step{{0, 100, "p", 2, Failed, ""}, {10 * s, 100, "p", 2, Failed, ""}}},
		{"nor some of several pages", []step{
			{0, 50, "p", 2, Failed, ""}, {5 * s, 50, "q", 2, Failed, ""}, {10 * s, 50, "p", 2, Failed, ""}, {10 * s, 50, "r", 1, Failed, ""},
		}},
		{"many failures of a page", []step{{0, 9, "p", 3, Failed, ""}, {0, 1, "p", 1, Failed, "p"}}},
		{"few failures of a page for 5 s", []step{{0, 3, "p", 3, Failed, ""}, {4999 * time.Millisecond, 1, "p", 1, Failed, ""}, {5 * s, 1, "p", 1, Failed, "p"}}},
		{"failures far apart", []step{{0, 3, "p", 3, Failed, ""}, {121 * s, 3, "p", 3, Failed, ""}, {242 * s, 3, "p", 3, Failed, ""}}},
		{"an answer in between", []step{{0, 9, "p", 9, Failed, ""}, {0, 1, "p", 1, Answered, ""}, {0, 9, "p", 9, Failed, ""}}},
		{"no call is no answer", []step{{0, 9, "p", 9, Failed, ""}, {0, 5, "p", 1, NoCall, ""}, {0, 1, "p", 1, Failed, "p"}}},
		{"a page's breaker does not open the API's", []step{{0, 1000, "p", 100, Failed, "p"}, {60 * s, 1000, "p", 100, Failed, "p"}}},
		{"nor do two pages', while a third is answered", []step{
			{0, 20, "p", 20, Failed, "p"}, {0, 1, "r", 1, Answered, "p"}, {0, 20, "q", 20, Failed, "pq"}, {0, 1, "r", 1, Answered, "pq"}, {s, 25, "p", 20, Failed, "pq"},
		}},
		{"many failures of two pages", []step{{0, 29, "p", 29, Failed, "p"}, {0, 1, "q", 1, Failed, "*"}}},
		{"few failures of two pages for 5 s", []step{{0, 3, "p", 3, Failed, ""}, {1 * s, 2, "q", 2, Failed, ""}, {5 * s, 1, "q", 3, Failed, ""}, {5 * s, 3, "q", 3, Failed, "*"}}},
		{"many calls of a page without a connection", []step{{0, 29, "p", 3, Unreached, "p"}, {0, 1, "p", 1, Unreached, "*"}}},
		{"few calls of a page without a connection for 5 s", []step{{0, 3, "p", 3, Unreached, ""}, {5 * s, 1, "p", 3, Unreached, "*"}}},
		{"calls to two people without a connection", []step{{0, 100, "p", 2, Unreached, ""}, {10 * s, 100, "p", 2, Unreached, ""}}},
		{"an answer between calls without a connection", []step{{0, 29, "p", 29, Unreached, "p"}, {0, 1, "q", 1, Answered, "p"}, {0, 29, "p", 29, Unreached, "p"}}},
		{"a page that fails, and one call without a connection", []step{{0, 40, "p", 40, Failed, "p"}, {0, 1, "p", 1, Unreached, "p"}}},
		{"a page that is alone told of a throttled app", []step{{0, 1, "p", 1, Throttled, "p"}, {0, 5, "p", 5, Throttled, "p"}}},
		{"a throttled app", []step{{0, 1, "p", 1, Throttled, "p"}, {0, 1, "q", 1, Throttled, "*"}}},
		{"two pages are told of a throttled app, others are answered", []step{{0, 1, "p", 1, Throttled, "p"}, {0, 1, "r", 1, Answered, "p"}, {0, 1, "q", 1, Throttled, "pq"}}},
		{"an answer to a call from before an open API", []step{{0, 1, "p", 1, Throttled, "p"}, {0, 1, "q", 1, Throttled, "*"}, {0, 1, "r", 1, Answered, "*"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := New(half, attempts)
			for i, st := range tc.steps {
				now := begin().Add(st.at)
				for n := range max(1, st.times) {
					p := b.page(st.page)
					c := &Call{page: p, class: message.ClassText, to: fmt.Sprint(n % max(1, st.people)), event: fmt.Sprint(n), began: now} // a call that began before anything was open
					p.calls[c] = struct{}{}
					b.calls++
					b.end(now, c, st.v)
				}
				if got := openOnes(b); got != st.open {
					t.Errorf("after step %d open: %q, want %q", i, got, st.open)
				}
			}
		})
	}
}

// end ends a call, and returns the scopes that have opened and closed.
func (s *Circuits) end(now time.Time, c *Call, a Answer) (changes string) {
	for _, ch := range s.End(now, c, Report{Answer: a, Code: "1"}) {
		changes += map[bool]string{true: "+", false: "-"}[ch.Open] + []string{"api", "network", "app", "page", "permission", "block", "person"}[ch.Scope]
	}
	return changes
}

// failures and attempts are the numbers of failures that open a circuit.
const apiFailures, pageFailures, attempts = 30, 10, 8

func openOnes(b *Circuits) (open string) {
	for _, page := range []string{"p", "q", "r"} {
		if b.IsSick(page) {
			open += page
		}
	}
	if b.IsOpen() {
		open += "*"
	}
	return open
}

// wait returns the time that a message of a page to somebody must wait.
func (s *Circuits) wait(now time.Time, name string) time.Duration {
	_, _, wait := s.Hold(now, textTo(name, "nobody", "x"))
	return wait
}

// hold returns the decision about a message of a page to somebody, and the wait.
func (s *Circuits) hold(now time.Time, name string) (Hold, time.Duration) {
	h, _, wait := s.Hold(now, textTo(name, "nobody", "x"))
	return h, wait
}

// fails reports whether a message is dead.
func (s *Circuits) fails(now time.Time, o *message.Outbound) bool {
	h, _, _ := s.Hold(now, o)
	return h == Dead
}

// call begins a call for an event of its own.
func (s *Circuits) call(now time.Time, name, to string) *Call {
	return s.callFor(now, name, to, "to-"+to)
}

// callFor begins a call for an event.
func (s *Circuits) callFor(now time.Time, name, to, event string) *Call {
	return s.Begin(now, textTo(name, to, event))
}

func textTo(name, to, event string) *message.Outbound {
	return &message.Outbound{ID: message.CopyID(name, event, to, 0), Page: name, To: to, Class: message.ClassText}
}

// sick is the number of sick pages.
func (s *Circuits) sick() int {
	n, _, _ := s.Open()
	return n
}

// openPage opens a page's circuit at now.
func openPage(b *Circuits, now time.Time, name string) {
	for i := range pageFailures {
		b.end(now, b.call(now, name, fmt.Sprint(i)), Failed)
	}
}

// openAPI opens the API's, with calls of p and q.
func openAPI(b *Circuits, now time.Time) {
	var calls []*Call
	for i := range apiFailures {
		calls = append(calls, b.call(now, []string{"p", "q"}[i%2], fmt.Sprint(i)))
	}
	for _, c := range calls {
		b.end(now, c, Failed)
	}
}

// The pauses before the probes of each scope double up to its longest, and an answer to a
// probe closes the circuit: the next time they begin again. A second call may not begin
// beside a probe.
func TestProbes(t *testing.T) {
	t.Parallel()
	const s = time.Second
	hold := func(b *Circuits, now time.Time) time.Duration { return b.wait(now, "p") }
	for _, tc := range []struct {
		name   string
		opens  func(b *Circuits, now time.Time)
		a      Answer
		pauses []time.Duration
		closed string
	}{
		{"the API, errors", openAPI, Failed, []time.Duration{1 * s, 2 * s, 3 * s, 3 * s}, "-api"},
		{"a page", func(b *Circuits, now time.Time) { openPage(b, now, "p") }, Failed, []time.Duration{1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}, "-page"},
		{"an app", func(b *Circuits, now time.Time) {
			b.end(now, b.call(now, "q", "u"), Throttled)
			b.end(now, b.call(now, "p", "u"), Throttled)
		}, Throttled, []time.Duration{1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}, "-app"},
		{"a token", func(b *Circuits, now time.Time) { b.end(now, b.call(now, "p", "u"), Refused) }, Refused, []time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s}, "-permission"},
		{"a block", func(b *Circuits, now time.Time) { b.end(now, b.call(now, "p", "u"), Blocked) }, Blocked, []time.Duration{1800 * s, 3600 * s, 7200 * s, 14400 * s, 14400 * s}, "-block"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b, now := New(half, attempts), begin()
			for range 2 {
				tc.opens(b, now)
				for i, want := range tc.pauses {
					due := now.Add(want)
					if w := hold(b, due.Add(-time.Millisecond)); w == 0 {
						t.Fatalf("probe %d may begin before %v", i, want)
					}
					if now = due; hold(b, now) != 0 {
						t.Fatalf("probe %d may not begin after %v", i, want)
					}
					c := b.call(now, "p", "someone")
					if api, permission := b.Probes(c); !api && !permission {
						t.Fatalf("call %d is no probe", i)
					}
					if hold(b, now) == 0 {
						t.Fatalf("a second call may begin beside probe %d", i)
					}
					b.end(now, c, tc.a)
				}
				now = now.Add(4 * time.Hour)
				if got := b.end(now, b.call(now, "p", "someone"), Accepted); got != tc.closed || hold(b, now) != 0 {
					t.Fatalf("a probe that was accepted: %q, want %q", got, tc.closed)
				}
				now = now.Add(time.Hour)
			}
		})
	}
}

// A throttle of the app pauses for as long as the platform asks, an hour at most.
func TestHint(t *testing.T) {
	t.Parallel()
	for hint, want := range map[time.Duration]time.Duration{7 * time.Minute: 7 * time.Minute, 24 * time.Hour: longestHint} {
		b, now := New(half, attempts), begin()
		for _, page := range []string{"p", "q"} {
			b.End(now, b.call(now, page, "u"), Report{Answer: Throttled, Hint: hint})
			if w := b.wait(now, page); w != want {
				t.Errorf("%s waits %v, want %v", page, w, want)
			}
		}
		if w := b.wait(now, "r"); w != want || !b.IsOpen() || b.sick() != 0 {
			t.Errorf("another page waits %v, want %v, by the app's circuit", w, want)
		}
		if _, _, people := b.Open(); people != 0 {
			t.Errorf("%d people failed by a throttle of the app, want none", people)
		}
	}
}

// A call from before the circuit opened closes none, and a probe that made no
// call leaves the place to another.
func TestWhatIsNoProbe(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	old := b.call(now, "p", "someone")
	openPage(b, now, "p")
	if b.end(now, old, Answered); !b.IsSick("p") {
		t.Error("an answer to a call from before closed the circuit")
	}
	now = now.Add(time.Second)
	b.end(now, b.call(now, "p", "someone"), NoCall)
	if w := b.wait(now, "p"); w != 0 || !b.IsSick("p") {
		t.Errorf("after a probe without a call: wait %v, sick %v, want 0 and true", w, b.IsSick("p"))
	}
}

// While the API's circuit is open, a page that failed nothing probes at once, and
// those that failed wait. So where only these are sick nobody waits for them.
func TestWellPagesGetThrough(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	openAPI(b, now)
	for page, waits := range map[string]bool{"p": true, "q": true, "r": false} {
		if w := b.wait(now, page); (w > 0) != waits {
			t.Errorf("Wait(%s) = %v, want some: %v", page, w, waits)
		}
	}
	c := b.call(now, "r", "someone")
	if w := b.wait(now, "s"); w == 0 {
		t.Error("a second page may probe beside the first")
	}
	if got := b.end(now, c, Answered); got != "-api" {
		t.Errorf("a probe's answer: %q, want that the API's closes", got)
	}
	if w := b.wait(now, "p"); w != 0 {
		t.Errorf("Wait() once it is closed = %v, want 0", w)
	}

	b = New(half, attempts)
	openAPI(b, now)
	b.end(now, b.call(now, "r", "someone"), Failed)
	if w := b.wait(now, "r"); w == 0 {
		t.Error("a page whose probe failed may probe at once again")
	}
	if w := b.wait(now.Add(1900*time.Millisecond), "p"); w == 0 {
		t.Error("the failed probe of a well page did not make the pause longer")
	}
}

// A page that failed only since the API does is not sick when that answers again. One
// that was sick before keeps its pause.
func TestPagesOfAnOutage(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	openPage(b, now, "sick")
	for range 3 { // its pause is 8 s then
		now = now.Add(10 * time.Second)
		b.end(now, b.call(now, "sick", "someone"), Failed)
	}
	b.end(now, b.call(now, "p", "someone"), Answered)
	now = now.Add(time.Second)
	openPage(b, now, "p")
	openPage(b, now, "q")
	openAPI(b, now)
	for range 4 {
		now = now.Add(5 * time.Second)
		b.end(now, b.call(now, "p", "someone"), Failed)
		b.end(now, b.call(now, "sick", "someone"), Failed)
	}
	if !b.IsOpen() || b.sick() != 1 {
		t.Errorf("API open %v, %d pages sick, want it open and one", b.IsOpen(), b.sick())
	}
	now = now.Add(5 * time.Second)
	if got := b.end(now, b.call(now, "q", "someone"), Answered); got != "-api" {
		t.Fatalf("a probe's answer: %q, want that the API's closes", got)
	}
	if w := b.wait(now, "sick"); w < 20*time.Second {
		t.Errorf("Wait(sick before) = %v, want what is left of its 30 s", w)
	}
	if w := b.wait(now, "p"); w != 0 || b.IsSick("p") {
		t.Errorf("Wait(p) = %v, sick %v, want 0 and false", w, b.IsSick("p"))
	}
}

// A page that hangs since the API does is not sick when that answers again.
func TestPageHangsInAnOutage(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	for i := range hungCalls {
		b.call(now, "hangs", fmt.Sprint(i))
	}
	b.Check(now.Add(hungTime))
	if !b.IsSick("hangs") {
		t.Fatal("the page does not hang: nothing is tested")
	}
	openAPI(b, now.Add(10*time.Second))
	if b.IsSick("hangs") || !b.IsOpen() {
		t.Errorf("sick %v, API open %v, want false and true", b.IsSick("hangs"), b.IsOpen())
	}
}

// Where more pages fail than are remembered by name, none may probe beside the others.
func TestManyPagesFail(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	for i := range 2 * rowSize {
		b.end(now, &Call{page: b.page(fmt.Sprint("page", i)), to: "u", event: "e", began: now}, Failed)
	}
	if w := b.wait(now, "another"); w == 0 {
		t.Error("Wait() of a page that has not failed = 0, want the API's pause")
	}
}

// An event that fails for everybody, or hangs, is no sick page. With a second event
// that fails it is.
func TestOneEvent(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		b, now := New(half, attempts), begin()
		for i := range 99 {
			c := b.callFor(now, "p", fmt.Sprint("u", i), "voice")
			if !hangs {
				b.end(now.Add(time.Duration(i)*time.Second), c, Failed)
			}
		}
		now = now.Add(99 * time.Second)
		if b.Check(now); b.IsSick("p") {
			t.Errorf("hangs %v: the page is open for one event", hangs)
		}
		c := b.callFor(now, "p", "u0", "text")
		if now = now.Add(hungTime); !hangs {
			b.end(now, c, Failed)
		}
		if b.Check(now); !b.IsSick("p") {
			t.Errorf("hangs %v: the page is not open, though a second event fails", hangs)
		}
	}
}

// A replica that has nothing to send any more does not say for ever that the API
// is down.
func TestOpenWithoutCalls(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	openAPI(b, now)
	b.Check(now.Add(2 * time.Minute))
	if !b.IsOpen() {
		t.Error("closed a minute after a probe was due")
	}
	c := b.call(now, "r", "u")
	b.Check(now.Add(time.Hour))
	if !b.IsOpen() {
		t.Error("closed while a probe is out")
	}
	b.end(now, c, NoCall)
	b.Check(now.Add(time.Hour))
	if b.IsOpen() {
		t.Error("open an hour after the last call")
	}
}

// A page hangs when four of its calls have waited for three seconds and none that began
// later was answered; others are not touched.
func TestHung(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		calls    int
		answered time.Duration // when a later call is; 0: never
		opens    time.Duration // 0: never in ten seconds
	}{
		{"four calls", 4, 0, 3 * time.Second},
		{"three calls", 3, 0, 0},
		{"a later call is answered", 4, 2 * time.Second, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b, now := New(half, attempts), begin()
			for i := range tc.calls {
				b.call(now, "p", fmt.Sprint(i))
			}
			b.call(now, "q", "u")
			var opened time.Duration
			for d := time.Second; d <= 10*time.Second && opened == 0; d += time.Second {
				if d == tc.answered {
					b.end(now.Add(d), b.call(now.Add(d), "p", "late"), Answered)
				}
				if hung := b.Check(now.Add(d)); len(hung) > 0 {
					opened = d
				}
			}
			if opened != tc.opens || b.IsSick("q") {
				t.Errorf("opened after %v, q %v, want %v and false", opened, b.IsSick("q"), tc.opens)
			}
		})
	}
}

// Calls that end together without an answer are no sick page, nor an API that is
// down, if others that began later were answered.
func TestLateFailures(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	var late []*Call
	for i := range 2 * apiFailures {
		late = append(late, b.call(now, []string{"p", "q"}[i%2], fmt.Sprint(i)))
	}
	for range 10 {
		now = now.Add(time.Second)
		b.end(now, b.call(now, "p", "text"), Answered)
		b.end(now, b.call(now, "q", "text"), Answered)
		b.Check(now)
	}
	for _, c := range late {
		b.end(now, c, Failed)
	}
	if open := b.sick(); open != 0 || b.IsOpen() {
		t.Errorf("%d pages are open, API %v, want none", open, b.IsOpen())
	}
}

func TestSilent(t *testing.T) {
	t.Parallel()
	const two, one = 2, 1 // pages
	for _, tc := range []struct {
		name  string
		pages int
		calls int
		at    time.Duration
		want  bool
	}{
		{"no calls", one, 0, time.Hour, false},
		{"two pages for less than 5 s", two, 2, 4999 * time.Millisecond, false},
		{"two pages for 5 s", two, 2, 5 * time.Second, true},
		{"some people of one page", one, 5, time.Minute, false},
		{"many people of one page for 5 s", one, 6, 5 * time.Second, true},
		{"many calls for less than 3 s", two, 20, 2999 * time.Millisecond, false},
		{"many calls for 3 s", two, 20, 3 * time.Second, true},
		{"fewer for 3 s", two, 19, 3 * time.Second, false},
	} {
		b, now := New(half, attempts), begin()
		b.end(now, b.call(now, "p", "u"), Answered)
		now = now.Add(time.Hour) // the quiet hour is no silence
		for i := range tc.calls {
			b.call(now, fmt.Sprint("p", i%tc.pages), fmt.Sprint(i))
		}
		if got := b.Silent(now.Add(tc.at)); got != tc.want {
			t.Errorf("%s: Silent() = %v, want %v", tc.name, got, tc.want)
		}
	}
	b, now := New(half, attempts), begin()
	b.call(now, "p", "1")
	b.call(now, "r", "1")
	b.end(now.Add(4*time.Second), b.call(now.Add(time.Second), "q", "2"), Throttled)
	if b.Silent(now.Add(6 * time.Second)) {
		t.Error("Silent() 2 s after the app was throttled = true, want false: that is an answer")
	}
}

// The calls of a sick page, and probes, are no silence of the API. Nor do they make
// the first call of another page look old.
func TestSickPageIsNoSilence(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	for i := range 30 {
		b.call(now, "p", fmt.Sprint(i))
	}
	openPage(b, now, "p")
	openPage(b, now, "q")
	now = now.Add(time.Minute)
	b.call(now, "q", "probe")
	if b.Silent(now) || b.Silent(now.Add(time.Hour)) {
		t.Error("Silent() = true with calls of sick pages alone")
	}
	b.call(now, "r", "1")
	b.call(now, "s", "1")
	if b.Silent(now.Add(time.Second)) {
		t.Error("Silent() = true a second after the first calls of other pages")
	}
	if !b.Silent(now.Add(silence)) {
		t.Error("Silent() = false though two other pages are not answered")
	}
}

// A page without a token asks nobody, and so is not unheard. One whose calls fail is.
func TestUnheard(t *testing.T) {
	t.Parallel()
	for v, unheard := range map[Answer]bool{Missing: false, NoCall: false, Failed: true, Unreached: true, Bad: false} {
		b, now := New(half, attempts), begin()
		b.end(now, b.call(now, "p", "1"), v)
		if got := b.Unheard(now.Add(time.Minute)); (got > 0) != unheard {
			t.Errorf("a minute after %v Unheard() = %v, want none: %v", v, got, !unheard)
		}
	}
}

// A page that is suspended, and a person who cannot be sent to, are tried where another
// replica may have found them well; not a moment after a failure, nor where Meta blocks.
func TestDoubt(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		answer Answer
		after  time.Duration
		want   Hold
	}{
		{Refused, doubtTime, Pass},
		{Refused, doubtTime - 1, Dead},
		{Blocked, doubtTime, Dead},
		{Bad, doubtTime, Pass},
	} {
		b, now := New(half, attempts), begin()
		for range 8 { // until its pause is long
			for range attempts {
				b.end(now, b.call(now, "p", "u"), row.answer)
			}
			now = now.Add(time.Hour)
		}
		b.end(now, b.call(now, "p", "u"), row.answer)
		o := message.Outbound{Page: "p", To: "u", Class: message.ClassText}
		now = now.Add(row.after)
		b.Doubt(now, func(page string) bool { return page == "q" })
		if h, _, _ := b.Hold(now, &o); h == Pass {
			t.Errorf("answer %d after %v: another page's messages pass", row.answer, row.after)
		}
		b.Doubt(now, func(page string) bool { return page == "p" })
		if h, _, _ := b.Hold(now, &o); h != row.want {
			t.Errorf("answer %d after %v: hold %d, want %d", row.answer, row.after, h, row.want)
		}
	}
}

// A page is forgotten when it is well, or has not been called for long.
func TestPagesAreForgotten(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	for i := range 1000 {
		b.end(now, b.call(now, fmt.Sprint("well", i), "u"), Answered)
	}
	openPage(b, now, "p")
	b.end(now, b.call(now, "stopped", "u"), Refused)
	b.end(now, b.call(now, "blocked", "u"), Blocked)
	for _, row := range []struct {
		after time.Duration
		left  string
	}{
		{0, "blocked p stopped "},
		{forget, "blocked p stopped "},
		{forget + 2*time.Second, "blocked stopped "},
		{4*time.Hour + 11*time.Second, "blocked "},
		{5 * time.Hour, ""},
	} {
		b.Check(now.Add(row.after))
		left := ""
		for _, name := range slices.Sorted(maps.Keys(b.pages)) {
			left += name + " "
		}
		if left != row.left {
			t.Errorf("after %v %q are remembered, want %q", row.after, left, row.left)
		}
	}
	for i := range 10 * rowSize {
		b.end(now, b.call(now, "p", fmt.Sprint(i)), Failed)
	}
	if n := len(b.pages["p"].sick.row.people); n > rowSize {
		t.Errorf("%d names are remembered of a row, want at most %d", n, rowSize)
	}
}

// Messages of a page whose token is refused wait for five minutes, but for a probe, and
// are dead then. Those of a blocked page are dead at once.
func TestHolds(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	b.end(now, b.call(now, "token", "u"), Refused)
	b.end(now, b.call(now, "none", "u"), Missing)
	b.end(now, b.call(now, "block", "u"), Blocked)
	for _, row := range []struct {
		after        time.Duration
		token, block Hold
	}{
		{0, Wait, Dead},
		{10*time.Second - 1, Wait, Dead},
		{10 * time.Second, Pass, Dead},
		{30 * time.Minute, Pass, Pass},
	} {
		for page, want := range map[string]Hold{"token": row.token, "none": row.token, "block": row.block, "other": Pass} {
			if got, _ := b.hold(now.Add(row.after), page); got != want {
				t.Errorf("after %v messages of %s: %v, want %v", row.after, page, got, want)
			}
		}
	}
	at := now.Add(10 * time.Second)
	for pause := 10 * time.Second; pause < 5*time.Minute; pause *= 2 {
		c := b.call(at, "token", "u")
		if got, _ := b.hold(at, "token"); got != Wait {
			t.Errorf("beside the probe: %v, want Wait", got)
		}
		b.end(at, c, Refused)
		at = at.Add(2 * pause)
	}
	if got, _ := b.hold(at.Add(-time.Second), "token"); got != Dead {
		t.Errorf("after more than five minutes: %v, want Dead", got)
	}
}

// An answer to a call from before a page was resumed does not suspend it again.
func TestStaleRefusal(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	old := b.call(now, "p", "a")
	b.end(now, b.call(now, "p", "b"), Refused)
	if !b.Resume(now.Add(time.Second), "p") || b.Resume(now.Add(time.Second), "p") {
		t.Error("Resume() of a suspended page, twice, is not true and false")
	}
	b.end(now.Add(2*time.Second), old, Refused)
	if hold, _ := b.hold(now.Add(2*time.Second), "p"); hold != Pass {
		t.Error("a late refusal suspended the page")
	}
	old = b.call(now.Add(2*time.Second), "p", "a")
	b.end(now.Add(2*time.Second), b.call(now.Add(2*time.Second), "p", "b"), Blocked)
	now = now.Add(time.Hour)
	b.end(now, b.call(now, "p", "b"), Accepted)
	b.end(now.Add(time.Second), old, Blocked)
	if hold, _ := b.hold(now.Add(time.Second), "p"); hold != Pass {
		t.Error("a late block suspended the page after a probe was accepted")
	}
}

// A page lacks a permission where a second person is told so by a later call, with nobody
// reached between; one who was told so before says nothing.
func TestDenied(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, calls string // a person each, Denied; in capitals: Accepted
		page        bool
	}{
		{"one person", "aaaaaa", false},
		{"two", "aab", true},
		{"somebody is reached between", "aCb", false},
		{"two who were told so before", "aCbCaCbCab", false},
	} {
		b, now := New(half, attempts), begin()
		for _, who := range row.calls {
			now = now.Add(time.Second)
			a := Denied
			if who < 'a' {
				a = Accepted
			}
			b.end(now, b.call(now, "p", string(who)), a)
		}
		if _, suspended, _ := b.Open(); (suspended == 1) != row.page {
			t.Errorf("%s: suspended %d, want the page: %v", row.name, suspended, row.page)
		}
	}
}

// The calls to some persons, and who is failing then.
func TestPeople(t *testing.T) {
	t.Parallel()
	type step struct {
		times  int
		to     string // persons, a letter each
		event  string // empty: one for each call
		a      Answer
		failed string
	}
	for _, row := range []struct {
		name  string
		steps []step
	}{
		{"eight failures", []step{{7, "a", "", Failed, ""}, {1, "a", "", Failed, "a"}}},
		{"of one event", []step{{8, "a", "e", Failed, "a"}}},
		{"refused as bad", []step{{7, "a", "", Bad, ""}, {1, "a", "", Bad, "a"}}},
		{"not allowed", []step{{8, "a", "", Denied, "a"}}},
		{"an event for two people", []step{{8, "ab", "e", Failed, "ab"}}},
		{"an event for three people", []step{{8, "abc", "e", Bad, ""}, {7, "a", "", Bad, ""}, {1, "a", "", Bad, "a"}}},
		{"an event for three people, taken for a fourth", []step{{1, "d", "e", Accepted, ""}, {8, "abc", "e", Bad, "abc"}}},
		{"reached between", []step{{7, "a", "", Failed, ""}, {1, "a", "", Accepted, ""}, {7, "a", "", Failed, ""}}},
		{"the app is throttled", []step{{20, "a", "", Throttled, ""}}},
		{"the page is sick", []step{{7, "abc", "", Failed, ""}, {20, "abc", "", Failed, ""}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b, now := New(half, attempts), begin()
			for i, st := range row.steps {
				for n := range st.times {
					for _, to := range st.to {
						event := st.event
						if event == "" {
							event = fmt.Sprintf("event-%d-%d-%c", i, n, to)
						}
						now = now.Add(time.Millisecond)
						b.end(now, b.callFor(now, "p", string(to), event), st.a)
					}
				}
				failed := ""
				for _, to := range "abcd" {
					if b.fails(now, textTo("p", string(to), "x")) {
						failed += string(to)
					}
				}
				if failed != st.failed {
					t.Errorf("after step %d %q are failing, want %q", i, failed, st.failed)
				}
			}
		})
	}
}

// A person who is failing has one attempt after five minutes, then after twice as long
// each time, up to an hour; is not failing once reached; and core is told now and then.
func TestFailingPerson(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	fail := func() string { return b.end(now, b.call(now, "p", "a"), Failed) }
	for range attempts - 1 {
		fail()
	}
	if got := fail(); got != "+person" {
		t.Fatalf("the last attempt: %q, want that the person's circuit opens", got)
	}
	o := textTo("p", "a", "x")
	for _, minutes := range []int{5, 10, 20, 40, 60, 60} {
		want := time.Duration(minutes) * time.Minute
		until, tell := b.TellPerson(now, o)
		if _, again := b.TellPerson(now, o); !tell || again || until.Sub(now) != want {
			t.Errorf("TellPerson() = %v, %v, then %v, want %v, true, then false", until.Sub(now), tell, again, want)
		}
		if b.fails(until.Add(-1), textTo("p", "b", "x")) || !b.fails(until.Add(-1), o) || b.fails(until, o) {
			t.Error("Fails() of another, before and at the end is not false, true and false")
		}
		now = until
		fail()
	}
	voice := textTo("p", "a", "voice")
	voice.Class = message.ClassMedia
	if got := b.end(now, b.Begin(now, voice), Accepted); got != "-person" || b.fails(now, o) {
		t.Errorf("a voice message is taken: %q, want that texts can be sent", got)
	}
	if _, tell := b.TellPerson(now, voice); tell {
		t.Error("core is told of a voice message")
	}
}

// Another replica's pages and people are forgotten, and so is a person of whom nothing
// was heard for an hour.
func TestForget(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	for _, page := range []string{"p", "q"} {
		b.end(now, b.call(now, page, "bad"), Bad)
		b.end(now, b.call(now, page, "u"), Refused)
		openPage(b, now, page)
	}
	b.Forget(func(page string) bool { return page == "p" })
	sick, suspended, people := b.Open()
	if sick != 1 || b.IsSick("p") || suspended != 1 || people == 0 {
		t.Errorf("Open() = %d, %d, %d, want q's alone", sick, suspended, people)
	}
	for i := range peopleSize + 100 {
		b.end(now, b.callFor(now, "r", fmt.Sprint(i), "e"), Bad)
	}
	if _, _, people := b.Open(); people != peopleSize {
		t.Errorf("%d people are remembered, want %d at most", people, peopleSize)
	}
	for i := range 3 * recentEvents {
		b.end(now, b.callFor(now, "r", "u", fmt.Sprint(i)), Accepted)
	}
	if n := len(b.people.young) + len(b.people.old); n > 2*recentEvents {
		t.Errorf("%d events are remembered, want %d at most", n, 2*recentEvents)
	}
	b.Check(now.Add(2 * time.Hour))
	if _, _, people := b.Open(); people != 0 {
		t.Errorf("%d people are remembered after two hours, want none", people)
	}
}
