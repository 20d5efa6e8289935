package breaker

import (
	"fmt"
	"testing"
	"time"
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
		v      Verdict
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
		{"many failures of two pages", []step{{0, 29, "p", 29, Failed, "p"}, {0, 1, "q", 1, Failed, "p*"}}},
		{"few failures of two pages for 5 s", []step{{0, 3, "p", 3, Failed, ""}, {1 * s, 2, "q", 2, Failed, ""}, {5 * s, 1, "q", 3, Failed, ""}, {5 * s, 3, "q", 3, Failed, "*"}}},
		{"many calls of a page without a connection", []step{{0, 29, "p", 3, Unreached, "p"}, {0, 1, "p", 1, Unreached, "p*"}}},
		{"few calls of a page without a connection for 5 s", []step{{0, 3, "p", 3, Unreached, ""}, {5 * s, 1, "p", 3, Unreached, "p*"}}},
		{"calls to two people without a connection", []step{{0, 100, "p", 2, Unreached, ""}, {10 * s, 100, "p", 2, Unreached, ""}}},
		{"an answer between calls without a connection", []step{{0, 29, "p", 29, Unreached, "p"}, {0, 1, "q", 1, Answered, "p"}, {0, 29, "p", 29, Unreached, "p"}}},
		{"a page that fails, and one call without a connection", []step{{0, 40, "p", 40, Failed, "p"}, {0, 1, "p", 1, Unreached, "p"}}},
		{"a throttled app", []step{{0, 1, "p", 1, Throttled, "*"}}},
		{"an answer to a call from before an open API", []step{{0, 1, "p", 1, Throttled, "*"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := New(half)
			for i, st := range tc.steps {
				now := begin().Add(st.at)
				for n := range max(1, st.times) {
					p := b.pageOf(st.page, now)
					c := &Call{page: p, recipient: fmt.Sprint(n % max(1, st.people)), event: fmt.Sprint(n), began: now} // one that began before anything was open
					p.calls[c] = struct{}{}
					b.calls++
					b.End(now, c, st.v)
				}
				if got := openOnes(b); got != st.open {
					t.Errorf("after step %d open: %q, want %q", i, got, st.open)
				}
			}
		})
	}
}

// pageOf is the page, which is made as a call would.
func (b *Breaker) pageOf(name string, now time.Time) *page {
	if b.pages[name] == nil {
		b.pages[name] = &page{name: name, calls: make(map[*Call]struct{}), answered: now}
	}
	return b.pages[name]
}

func openOnes(b *Breaker) (open string) {
	for _, page := range []string{"p", "q", "r"} {
		if b.IsPageOpen(page) {
			open += page
		}
	}
	if b.IsOpen() {
		open += "*"
	}
	return open
}

// call begins a call for an event of its own.
func (b *Breaker) call(now time.Time, name, recipient string) *Call {
	return b.Begin(now, name, recipient, "to "+recipient)
}

// openPage opens a page's breaker at now.
func openPage(b *Breaker, now time.Time, name string) {
	for i := range pageRow {
		b.End(now, b.call(now, name, fmt.Sprint(i)), Failed)
	}
}

// openAPI opens the API's, with calls of p and q.
func openAPI(b *Breaker, now time.Time) {
	var calls []*Call
	for i := range apiRow {
		calls = append(calls, b.call(now, []string{"p", "q"}[i%2], fmt.Sprint(i)))
	}
	for _, c := range calls {
		b.End(now, c, Failed)
	}
}

// The pauses of a page's probes double up to half a minute, and an answer to one
// closes the breaker.
func TestProbesOfAPage(t *testing.T) {
	t.Parallel()
	b, now := New(half), begin()
	openPage(b, now, "p")
	for i, want := range []int{1, 2, 4, 8, 16, 30, 30} {
		due := now.Add(time.Duration(want) * time.Second)
		if w := b.PageWait(due.Add(-time.Millisecond), "p"); w == 0 {
			t.Fatalf("probe %d may begin before %d s", i, want)
		}
		now = due
		if w := b.PageWait(now, "p"); w != 0 {
			t.Fatalf("PageWait() %d s after failure %d = %v, want 0", want, i, w)
		}
		c := b.call(now, "p", "someone")
		if !c.Probe() {
			t.Fatalf("call %d is no probe", i)
		}
		if w := b.PageWait(now, "p"); w == 0 {
			t.Fatalf("a second probe may begin beside the %d-th", i)
		}
		b.End(now, c, Failed)
	}
	now = now.Add(time.Minute)
	if ch := b.End(now, b.call(now, "p", "someone"), Answered); ch != (Change{PageClosed: true}) {
		t.Errorf("End(a probe's answer) = %+v, want the page's closed", ch)
	}
	if w := b.PageWait(now, "p"); w != 0 || b.OpenPages() != 0 {
		t.Errorf("PageWait() of a closed one = %v, open %d, want 0 and 0", w, b.OpenPages())
	}
	openPage(b, now, "p")
	if w := b.PageWait(now.Add(time.Second), "p"); w != 0 {
		t.Errorf("PageWait() a second after it opened again = %v, want 0: the pause begins anew", w)
	}
}

