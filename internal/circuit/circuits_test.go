package circuit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
)

func half() float64 { return 0.5 }

func begin() time.Time { return time.Unix(1000, 0) }

// What is judged after calls that were made at given times, each of which ended at once: pages,
// "*" for the API.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	type step struct {
		at     time.Duration
		times  int // 0: once
		page   string
		people int // to whom the calls are, in turn; 0: one
		v      Answer
		open   string
	}
	const s = time.Second
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"one sick person", []step{{0, 100, "p", 1, Failed, ""}, {10 * s, 100, "p", 1, Failed, ""}, {60 * s, 1, "p", 1, Failed, ""}}},
		{"two of one page", []step{{0, 100, "p", 2, Failed, ""}, {10 * s, 100, "p", 2, Failed, ""}}},
		{"some of several pages", []step{{0, 50, "p", 2, Failed, ""}, {5 * s, 50, "q", 2, Failed, ""}, {10 * s, 50, "r", 1, Failed, ""}}},
		{"three people of a page", []step{{0, 2, "p", 3, Failed, ""}, {s, 3, "p", 3, Failed, "p"}}},
		{"the same after a long time", []step{{0, 2, "p", 3, Failed, ""}, {300 * s, 3, "p", 3, Failed, "p"}}},
		{"an answer in between", []step{{0, 2, "p", 3, Failed, ""}, {s, 1, "p", 1, Answered, ""}, {2 * s, 2, "p", 3, Failed, ""}}},
		{"no call is no answer", []step{{0, 2, "p", 3, Failed, ""}, {s, 5, "p", 1, NoCall, ""}, {2 * s, 3, "p", 3, Failed, "p"}}},
		{"a page is not the API", []step{{0, 1000, "p", 100, Failed, "p"}, {60 * s, 1000, "p", 100, Failed, "p"}}},
		{"two pages are not, while a third is answered", []step{
			{0, 20, "p", 20, Failed, "p"}, {s, 1, "r", 1, Answered, "p"}, {2 * s, 20, "q", 20, Failed, "pq"}, {3 * s, 1, "r", 1, Answered, "pq"}, {4 * s, 25, "p", 20, Failed, "pq"},
		}},
		{"six people of two pages", []step{{0, 2, "p", 2, Failed, ""}, {s, 3, "q", 3, Failed, "q"}, {s, 3, "p", 3, Failed, "*"}}},
		{"a page without a connection", []step{{0, 2, "p", 3, Unreached, ""}, {s, 3, "p", 3, Unreached, "*"}}},
		{"two people without a connection", []step{{0, 100, "p", 2, Unreached, ""}, {10 * s, 100, "p", 2, Unreached, ""}}},
		{"an answer between calls without a connection", []step{{0, 2, "p", 2, Unreached, ""}, {s, 1, "q", 1, Answered, ""}, {2 * s, 2, "p", 2, Unreached, ""}}},
		{"a page that is alone told of a throttled app", []step{{0, 1, "p", 1, Throttled, "p"}, {0, 5, "p", 5, Throttled, "p"}}},
		{"a throttled app", []step{{0, 1, "p", 1, Throttled, "p"}, {0, 1, "q", 1, Throttled, "*"}}},
		{"two pages are told of a throttled app, others are answered", []step{{0, 1, "p", 1, Throttled, "p"}, {s, 1, "r", 1, Answered, "p"}, {2 * s, 1, "q", 1, Throttled, "pq"}}},
		{"what is answered is not down", []step{{0, 1, "p", 1, Throttled, "p"}, {0, 1, "q", 1, Throttled, "*"}, {s, 1, "r", 1, Answered, ""}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := New(half, attempts)
			for i, st := range tc.steps {
				now := begin().Add(st.at)
				for n := range max(1, st.times) {
					b.end(now, b.callFor(now, st.page, fmt.Sprint(n%max(1, st.people)), fmt.Sprint("event", i, "-", n)), st.v)
				}
				if got := openOnes(b); got != st.open {
					t.Errorf("after step %d open: %q, want %q", i, got, st.open)
				}
			}
		})
	}
}

