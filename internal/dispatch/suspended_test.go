package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// suspended is the number of suspended pages of a replica.
func (p *replica) suspended() (n int) {
	p.inspect(func(e *engine) { _, n, _ = e.circuits.Open() })
	return n
}

// blocked is the answer for a page that Meta has blocked for some time.
func blocked(message.Outbound, int) sender.Result { return fail(sender.PageStoppedForATime) }

// A blocked page costs no call but its probes, after pauses that double. Its messages wait for
// five minutes, and are dead then. An answered probe resumes it.
func TestSuspendedPage(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.script(blocked)
		calls := func() int { return len(r.callsOf("page0")) }
		r.text("page0", "ann", "bob") // two events
		r.sleep(100 * time.Millisecond)
		first := calls()
		if n := r.only().suspended(); n != 1 || first > 4 {
			t.Fatalf("%d pages are suspended after %d calls, want the one after two, or a retry more", n, first)
		}
		r.sleep(time.Minute)
		if n := calls(); n != first+5 { // after 1, 2, 4, 8 and 16 s
			t.Errorf("calls in a minute = %d, want 5", n-first)
		}
		if n := len(r.dead()); n > 0 {
			t.Errorf("%d messages are dead after a minute", n)
		}
		r.sleep(5 * time.Minute)
		if n := len(r.dead()); n != 2 || calls() != first+8 {
			t.Errorf("%d messages are dead after %d calls, want both after eight", n, calls()-first)
		}
		every(time.Minute, 2*time.Hour, func(int) { r.text("page0", "ann") })
		if n := calls(); n > first+2*(8+5) { // after up to 4096 s, and as many of new events
			t.Errorf("calls after two hours = %d, want at most 26", n-first)
		}
		r.script(nil)
		r.sleep(2 * time.Hour)
		r.dead()
		ids := append(r.text("page0", "ann"), r.text("page0", "bob")...)
		r.sleep(time.Second)
		if r.accepted[ids[0]]+r.accepted[ids[1]] != 2 || r.only().suspended() > 0 {
			t.Errorf("accepted %d and %d times, %d suspended; want both, and none", r.accepted[ids[0]], r.accepted[ids[1]], r.only().suspended())
		}
	})
}

// Who was sent nothing before is no witness: a stopped page is asked by such a message at once,
// and is well with the first that is accepted.
func TestStrangerProbes(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.script(func(o message.Outbound, _ int) sender.Result {
			if o.To != "well" {
				return fail(sender.NotAllowed)
			}
			return sender.Result{}
		})
		every(time.Second, 4*time.Minute, func(int) { r.text("page0", "ann", "bob", "cid") })
		if n := r.only().suspended(); n != 1 {
			t.Fatalf("%d pages are suspended, want the one: nothing is tested", n)
		}
		ids := r.text("page0", "well")
		r.sleep(time.Second)
		if r.accepted[ids[0]] != 1 || r.only().suspended() > 0 {
			t.Errorf("accepted %d times, %d suspended, want 1 and none", r.accepted[ids[0]], r.only().suspended())
		}
	})
}

// A probe that says nothing about the page is soon followed by another.
func TestProbeThatSaysNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.script(blocked)
		r.text("page0", "ann")
		r.sleep(31 * time.Minute)
		r.script(func(message.Outbound, int) sender.Result { return fail(sender.Transient) })
		r.text("page0", "ann")
		r.sleep(time.Second)
		r.script(nil)
		r.sleep(10 * time.Second)
		ids := r.text("page0", "bob")
		r.sleep(time.Second)
		if r.accepted[ids[0]] != 1 {
			t.Error("the page is not probed again within seconds")
		}
	})
}