// A call from before the breaker opened closes none, and a probe that made no
// call leaves the place to another.
func TestWhatIsNoProbe(t *testing.T) {
	t.Parallel()
	b, now := New(half), begin()
	old := b.call(now, "p", "someone")
	openPage(b, now, "p")
	if b.End(now, old, Answered); !b.IsPageOpen("p") {
		t.Error("an answer to a call from before closed the breaker")
	}
	now = now.Add(time.Second)
	b.End(now, b.call(now, "p", "someone"), NoCall)
	if w := b.PageWait(now, "p"); w != 0 || !b.IsPageOpen("p") {
		t.Errorf("after a probe without a call: wait %v, open %v, want 0 and true", w, b.IsPageOpen("p"))
	}
}

// While the API's breaker is open, a page that failed nothing probes at once, and
// those that failed wait. So where only these are sick nobody waits for them.
func TestWellPagesGetThrough(t *testing.T) {
	t.Parallel()
	b, now := New(half), begin()
	openAPI(b, now)
	if !b.IsOpen() || b.throttled {
		t.Fatalf("open %v, throttled %v, want open, not throttled", b.IsOpen(), b.throttled)
	}
	for page, waits := range map[string]bool{"p": true, "q": true, "r": false} {
		if w := b.Wait(now, page); (w > 0) != waits {
			t.Errorf("Wait(%s) = %v, want some: %v", page, w, waits)
		}
	}
	c := b.call(now, "r", "someone")
	if w := b.Wait(now, "s"); w == 0 {
		t.Error("a second page may probe beside the first")
	}
	if ch := b.End(now, c, Answered); ch != (Change{Closed: true}) {
		t.Errorf("End() = %+v, want the API's closed", ch)
	}
	if w := b.Wait(now, "p"); w != 0 {
		t.Errorf("Wait() once it is closed = %v, want 0", w)
	}

	b = New(half)
	openAPI(b, now)
	b.End(now, b.call(now, "r", "someone"), Failed)
	if w := b.Wait(now, "r"); w == 0 {
		t.Error("a page whose probe failed may probe at once again")
	}
	if w := b.Wait(now.Add(1900*time.Millisecond), "p"); w == 0 {
		t.Error("the failed probe of a well page did not make the pause longer")
	}
}

// The pauses before the API's probes stay short, because it takes nobody's calls,
// unless the app is throttled.
func TestProbesOfTheAPI(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		v      Verdict
		pauses []int
	}{
		{"errors", Failed, []int{1, 2, 3, 3, 3, 3}},
		{"no connection", Unreached, []int{1, 2, 3, 3, 3, 3}},
		{"throttled", Throttled, []int{1, 2, 4, 8, 16, 30}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b, now := New(half), begin()
			for i := range apiRow {
				b.End(now, &Call{page: b.pageOf([]string{"p", "q"}[i%2], now), recipient: fmt.Sprint(i), event: fmt.Sprint(i), began: now}, tc.v)
			}
			for i, want := range tc.pauses {
				due := now.Add(time.Duration(want) * time.Second)
				if w := b.Wait(due.Add(-time.Millisecond), "p"); w == 0 {
					t.Fatalf("probe %d may begin before %d s", i, want)
				}
				if now = due; b.Wait(now, "p") != 0 || b.PageWait(now, "p") != 0 {
					t.Fatalf("probe %d may not begin %d s after the last", i, want)
				}
				b.End(now, b.call(now, "p", "someone"), tc.v)
			}
		})
	}
}