// A play is calls, each a step "BEGIN-END PERSON EVENT ANSWER", in seconds, in the order of
// their ends: + accepted, f failed, d denied, r refused, b blocked, x bad. All are of page p.
type play string

// run plays, looks once a second, and returns the pages that are sick or suspended at the end.
func (p play) run(t *testing.T, b *Circuits) (open string, now time.Time) {
	t.Helper()
	answers := map[string]Answer{"+": Accepted, "f": Failed, "d": Denied, "r": Refused, "b": Blocked, "x": Bad}
	type one struct {
		begin, end float64
		to, event  string
		a          Answer
		c          *Call
	}
	var all []*one
	for line := range strings.SplitSeq(string(p), ",") {
		o, a := new(one), ""
		if n, err := fmt.Sscanf(strings.TrimSpace(line), "%f-%f %s %s %s", &o.begin, &o.end, &o.to, &o.event, &a); n != 5 {
			t.Fatalf("%q: %v", line, err)
		}
		o.a = answers[a]
		all = append(all, o)
	}
	last := all[len(all)-1].end + 0.1
	for at := 0.0; at <= last; at += 0.1 {
		now = begin().Add(time.Duration(math.Round(at*10)) * 100 * time.Millisecond)
		for _, o := range all {
			if math.Abs(o.begin-at) < 0.05 {
				o.c = b.callFor(now, "p", o.to, o.event)
			}
			if math.Abs(o.end-at) < 0.05 {
				b.end(now, o.c, o.a)
			}
		}
		if int(math.Round(at*10))%10 == 0 {
			b.Check(now)
		}
	}
	if b.IsSick("p") {
		open += "sick"
	}
	if b.pages["p"].suspension() != nil {
		open += "suspended"
	}
	return open, now
}

// Who is a witness, and who is not.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		play play
		open string
	}{
		{"three people and two events", "0-1 a 1 f, 0-1 b 1 f, 0-1 c 2 f", "sick"},
		{"three people of one event", "0-1 a 1 f, 0-1 b 1 f, 0-1 c 1 f", ""},
		{"three who failed while others were reached", "0-.5 w 1 +, 0-1 a 1 f, 0-1 b 1 f, 0-1 c 2 f, 2-3 a 1 f, 2-3 b 1 f, 2-3 c 2 f, 5-6 a 3 f, 5-6 b 3 f, 5-6 c 4 f", ""},
		{"their retries, with a newcomer", "0-.5 w 1 +, 0-1 a 1 f, 0-1 b 1 f, 2-3 a 1 f, 2-3 b 1 f, 2-3 n 2 f", ""},
		{"newcomers, of events that are new", "0-.5 w 1 +, 0-1 a 1 f, 2-3 k 2 f, 2-3 l 2 f, 2-3 m 3 f", "sick"},
		{"newcomers, of an event that others got before", "0-.5 w 1 +, 2-3 k 1 f, 2-3 l 1 f, 2-3 m 3 f", "sick"},
		{"somebody is served while they fail", "0-3 a 1 f, 0-3 b 1 f, 0-3 c 2 f, 1-2 w 3 +", ""},
		{"somebody is served after they failed", "0-1 a 1 f, 0-1 b 1 f, 0-1.5 w 1 +, 2-3 k 3 f", ""},
		{"two who are denied", "0-1 a 1 d, 0-1 b 1 d", "suspended"},
		{"two who are denied, and one who is reached later", "0-.1 a 1 d, 0-.1 b 1 d, 0-1 w 1 +", ""},
		{"the same, and their retries", "0-.1 a 1 d, 0-.1 b 1 d, 0-1 w 1 +, 2-2.1 a 1 d, 2-2.1 b 1 d, 4-4.1 a 2 d, 4-4.1 b 2 d", ""},
		{"the same, paced", "0-1 w 1 +, .1-.2 a 1 d, .2-.3 b 1 d, 2-2.1 a 1 d, 2-2.1 b 1 d", ""},
		{"all are denied, and one from before is reached late", "0-1 w 1 +, .1-.5 a 2 d, .2-.5 b 2 d, .3-.5 c 2 d, .4-.5 e 2 d, 2-2.1 a 2 d, 2-2.1 b 2 d", "suspended"},
		{"one who is denied", "0-1 a 1 d, 2-3 a 2 d, 4-5 a 3 d", ""},
		{"a token that two are refused by", "0-1 a 1 r, 0-1 b 1 r", "suspended"},
		{"a block of one event", "0-1 a 1 b, 0-1 b 1 b, 0-1 c 1 b", ""},
		{"a block of two events", "0-1 a 1 b, 2-3 a 2 b", "suspended"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got, _ := row.play.run(t, New(half, attempts)); got != row.open {
				t.Errorf("%s: %q, want %q", row.play, got, row.open)
			}
		})
	}
}