// A token that is refused for a moment, or for minutes: nothing is dead, core is
// told nothing of a pause, and everybody is served soon after the right token is
// taken, whether or not the pages file changes.
func TestRefusedToken(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		gap  time.Duration
		file bool // changes when the token is right
	}{
		{500 * time.Millisecond, true},
		{4 * time.Second, true},
		{4 * time.Second, false},
		{time.Minute, false},
		{4 * time.Minute, true},
	} {
		t.Run(fmt.Sprint(row.gap, " ", row.file), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, nil, func(t *testing.T, r *rig) {
				start := time.Now()
				refused := func() bool {
					d := time.Since(start)
					return d >= 10*time.Second && d < 10*time.Second+row.gap
				}
				r.script(func(o message.Outbound, _ int) sender.Result {
					if o.Page == "page0" && refused() {
						return sender.Result{Outcome: sender.PageStopped, Status: 400, Code: 190, Err: errors.New("refused")}
					}
					return sender.Result{}
				})
				length := 20*time.Second + row.gap
				go every(row.gap/20+100*time.Millisecond, length, func(int) { r.text("page0", guests("g", 19)...) })
				go every(time.Second, length, func(int) { r.text("page1", guests("g", 9)...) })
				time.Sleep(10*time.Second + row.gap)
				if row.file {
					r.only().PagesChanged([]string{"page0"})
				}
				r.sleep(time.Until(start.Add(length + 20*time.Second))) // 30 s after the right token
				if row.gap > 90*time.Second {
					r.sleep(time.Minute) // more and more wait then, each for a minute
				}
				for _, id := range r.published {
					if r.accepted[id] != 1 {
						t.Fatalf("%s was accepted %d times", id, r.accepted[id])
					}
				}
				r.inversions = nil // what came after the token did not wait
				if n := len(r.dead()); n != 0 {
					t.Errorf("%d messages are dead, want none", n)
				}
				for _, e := range r.told() {
					if e.Reason != message.FeedbackResumed || e.Page != "page0" || e.User != "" {
						t.Errorf("core was told %+v, want only that the page is resumed", e)
					}
				}
				if w := r.waits("page1"); quantile(w, 1) > time.Second {
					t.Errorf("another page waited up to %v", quantile(w, 1))
				}
			})
		})
	}
}

// A token that is refused for longer: core is told, now and then, and is told the
// end, however it comes.
func TestCoreIsToldOfStopAndEnd(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"probe", "token", "request", "token of another replica"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			replicas := 1
			if end == "token of another replica" {
				replicas = 2
			}
			inBubble(t, replicas, nil, func(t *testing.T, r *rig) {
				r.script(func(message.Outbound, int) sender.Result { return fail(sender.PageStopped) })
				r.text("page0", guests("g", 5)...)
				r.sleep(5*time.Minute + 5*time.Second)
				told := r.told()
				if len(told) != 1 || told[0].Reason != string(message.ReasonPageStopped) || time.UnixMilli(told[0].Until).Before(time.Now()) {
					t.Fatalf("core was told %+v, want once that the page is stopped", told)
				}
				r.sleep(10 * time.Second)
				r.text("page0", "ann", "bob")
				r.sleep(10 * time.Second)
				if told := r.told(); len(told) != 1 {
					t.Errorf("told %d times by a message that core made in vain, want once", len(told))
				}
				r.script(nil)
				owner := r.replicas[r.owner("page0")]
				switch end {
				case "probe":
					r.sleep(30 * time.Minute)
					r.text("page0", "ann")
				case "token":
					owner.PagesChanged([]string{"page0"})
				case "request":
					owner.inspect(func(e *engine) { e.resume("page0") })
				default:
					r.stop(owner)
					r.sleep(3 * time.Second)
					r.text("page0", "ann") // by which the other one knows that the partition is its own
					r.sleep(time.Second)
					r.replicas[r.owner("page0")].PagesChanged([]string{"page0"})
				}
				r.sleep(2 * time.Second)
				if told := r.told(); len(told) != 1 || told[0].Reason != message.FeedbackResumed || told[0].Page != "page0" {
					t.Errorf("core was told %+v, want once that the page is resumed", told)
				}
			})
		})
	}
}