// When the API's breaker closes, the pages that failed only meanwhile are probed at
// once, one call each. One that was sick before keeps its pause.
func TestPagesOfAnOutage(t *testing.T) {
	t.Parallel()
	b, now := New(half), begin()
	openPage(b, now, "sick")
	for range 3 { // its pause is 8 s then
		now = now.Add(10 * time.Second)
		b.End(now, b.call(now, "sick", "someone"), Failed)
	}
	b.End(now, b.call(now, "p", "someone"), Answered)
	now = now.Add(time.Second)
	openPage(b, now, "p")
	openPage(b, now, "q")
	openAPI(b, now)
	if !b.IsOpen() || !b.IsPageOpen("p") || !b.IsPageOpen("q") {
		t.Fatal("not all is open")
	}
	for i := range 4 {
		now = now.Add(5 * time.Second)
		if b.PageWait(now, "p") != 0 {
			t.Fatalf("page p has a pause of its own at probe %d of the API", i)
		}
		b.End(now, b.call(now, "p", "someone"), Failed)
		b.End(now, b.call(now, "sick", "someone"), Failed)
	}
	now = now.Add(5 * time.Second)
	if ch := b.End(now, b.call(now, "q", "someone"), Answered); !ch.Closed {
		t.Fatalf("End(a probe's answer) = %+v, want the API's closed", ch)
	}
	if w := b.PageWait(now, "sick"); w < 20*time.Second {
		t.Errorf("PageWait(sick before) = %v, want what is left of its 30 s", w)
	}
	if w := b.PageWait(now, "p"); w != 0 || !b.IsPageOpen("p") {
		t.Errorf("PageWait(p) = %v, open %v, want 0 and true", w, b.IsPageOpen("p"))
	}
	probe := b.call(now, "p", "someone")
	if w := b.PageWait(now, "p"); w == 0 {
		t.Error("a second call of p may begin beside its probe")
	}
	b.End(now, probe, Failed)
	if w := b.PageWait(now.Add(time.Second), "p"); w != 0 || !b.IsPageOpen("p") {
		t.Errorf("PageWait(p) a second after its probe failed = %v, open %v, want 0 and true: its pauses begin anew", w, b.IsPageOpen("p"))
	}
}

// Where more pages fail than are remembered by name, none may probe beside the others.
func TestManyPagesFail(t *testing.T) {
	t.Parallel()
	b, now := New(half), begin()
	for i := range 2 * rowSize {
		b.End(now, &Call{page: b.pageOf(fmt.Sprint("page", i), now), recipient: "u", event: "e", began: now}, Failed)
	}
	if w := b.Wait(now, "another"); w == 0 {
		t.Error("Wait() of a page that has not failed = 0, want the API's pause")
	}
}

// A throttled app waits on every page, once a second page has been told so.
func TestThrottled(t *testing.T) {
	t.Parallel()
	b, now := New(half), begin()
	if ch := b.End(now, b.call(now, "p", "u"), Throttled); ch != (Change{Opened: true}) {
		t.Fatalf("End(Throttled) = %+v, want opened", ch)
	}
	if w := b.Wait(now.Add(500*time.Millisecond), "p"); w == 0 {
		t.Error("the page may call while it is throttled")
	}
	if w := b.Wait(now, "r"); w != 0 {
		t.Errorf("Wait(another page) = %v, want 0: it finds out whether it is the app", w)
	}
	now = now.Add(time.Second)
	c := b.call(now, "r", "u")
	if b.Wait(now, "q") == 0 {
		t.Error("a third page may call beside the probe")
	}
	if b.End(now, c, Throttled); b.Wait(now.Add(1900*time.Millisecond), "q") == 0 {
		t.Error("a probe that was throttled did not make the pause longer, for all")
	}
	now = now.Add(2 * time.Second)
	if ch := b.End(now, b.call(now, "r", "u"), Answered); ch != (Change{Closed: true}) {
		t.Errorf("End(a probe's answer) = %+v, want closed", ch)
	}
}

// One page that is told that the app is throttled holds up nobody, if others are
// answered. Two do.
func TestThrottledApart(t *testing.T) {
	t.Parallel()
	b, now := New(half), begin()
	b.End(now, b.call(now, "q", "u"), Answered)
	now = now.Add(time.Second)
	for range 5 {
		b.End(now, b.call(now, "p", "u"), Throttled)
		b.End(now, b.call(now, "q", "u"), Answered)
		if b.IsOpen() || !b.IsPageOpen("p") || b.PageWait(now, "p") == 0 || b.Wait(now, "q") != 0 {
			t.Fatalf("API open %v, page open %v, want the page's alone", b.IsOpen(), b.IsPageOpen("p"))
		}
		now = now.Add(4 * time.Second)
	}
	if ch := b.End(now, b.call(now, "r", "u"), Throttled); !ch.Opened || b.Wait(now, "q") == 0 {
		t.Errorf("End(Throttled, of a second page) = %+v, want opened for all", ch)
	}
}

// An event that fails for everybody, or hangs, is no sick page. With a second event
// that fails it is.
func TestOneEvent(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		b, now := New(half), begin()
		for i := range 99 {
			c := b.Begin(now, "p", fmt.Sprint(i), "voice")
			if !hangs {
				b.End(now.Add(time.Duration(i)*time.Second), c, Failed)
			}
		}
		now = now.Add(99 * time.Second)
		if b.Check(now); b.IsPageOpen("p") {
			t.Errorf("hangs %v: the page is open for one event", hangs)
		}
		c := b.Begin(now, "p", "0", "text")
		if now = now.Add(hungTime); !hangs {
			b.End(now, c, Failed)
		}
		if b.Check(now); !b.IsPageOpen("p") {
			t.Errorf("hangs %v: the page is not open, though a second event fails", hangs)
		}
	}
}