// A verdict waits for the calls under way, but for three seconds at most, or less where answers
// take less. Those that take as long are witnesses themselves.
func TestVerdictWaits(t *testing.T) {
	t.Parallel()
	const three = "0-1 a 1 f, 0-1 b 1 f, 0-1 c 2 f, "
	for _, row := range []struct {
		name string
		play play
		open string
	}{
		{"nothing is under way", three + "1-1.1 x 9 x", ""},
		{"a call that hangs", three + "0-9 h 1 f", "sick"},
		{"for less than three seconds", three + "0-2 h 1 +", ""},
		{"one that began later is not waited for", three + ".5-1.5 h 3 f, 1.2-4 n 4 f", "sick"},
		{"four that hang", "0-3.5 a 1 f, 0-3.5 b 1 f, 0-3.5 c 2 f, 3.4-3.6 d 3 f", "sick"},
		{"four of one event that hang", "0-3.5 a 1 f, 0-3.5 b 1 f, 0-3.5 c 1 f, 0-3.5 d 1 f", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got, _ := row.play.run(t, New(half, attempts)); got != row.open {
				t.Errorf("%s: %q, want %q", row.play, got, row.open)
			}
		})
	}
	b := New(half, attempts)
	for i := range 3000 {
		at := begin().Add(time.Duration(i) * time.Second)
		b.end(at.Add(50*time.Millisecond), b.call(at, "p", "w"), Accepted)
	}
	if b.answerTime > 100*time.Millisecond {
		t.Errorf("answers are said to take %v where all take 50 ms", b.answerTime)
	}
}