// What core cannot be told now, because its queue takes nothing, it is told later.
func TestNewsAreKept(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.only().link.with(func(l *link) {
			l.refuse = func(_, name string) error {
				if r.top.IsInbound(name) {
					return queue.ErrRefused
				}
				return nil
			}
		})
		r.only().inspect(func(e *engine) { e.news.add("page0", "ann", time.Now()) })
		r.sleep(5 * time.Second)
		if n := len(r.told()); n != 0 {
			t.Fatalf("told %d times, want 0", n)
		}
		r.only().link.with(func(l *link) { l.refuse = nil })
		r.sleep(2 * time.Second)
		if told := r.told(); len(told) != 1 || told[0].User != "ann" {
			t.Errorf("told %+v, want once of ann", told)
		}
	})
}

// A replica that owned a page, suspended it and lost it to another one knows nothing of
// it when it owns the page again: it may be right by then.
func TestSuspendedElsewhere(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, nil, func(t *testing.T, r *rig) {
		r.script(blocked)
		r.text("page0", "ann", "bob")
		r.sleep(time.Second)
		first := r.replicas[r.owner("page0")]
		if n := first.suspended(); n != 1 {
			t.Fatalf("%d pages are suspended, want the one: nothing is tested", n)
		}
		r.script(nil)
		first.stepBack()
		r.sleep(5 * time.Second)
		r.text("page0", "ann")
		r.sleep(time.Second)
		second := r.replicas[r.owner("page0")]
		if second == first {
			t.Fatal("the partition did not move: nothing is tested")
		}
		r.stop(second)
		r.sleep(5 * time.Second)
		ids := r.text("page0", "ann")
		r.sleep(5 * time.Second)
		if r.accepted[ids[0]] != 1 {
			t.Error("the page is still suspended where it was once")
		}
	})
}

// A replica that lost a partition while it held nothing of it is not told so. When it owns
// that again it asks whether the page is still suspended: another one may have sent for it.
func TestSuspendedWhileQuiet(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		pages := []string{"page0", "page1", "page2", "page3", "page4", "page5"}
		write := func(pages []string) (ids []string) {
			for _, page := range pages {
				ids = append(ids, r.text(page, "ann")...)
			}
			r.sleep(6 * time.Second)
			return ids
		}
		r.script(func(message.Outbound, int) sender.Result { return fail(sender.PageStopped) })
		for range 9 { // until the pause is longer than this goes on
			write(pages)
			r.sleep(5 * time.Minute)
		}
		r.start(1, nil)
		r.sleep(20 * time.Second)
		r.script(nil)
		write(pages)
		var moved []string
		for _, page := range pages {
			if r.owner(page) == 1 {
				moved = append(moved, page)
			}
		}
		if len(moved) == 0 {
			t.Fatal("no partition has moved: nothing is tested")
		}
		r.stop(r.replicas[1])
		r.sleep(6 * time.Second)
		for _, id := range write(moved) {
			if r.accepted[id] != 1 {
				t.Errorf("%s was not sent: its page is well", id)
			}
		}
	})
}

// A replica that takes another slot may lose partitions by that. What it knew of their pages
// is forgotten; where its priority is higher now they come back, and it is kept.
func TestSuspendedAndAnotherSlot(t *testing.T) {
	t.Parallel()
	for _, by := range []int{-1, 1} {
		inBubble(t, 1, nil, func(t *testing.T, r *rig) {
			r.script(func(message.Outbound, int) sender.Result { return fail(sender.PageStopped) })
			r.text("page0", "ann", "bob")
			r.sleep(200 * time.Millisecond)
			p := r.only()
			if n := p.suspended(); n != 1 {
				t.Fatalf("%d pages are suspended, want the one: nothing is tested", n)
			}
			if by < 0 {
				r.script(nil)
			}
			p.inspect(func(e *engine) {
				next := e.standing.Place
				next.Ranks = slices.Clone(next.Ranks)
				for i := range next.Ranks {
					next.Ranks[i] += by
				}
				next.Sub = nil
				e.standing.enter(next, true)
			})
			r.sleep(5 * time.Second)
			if n, want := p.suspended(), max(0, by); n != want {
				t.Errorf("suspended pages with priorities changed by %d = %d, want %d", by, n, want)
			}
		})
	}
}