// A replica that has nothing to send any more does not say for ever that the API
// is down.
func TestOpenWithoutCalls(t *testing.T) {
	t.Parallel()
	b, now := New(half), begin()
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
	b.End(now, c, NoCall)
	b.Check(now.Add(time.Hour))
	if b.IsOpen() {
		t.Error("open an hour after the last call")
	}
}

// A page hangs when four of its calls have waited for three seconds and none was
// answered; others are not touched.
func TestHung(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		calls    int
		answered time.Duration // when one more call is; 0: never
		opens    time.Duration // 0: never in ten seconds
	}{
		{"four calls", 4, 0, 3 * time.Second},
		{"three calls", 3, 0, 0},
		{"an answer in between", 4, 2 * time.Second, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b, now := New(half), begin()
			for i := range tc.calls {
				b.call(now, "p", fmt.Sprint(i))
			}
			b.call(now, "q", "u")
			var opened time.Duration
			for d := time.Second; d <= 10*time.Second && opened == 0; d += time.Second {
				if d == tc.answered {
					b.End(now.Add(d), b.call(now, "p", "late"), Answered)
				}
				if hung := b.Check(now.Add(d)); len(hung) > 0 {
					opened = d
				}
			}
			if opened != tc.opens || b.IsPageOpen("q") {
				t.Errorf("opened after %v, q %v, want %v and false", opened, b.IsPageOpen("q"), tc.opens)
			}
		})
	}
}

// Calls that end together without an answer are no sick page, nor an API that is
// down, if others that began later were answered.
func TestLateFailures(t *testing.T) {
	t.Parallel()
	b, now := New(half), begin()
	var late []*Call
	for i := range 2 * apiRow {
		late = append(late, b.call(now, []string{"p", "q"}[i%2], fmt.Sprint(i)))
	}
	for range 10 {
		now = now.Add(time.Second)
		b.End(now, b.call(now, "p", "text"), Answered)
		b.End(now, b.call(now, "q", "text"), Answered)
		b.Check(now)
	}
	for _, c := range late {
		b.End(now, c, Failed)
	}
	if open := b.OpenPages(); open != 0 || b.IsOpen() {
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
		{"many calls for 2 s", two, 20, 2 * time.Second, true},
		{"fewer for 2 s", two, 19, 2 * time.Second, false},
	} {
		b, now := New(half), begin()
		b.End(now, b.call(now, "p", "u"), Answered)
		now = now.Add(time.Hour) // the quiet hour is no silence
		for i := range tc.calls {
			b.call(now, fmt.Sprint("p", i%tc.pages), fmt.Sprint(i))
		}
		if got := b.Silent(now.Add(tc.at)); got != tc.want {
			t.Errorf("%s: Silent() = %v, want %v", tc.name, got, tc.want)
		}
	}
	b, now := New(half), begin()
	b.call(now, "p", "1")
	b.call(now, "r", "1")
	b.End(now.Add(4*time.Second), b.call(now, "q", "2"), Throttled)
	if b.Silent(now.Add(6 * time.Second)) {
		t.Error("Silent() 2 s after the app was throttled = true, want false: that is an answer")
	}
}

// The calls of a sick page, and probes, are no silence of the API. Nor do they make
// the first call of another page look old.
func TestSickPageIsNoSilence(t *testing.T) {
	t.Parallel()
	b, now := New(half), begin()
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

// What is known of a page goes when it is well, or has not been called for long.
func TestPagesAreForgotten(t *testing.T) {
	t.Parallel()
	b, now := New(half), begin()
	for i := range 1000 {
		b.End(now, b.call(now, fmt.Sprint("well", i), "u"), Answered)
	}
	openPage(b, now, "p")
	b.Check(now)
	if n := len(b.pages); n != 1 {
		t.Errorf("%d pages are remembered, want the sick one", n)
	}
	b.Check(now.Add(forget))
	if !b.IsPageOpen("p") {
		t.Error("a sick page is forgotten too early")
	}
	b.Check(now.Add(forget + time.Second))
	if n := len(b.pages); n != 0 {
		t.Errorf("%d pages are remembered after %v, want none", n, forget)
	}
	for i := range 10 * rowSize {
		b.End(now, b.call(now, "p", fmt.Sprint(i)), Failed)
	}
	if n := len(b.pages["p"].failures.names); n > rowSize {
		t.Errorf("%d names are remembered of a row, want at most %d", n, rowSize)
	}
}