// An event is at fault that fails for three people while others are reached: its copies are
// dead, and nobody is failing.
func TestEvents(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		play play
		hold Hold
	}{
		{"it fails again while others are reached", "0-1 a 1 f, 0-1 b 1 f, 0-1 c 1 f, 2-3 w 2 +, 4-5 a 1 f, 4-5 b 1 f, 4-5 c 1 f, 9-9.1 w 3 +", Dead},
		{"whatever the code", "0-1 a 1 b, 0-1 b 1 d, 0-1 c 1 f, 2-3 w 2 +, 4-5 a 1 d, 4-5 d 1 b, 4-5 e 1 x, 9-9.1 w 3 +", Dead},
		{"it fails again for two", "0-1 a 1 f, 0-1 b 1 f, 0-1 c 1 f, 2-3 w 2 +, 4-5 a 1 f, 4-5 b 1 f, 9-9.1 w 3 +", Pass},
		{"an outage", "0-1 a 1 f, 0-1 b 1 f, 0-1 c 1 f, 2-3 w 2 +, 6-6.1 w 3 +", Pass},
		{"as many others fail as are reached", "0-1 a 1 f, 0-1 b 1 f, 0-1 c 1 f, 2-3 w 2 +, 2-3 x 3 f, 4-5 a 1 f, 4-5 b 1 f, 4-5 c 1 f, 9-9.1 w 3 +", Pass},
		{"fewer others fail than are reached", "0-1 a 1 f, 0-1 b 1 f, 0-1 c 1 f, 2-3 w 2 +, 2-3 v 2 +, 2-3 x 3 f, 4-5 a 1 f, 4-5 b 1 f, 4-5 c 1 f, 9-9.1 w 3 +", Dead},
		{"two people", "0-1 a 1 f, 0-1 b 1 f, 2-3 w 2 +, 6-6.1 w 3 +", Pass},
		{"somebody got it", "0-1 a 1 f, 0-1 b 1 f, 0-1 c 1 f, 2-3 d 1 +, 2-3 w 2 +, 6-6.1 w 3 +", Pass},
		{"nobody else is reached", "0-1 a 1 f, 0-1 b 1 f, 0-1 c 1 f, 6-6.1 z 2 x", Pass},
		{"others were reached before", "0-.5 w 2 +, 0-1 a 1 f, 0-1 b 1 f, 0-1 c 1 f, 6-6.1 z 2 x", Pass},
		{"answers may still come", "0-1 a 1 f, 0-1 b 1 f, 0-1 c 1 f, 2-3 w 2 +, 4-5 a 1 f, 4-5 b 1 f, 4-5 c 1 f", Pass},
		{"it fails for those who are known to fail", "0-.5 w 0 +, 0-1 a 0 f, 0-1 b 0 f, 0-1 c 0 f, 2-3 a 1 f, 2-3 b 1 f, 2-3 c 1 f, 4-5 w 2 +, 9-9.1 w 3 +", Pass},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := New(half, attempts)
			_, now := row.play.run(t, b)
			if got, by, _ := b.Hold(now, textTo("p", "n", "1")); got != row.hold || got == Dead && by != Event {
				t.Errorf("%s: hold %d by %d, want %d", row.play, got, by, row.hold)
			}
		})
	}
}

// Of a page that is judged a stranger's message probes at once, one at a time; others wait for
// the pause. The stranger is the first choice for a probe that is due, too.
func TestStrangers(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	openPage(b, now, "p")
	witness, known, stranger := textTo("p", "0", "to-0"), textTo("p", "n", fmt.Sprint(now.UnixNano(), "-", 1)), textTo("p", "n", "new")
	for i, o := range []*message.Outbound{stranger, known, witness} {
		if got := b.Rank(o); got != i {
			t.Errorf("Rank(%s) = %d, want %d", o.ID, got, i)
		}
		if h, _, _ := b.Hold(now, o); (h == Pass) != (i == 0) {
			t.Errorf("Hold(%s) = %v, want that a stranger alone passes", o.ID, h)
		}
	}
	c := b.Begin(now, stranger)
	if h, _, _ := b.Hold(now, textTo("p", "m", "newer")); h == Pass {
		t.Error("a second stranger passes beside the first")
	}
	pause := b.pages["p"].own[0].pause
	if b.end(now, c, Failed); b.pages["p"].own[0].pause != pause || !b.IsSick("p") {
		t.Error("a stranger who failed makes the pause longer, or ends it")
	}
	if got := b.end(now, b.Begin(now, textTo("p", "m", "newer")), Accepted); got != "-page" || b.IsSick("p") {
		t.Errorf("a stranger who is reached: %q, want that the page's circuit closes", got)
	}
	for i := range rowSize {
		b.end(now, b.call(now.Add(time.Second), "p", fmt.Sprint("full", i)), Failed)
	}
	if h, _, _ := b.Hold(now.Add(time.Second), textTo("p", "x", "x")); h == Pass {
		t.Error("where as many failed as are remembered there is no stranger")
	}
}