// Calls that are refused late, when a probe may be due already, have no dead message.
func TestSlowRefusal(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		start := time.Now()
		r.latency = func(o message.Outbound) time.Duration {
			if o.To == "g-0" {
				return time.Second
			}
			return 11500 * time.Millisecond
		}
		r.script(func(message.Outbound, int) sender.Result {
			if time.Since(start) < 30*time.Second {
				return fail(sender.PageStopped)
			}
			return sender.Result{}
		})
		r.text("page0", guests("g", 3)...)
		r.sleep(2 * time.Minute)
		if n := len(r.dead()); n > 0 {
			t.Errorf("%d messages are dead, want none", n)
		}
		r.inversions = nil
	})
}

// A permission that one person lacks is no page's: that person's messages are tried
// again, and are dead alone. Where a second person gets the same answer, and nobody
// is sent anything, the page waits.
func TestNotAllowed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		who  int // of 20
		page bool
	}{
		{"one person", 1, false},
		{"two of twenty", 2, false},
		{"everybody", 20, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, nil, func(t *testing.T, r *rig) {
				denied := guests("g", 20)[:row.who]
				all := true
				r.script(func(o message.Outbound, _ int) sender.Result {
					if all && slices.Contains(denied, o.To) {
						return sender.Result{Outcome: sender.NotAllowed, Status: 400, Code: 10, Err: errors.New("not allowed")}
					}
					return sender.Result{}
				})
				every(time.Second, 2*time.Minute, func(int) { r.text("page0", guests("g", 20)...) })
				if n := r.only().suspended(); (n == 1) != row.page {
					t.Errorf("suspended pages = %d, want the page: %v", n, row.page)
				}
				if calls := len(r.callsOf("page0")); row.page && calls > 100 {
					t.Errorf("%d calls of a page that may not send, want at most 100", calls)
				}
				r.with(func() { all = !row.page })
				r.sleep(5 * time.Minute)
				for _, id := range r.published {
					if isDenied := slices.ContainsFunc(denied, func(g string) bool { return strings.HasPrefix(id, "page0/"+g+"#") }); r.accepted[id] != 1 && (row.page || !isDenied) {
						t.Fatalf("%s was accepted %d times", id, r.accepted[id])
					}
				}
				r.inversions = nil // after a wait in the retry queue
				for id, d := range r.dead() {
					if row.page || d.Reason == message.ReasonPageStopped {
						t.Fatalf("%s is dead as %s", id, d.Reason)
					}
				}
			})
		})
	}
}

// Messages of a page without a token wait some minutes for it; then they are
// dead. No call is made for them. The page is resumed when its token comes.
func TestNoToken(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		after time.Duration
		dead  bool
	}{
		{"a token after ten seconds", 10 * time.Second, false},
		{"a token after four minutes", 4 * time.Minute, false},
		{"a token after ten minutes", 10 * time.Minute, true},
		{"a token after two hours", 2 * time.Hour, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var file tokens
			inBubble(t, 1, file.config, func(t *testing.T, r *rig) {
				file.lack("page0")
				every(time.Second, 5*time.Second, func(int) { r.text("page0", guests("u", 10)...) })
				r.sleep(row.after - 5*time.Second)
				if n := len(r.dead()); (n == 50) != row.dead || !row.dead && n > 0 {
					t.Errorf("dead letters = %d, want all: %v", n, row.dead)
				}
				if row.after > time.Hour {
					r.text("page0", guests("u", 10)...)
					r.sleep(tokenPatience + 2*time.Second)
					if n := len(r.dead()); n != 10 {
						t.Errorf("dead letters of two hours later = %d, want 10", n)
					}
				}
				if n := len(r.callsOf("page0")); n > 0 {
					t.Errorf("%d calls without a token, want none", n)
				}
				file.lack()
				r.only().PagesChanged([]string{"page0"})
				last := r.text("page0", guests("u", 10)...)
				r.sleep(time.Minute)
				for _, id := range last {
					if r.accepted[id] != 1 {
						t.Fatalf("%s was accepted %d times once the token was there", id, r.accepted[id])
					}
				}
				if !row.dead {
					r.checkSentOnce()
				}
			})
		})
	}
}