// One who is refused is no verdict: the API is asked, once in a while, and may confirm it.
func TestSuspects(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		said, confirms Answer
		want           string
	}{{Refused, Refused, "+permission"}, {Refused, Accepted, ""}, {Denied, Refused, "+permission"}, {Denied, Denied, ""}, {Blocked, Blocked, "+block"}, {Blocked, Refused, ""}, {Refused, NoCall, ""}} {
		b, now := New(half, attempts), begin()
		b.end(now, b.call(now, "p", "u"), row.said)
		if list := b.Suspects(now.Add(askAfter - 1)); len(list) > 0 {
			t.Errorf("asked about %v at once", list)
		}
		now = now.Add(askAfter)
		if list := b.Suspects(now); !slices.Equal(list, []string{"p"}) || len(b.Suspects(now.Add(askAgain-1))) > 0 {
			t.Errorf("asked about %v, want p once", list)
		}
		if got := names(b.Confirm(now, "p", row.confirms)); got != row.want {
			t.Errorf("%d, confirmed by %d: %q, want %q", row.said, row.confirms, got, row.want)
		}
	}
}

// end ends a call, and returns the scopes that have opened and closed.
func (s *Circuits) end(now time.Time, c *Call, a Answer) (changes string) {
	return names(s.End(now, c, Report{Answer: a, Code: "1"}))
}

func names(list []Change) (changes string) {
	for _, ch := range list {
		changes += map[bool]string{true: "+", false: "-"}[ch.Open] + []string{"api", "network", "app", "page", "permission", "block", "event", "person"}[ch.Scope]
	}
	return changes
}

// failures and attempts are the numbers of failures that open a circuit.
const apiFailures, pageFailures, attempts = 6, 3, 8

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

// wait returns the time that a message of a page must wait, to one of those who fail.
func (s *Circuits) wait(now time.Time, name string) time.Duration {
	_, wait := s.hold(now, name)
	return wait
}

// hold returns the decision about such a message, and the wait.
func (s *Circuits) hold(now time.Time, name string) (Hold, time.Duration) {
	h, _, wait := s.Hold(now, textTo(name, "0", "to-0"))
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
		b.end(now, b.callFor(now, name, fmt.Sprint(i), fmt.Sprint(now.UnixNano(), "-", i)), Failed)
	}
}

// openAPI opens the API's, with calls of p and q.
func openAPI(b *Circuits, now time.Time) {
	var calls []*Call
	for i := range apiFailures {
		calls = append(calls, b.callFor(now, []string{"p", "q"}[i%2], fmt.Sprint(i), fmt.Sprint(now.UnixNano(), "-", i)))
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
	hold := func(b *Circuits, now time.Time) time.Duration { // of one who failed
		_, _, wait := b.Hold(now, textTo("p", "someone", "to-someone"))
		return wait
	}
	for _, tc := range []struct {
		name   string
		opens  func(b *Circuits, now time.Time)
		a      Answer
		pauses []time.Duration
		closed string
	}{
		{"the API, errors", openAPI, Failed, []time.Duration{1 * s, 2 * s, 3 * s, 3 * s}, "-api"},
		{"a page", func(b *Circuits, now time.Time) {
			openPage(b, now, "p")
			b.end(now, b.call(now, "p", "someone"), Failed)
		}, Failed, []time.Duration{1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}, "-page"},
		{"an app", func(b *Circuits, now time.Time) {
			b.end(now, b.call(now, "q", "u"), Throttled)
			b.end(now, b.call(now, "p", "u"), Throttled)
		}, Throttled, []time.Duration{1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}, "-app"},
		{"a token", func(b *Circuits, now time.Time) {
			b.end(now, b.call(now, "p", "u"), Refused)
			b.end(now, b.call(now, "p", "someone"), Refused)
		}, Refused, []time.Duration{1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s, 128 * s, 256 * s}, "-permission"},
		{"a block", func(b *Circuits, now time.Time) {
			for _, to := range []string{"u", "someone"} {
				b.end(now, b.callFor(now, "p", to, fmt.Sprint(to, now.UnixNano())), Blocked)
			}
			b.end(now, b.call(now, "p", "someone"), Blocked)
		}, Blocked, []time.Duration{1 * s, 2 * s, 4 * s, 8 * s}, "-block"},
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

// A throttle of the app pauses for as long as the platform asks, a minute at most.
func TestHint(t *testing.T) {
	t.Parallel()
	for hint, want := range map[time.Duration]time.Duration{40 * time.Second: 40 * time.Second, 7 * time.Minute: time.Minute} {
		b, now := New(half, attempts), begin()
		b.End(now, b.call(now, "p", "u"), Report{Answer: Throttled, Hint: hint})
		if left := b.pages["p"].own[0].until.Sub(now); left != min(want, time.Minute) {
			t.Errorf("a page that is alone told so waits %v, want %v, a minute at most", left, min(want, time.Minute))
		}
		b.End(now, b.call(now, "q", "u"), Report{Answer: Throttled, Hint: hint})
		for _, page := range []string{"p", "q"} {
			if w := b.wait(now, page); w != want {
				t.Errorf("%s waits %v, want %v", page, w, want)
			}
		}
		if w := b.wait(now, "r"); w != 0 || !b.IsOpen() || b.sick() != 0 {
			t.Errorf("another page waits %v, want that it asks at once, by the app's circuit", w)
		}
		b.End(now, b.call(now, "r", "u"), Report{Answer: Throttled, Hint: hint})
		if w := b.wait(now, "s"); w == 0 {
			t.Error("a further page asks at once, too")
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
	old := b.call(now, "r", "someone")
	openAPI(b, now.Add(time.Second))
	b.Check(now.Add(time.Second + longestAnswer))
	if b.end(now.Add(2*longestAnswer), old, Answered); !b.IsOpen() {
		t.Error("an answer to a call from before all that failed closed the circuit")
	}
	b = New(half, attempts)
	openPage(b, now, "p")
	now = now.Add(time.Second)
	b.end(now, b.call(now, "p", "0"), NoCall)
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
	if w := b.wait(now.Add(time.Second), "p"); w != 0 {
		t.Error("the failed probe of a well page made the pause longer")
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
		b.end(now, b.call(now, "sick", "0"), Failed)
	}
	b.end(now, b.call(now, "p", "someone"), Answered)
	now = now.Add(time.Second)
	openPage(b, now, "p")
	openPage(b, now, "q")
	openAPI(b, now)
	for range 4 {
		now = now.Add(5 * time.Second)
		b.end(now, b.call(now, "p", "0"), Failed)
		b.end(now, b.call(now, "sick", "0"), Failed)
	}
	if !b.IsOpen() || b.sick() != 1 {
		t.Errorf("API open %v, %d pages sick, want it open and one", b.IsOpen(), b.sick())
	}
	now = now.Add(5 * time.Second)
	if got := b.end(now, b.call(now, "q", "someone"), Answered); got != "-api" {
		t.Fatalf("a probe's answer: %q, want that the API's closes", got)
	}
	if pause := b.pages["sick"].own[0].pause; pause != 16*time.Second {
		t.Errorf("the page that was sick before has a pause of %v, want the 16 s that it came to", pause)
	}
	if w := b.wait(now, "p"); w != 0 || b.IsSick("p") {
		t.Errorf("Wait(p) = %v, sick %v, want 0 and false", w, b.IsSick("p"))
	}
}

// A page that hangs since the API does is not sick when that answers again.
func TestPageHangsInAnOutage(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	for i := range 4 {
		b.call(now, "hangs", fmt.Sprint(i))
	}
	b.Check(now.Add(longestAnswer))
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
		b.end(now, &Call{page: b.page(fmt.Sprint("page", i)), to: "u", event: fmt.Sprint(i), began: now}, Failed)
	}
	if w := b.wait(now, "another"); w == 0 {
		t.Error("Wait() of a page that has not failed = 0, want the API's pause")
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
		{"few people of two pages", two, 5, time.Minute, false},
		{"two pages for less than 5 s", two, 6, 4999 * time.Millisecond, false},
		{"two pages for 5 s", two, 6, 5 * time.Second, true},
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
		if got := b.Silent(now.Add(tc.at), false); got != tc.want {
			t.Errorf("%s: Silent() = %v, want %v", tc.name, got, tc.want)
		}
	}
	b, now := New(half, attempts), begin()
	for i := range 6 {
		b.call(now, fmt.Sprint("p", i), "1")
	}
	b.end(now.Add(4*time.Second), b.call(now.Add(time.Second), "q", "2"), Throttled)
	if b.Silent(now.Add(6*time.Second), false) {
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
	b.end(now, b.call(now, "w", "u"), Answered)
	b.Check(now.Add(longestAnswer))
	if b.sick() != 2 {
		t.Fatalf("%d pages are sick, want two: nothing is tested", b.sick())
	}
	now = now.Add(time.Minute)
	b.call(now, "q", "probe")
	if b.Silent(now, false) || b.Silent(now.Add(time.Hour), false) {
		t.Error("Silent() = true with calls of sick pages alone")
	}
	if !b.Silent(now.Add(silenceAgain), true) {
		t.Error("Silent() = false after another silence, though no call is answered")
	}
	for i := range 6 {
		b.call(now, fmt.Sprint("r", i), fmt.Sprint(i))
	}
	if b.Silent(now.Add(time.Second), false) {
		t.Error("Silent() = true a second after the first calls of other pages")
	}
	if !b.Silent(now.Add(silence), false) {
		t.Error("Silent() = false though other pages are not answered")
	}
	isGone := func(string) bool { return true }
	if young := b.Leave(now.Add(silence), isGone); young || b.Silent(now.Add(silence), false) {
		t.Errorf("once the partitions are given up young = %v, Silent() = %v, want false", young, b.Silent(now.Add(silence), false))
	}
	b.call(now.Add(silence), "r1", "u")
	if !b.Leave(now.Add(silence), isGone) {
		t.Error("a call that has just begun is not young")
	}
}

// A call that was not made asks nobody, and so is not unheard. One that fails is.
func TestUnheard(t *testing.T) {
	t.Parallel()
	for v, unheard := range map[Answer]bool{NoCall: false, Failed: true, Unreached: true, Bad: false} {
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
		b.end(now, b.callFor(now, "p", "another", "e"), row.answer) // a second witness
		for range 9 {                                               // until its pause is long
			for range attempts {
				b.end(now, b.call(now, "p", "0"), row.answer)
				now = now.Add(time.Second)
			}
			now = now.Add(time.Hour)
		}
		last := now.Add(-time.Hour - time.Second)
		now = last.Add(row.after)
		b.Doubt(now, func(page string) bool { return page == "q" })
		if h, _ := b.hold(now, "p"); h == Pass {
			t.Errorf("answer %d after %v: another page's messages pass", row.answer, row.after)
		}
		b.Doubt(now, func(page string) bool { return page == "p" })
		if h, _ := b.hold(now, "p"); h != row.want {
			t.Errorf("answer %d after %v: hold %d, want %d", row.answer, row.after, h, row.want)
		}
	}
}

// A page is forgotten when it is well, or has not been called for long.
func TestPagesAreForgotten(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	for i := range 1000 {
		b.end(now.Add(-forget), b.call(now.Add(-forget-1), fmt.Sprint("well", i), "u"), Answered)
	}
	openPage(b, now, "p")
	for _, to := range []string{"u", "v"} {
		b.end(now, b.call(now, "stopped", to), Refused)
		b.end(now, b.call(now, "blocked", to), Blocked)
	}
	for _, row := range []struct {
		after time.Duration
		left  string
	}{
		{0, "blocked p stopped "},
		{forget, "blocked p stopped "},
		{forget + 2*time.Second, "blocked stopped "},
		{4*time.Hour + 2*time.Second, ""},
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
	if n := len(b.pages["p"].own[0].row.people); n > rowSize {
		t.Errorf("%d names are remembered of a row, want at most %d", n, rowSize)
	}
}

// Messages of a page that may not send wait for five minutes and three probes, and are dead then.
func TestHolds(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	for _, to := range []string{"0", "1"} {
		b.end(now, b.call(now, "token", to), Refused)
		b.end(now, b.call(now, "block", to), Blocked)
	}
	for page, a := range map[string]Answer{"token": Refused, "block": Blocked} {
		if got, _ := b.hold(now.Add(time.Second-1), page); got != Wait {
			t.Errorf("messages of %s before the first probe: %v, want Wait", page, got)
		}
		at := now.Add(6 * time.Minute) // nothing was sent meanwhile
		for probe := range 3 {
			if got, _ := b.hold(at, page); got != Pass {
				t.Errorf("messages of %s at probe %d: %v, want Pass", page, probe, got)
			}
			c := b.call(at, page, "0")
			if got, _ := b.hold(at, page); got != Wait {
				t.Errorf("messages of %s beside probe %d: %v, want Wait", page, probe, got)
			}
			b.end(at, c, a)
			want := Wait
			if probe == 2 {
				want = Dead
			}
			if got, _ := b.hold(at, page); got != want {
				t.Errorf("messages of %s after probe %d: %v, want %v", page, probe, got, want)
			}
			at = at.Add(time.Minute)
		}
	}
	if got, _ := b.hold(now, "other"); got != Pass {
		t.Errorf("messages of another page: %v, want Pass", got)
	}
}

// An answer to a call from before a page was resumed does not suspend it again.
func TestStaleRefusal(t *testing.T) {
	t.Parallel()
	b, now := New(half, attempts), begin()
	old := b.call(now, "p", "a")
	b.end(now, b.call(now, "p", "b"), Refused)
	b.end(now.Add(longestAnswer), b.call(now, "p", "c"), Refused)
	b.Check(now.Add(2 * longestAnswer))
	now = now.Add(2 * longestAnswer)
	if !b.Resume(now.Add(time.Second), "p") || b.Resume(now.Add(time.Second), "p") {
		t.Error("Resume() of a suspended page, twice, is not true and false")
	}
	b.end(now.Add(2*time.Second), old, Refused)
	if hold, _ := b.hold(now.Add(2*time.Second), "p"); hold != Pass {
		t.Error("a late refusal suspended the page")
	}
	old = b.call(now.Add(2*time.Second), "p", "a")
	for _, to := range []string{"b", "c"} {
		b.end(now.Add(2*time.Second), b.call(now.Add(2*time.Second), "p", to), Blocked)
	}
	now = now.Add(time.Hour)
	b.end(now, b.call(now, "p", "b"), Accepted)
	b.end(now.Add(time.Second), old, Blocked)
	b.end(now.Add(time.Second), b.call(now.Add(time.Second), "p", "d"), Blocked)
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
		{"refused as bad alone", []step{
			{1, "b", "1", Accepted, ""}, {1, "a", "1", Bad, ""}, {1, "b", "2", Accepted, ""}, {1, "a", "2", Bad, ""}, {1, "b", "3", Accepted, ""}, {1, "a", "3", Bad, "a"},
		}},
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
		b.end(now, b.call(now.Add(-time.Second), page, "bad"), Bad)
		b.end(now, b.call(now, page, "u"), Refused)
		b.end(now, b.call(now, page, "v"), Refused)
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
