package dispatch

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/sender"
)

// tokens is a pages file in which some pages lack their token.
type tokens struct {
	lacking atomic.Pointer[map[string]bool]
}

// lack has these pages lack their token, and no others.
func (f *tokens) lack(pages ...string) {
	lacking := make(map[string]bool, len(pages))
	for _, page := range pages {
		lacking[page] = true
	}
	f.lacking.Store(&lacking)
}

// config has a dispatcher ask the file.
func (f *tokens) config(c *Config) {
	f.lack()
	c.LacksToken = func(page string) bool { return (*f.lacking.Load())[page] }
}

// moves returns how often messages were put on lanes and retry queues, by all replicas.
func (r *rig) moves() (lanes, delayed int) {
	for _, p := range r.replicas {
		lanes += int(testutil.ToFloat64(p.metrics.overflowed))
		delayed += int(testutil.ToFloat64(p.metrics.delayed))
	}
	return lanes, delayed
}

// crowd is messages of pages without a token.
type crowd struct {
	pages, each int // pages, and messages of each to two people
}

func (c crowd) String() string { return fmt.Sprintf("%d pages with %d", c.pages, c.each) }

// crowds are few and many; -short has fewer.
func crowds() []crowd {
	if testing.Short() {
		return []crowd{{1, 1}, {1000, 1}, {1, 3000}, {1000, 3}}
	}
	return []crowd{{1, 1}, {1000, 1}, {10_000, 1}, {1, 10_000}, {3000, 3}}
}

// andMore adds a crowd that nothing is sent for: that many pages with tokens take minutes.
func andMore(list []crowd) []crowd {
	if testing.Short() {
		return list
	}
	return append(list, crowd{60_000, 1})
}

// write publishes all messages of the pages.
func (c crowd) write(r *rig, pages []string) {
	for i := range c.each {
		for _, page := range pages {
			r.text(page, fmt.Sprint("to", i%2))
		}
	}
}

// beside has a page with a token be written to ten times a second for so long, and wants
// 99 of 100 of that to arrive within a second.
func (r *rig) beside(t *testing.T, page string, d time.Duration) {
	t.Helper()
	before := len(r.waits(page))
	every(100*time.Millisecond, d, func(i int) { r.text(page, fmt.Sprint("well", i%10)) })
	r.sleep(time.Second)
	w := r.waits(page)
	if n := int(d / (100 * time.Millisecond)); len(w)-before != n || quantile(w, 0.99) > time.Second {
		t.Errorf("%d of %d messages of a page with a token arrived, 99 of 100 after %v, want all, after 1s at most", len(w)-before, n, quantile(w, 0.99))
	}
}

// acceptedBut returns how many messages were accepted but for those of a page, and whether one
// was twice.
func (r *rig) acceptedBut(page string) (n int, twice bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, times := range r.accepted {
		if !strings.HasPrefix(id, page+"/") {
			n += times
			twice = twice || times > 1
		}
	}
	return n, twice
}

// Pages without a token, however many, delay no other page of their partition. Their
// messages go to a lane at most once, cost no call, and are dead after five minutes; core is
// told of each page.
func TestPagesWithoutAToken(t *testing.T) {
	t.Parallel()
	for _, c := range andMore(crowds()) {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			var file tokens
			inBubble(t, 1, file.config, func(t *testing.T, r *rig) {
				pages := r.peers(c.pages + 1)
				file.lack(pages[1:]...)
				r.know(pages[0])
				c.write(r, pages[1:])
				r.beside(t, pages[0], 4*time.Minute+50*time.Second)
				if n := len(r.dead()); n > 0 {
					t.Errorf("%d messages are dead before five minutes, want none", n)
				}
				r.beside(t, pages[0], time.Minute)
				dead := r.dead()
				if all := c.pages * c.each; len(dead) != all {
					t.Errorf("%d messages are dead, want %d", len(dead), all)
				}
				for id, d := range dead {
					if d.Reason != message.ReasonPageStopped {
						t.Fatalf("%s is dead as %s, want %s", id, d.Reason, message.ReasonPageStopped)
					}
				}
				if lanes, delayed := r.moves(); lanes > c.pages*c.each || delayed > 0 {
					t.Errorf("%d moves to lanes and %d to retry queues of %d messages, want one each at most, and none", lanes, delayed, c.pages*c.each)
				}
				told := r.told()
				if len(told) < c.pages || len(told) > c.pages+2 {
					t.Errorf("core was told %d times, want once for each of %d pages", len(told), c.pages)
				}
				if n, _ := r.acceptedBut(pages[0]); n > 0 {
					t.Errorf("%d messages without a token were sent", n)
				}
				r.checkEmpty()
			})
		})
	}
}

// Once the pages file has the tokens all that waits is sent, once and in order; so it is
// where the partition has changed hands meanwhile, and where nobody tells of the file.
func TestTokensCome(t *testing.T) {
	t.Parallel()
	for _, c := range crowds() {
		for _, row := range []struct {
			name           string
			handOver, told bool
		}{{"told", false, true}, {"not told", false, false}, {"hand-over", true, true}} {
			t.Run(c.String()+" "+row.name, func(t *testing.T) {
				t.Parallel()
				var file tokens
				replicas := 1
				if row.handOver {
					replicas = 2
				}
				inBubble(t, replicas, file.config, func(t *testing.T, r *rig) {
					pages := r.peers(c.pages + 1)
					file.lack(pages[1:]...)
					r.know(pages[0])
					c.write(r, pages[1:])
					r.sleep(time.Minute)
					if row.handOver {
						r.stop(r.replicas[r.owner(pages[0])])
					}
					r.sleep(time.Minute)
					file.lack()
					markers := 0
					for _, p := range r.replicas {
						p.link.with(func(l *link) {
							l.dies = func(op, _ string) bool {
								if op == "marker" {
									r.with(func() { markers++ })
								}
								return false
							}
						})
					}
					if row.told {
						for _, p := range r.replicas {
							if !p.ended {
								p.PagesChanged(pages[1:])
							}
						}
					}
					for _, page := range pages[1:min(len(pages), 1000)] {
						r.text(page, "to0", "to1")
					}
					r.sleep(3 * time.Minute)
					r.checkSentOnce()
					if n := len(r.dead()); n > 0 {
						t.Errorf("%d messages are dead, want none", n)
					}
					if _, delayed := r.moves(); delayed > 0 {
						t.Errorf("%d moves to retry queues, want none", delayed)
					}
					r.sleep(time.Minute)
					if lanes := r.lanesOf(pages[1]); len(lanes) > 0 {
						t.Errorf("the page still has %q", lanes)
					}
					r.with(func() {
						if most := 2 * 10; markers > most { // each is counted before and after
							t.Errorf("%d markers for the pages of one lane, want at most 10", markers/2)
						}
					})
				})
			})
		}
	}
}

// A hand-over does not prolong the wait, and neither loses nor doubles anything.
func TestTokenlessHandOver(t *testing.T) {
	t.Parallel()
	for _, c := range andMore(crowds()) {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			var file tokens
			inBubble(t, 2, file.config, func(t *testing.T, r *rig) {
				pages := r.peers(c.pages + 1)
				file.lack(pages[1:]...)
				r.know(pages[0])
				c.write(r, pages[1:])
				r.sleep(time.Minute)
				r.stop(r.replicas[r.owner(pages[0])])
				r.beside(t, pages[0], 3*time.Minute+50*time.Second)
				if n := len(r.dead()); n > 0 {
					t.Errorf("%d messages are dead before five minutes, want none", n)
				}
				r.sleep(time.Minute)
				if n, all := len(r.dead()), c.pages*c.each; n != all { // dead fails where one is so twice
					t.Errorf("%d messages are dead, want %d", n, all)
				}
				r.checkEmpty()
			})
		})
	}
}

// A page that the file loses: what waits of it, broadcasts and answers too, has five
// minutes from then on, whatever its age, and is sent once the token is back. So it is while
// operators pause the page.
func TestTokenIsLost(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name       string
		lack, wait time.Duration // after wait the page has lost its token, for lack
		pause      time.Duration // from a minute after that
		dead       bool
	}{
		{"a minute", time.Minute, time.Second, 0, false},
		{"four minutes, of what is old", 4 * time.Minute, 20 * time.Minute, 0, false},
		{"seven minutes", 7 * time.Minute, time.Second, 0, true},
		{"an hour, with a pause", time.Hour, time.Second, 57 * time.Minute, false},
		{"two hours, with a pause", 2 * time.Hour, time.Second, 57 * time.Minute, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var file tokens
			inBubble(t, 1, func(c *Config) { file.config(c); c.MessageTTL = 5 * time.Hour }, func(t *testing.T, r *rig) {
				pages := r.peers(2)
				r.know(pages[0])
				r.know(pages[1])
				r.fails(pages[1], sender.PageThrottled)
				r.text(pages[1], guests("a", 1000)...)
				r.answerTo(pages[1], guests("b", 10)...)
				r.sleep(row.wait)
				file.lack(pages[1])
				r.only().PagesChanged([]string{pages[1]})
				r.sleep(time.Minute)
				if row.pause > 0 {
					r.give(orders.Pause, pages[1], func(o *orders.Order) { o.Until = time.Now().Add(row.pause).UnixMilli() })
				}
				r.neighbour(t, pages[0], 20)
				r.sleep(row.lack - time.Minute - 21*time.Second)
				r.script(nil)
				file.lack()
				r.only().PagesChanged([]string{pages[1]})
				r.sleep(3 * time.Minute)
				if n := len(r.dead()); n > 0 != row.dead || row.dead && n != 1010 {
					t.Errorf("%d messages are dead, want all: %v", n, row.dead)
				}
				if !row.dead {
					r.checkSentOnce()
				}
			})
		})
	}
}

// A dispatcher that starts, perhaps with a file that lacks pages by mistake, makes nothing
// dead at once of what is old.
func TestTokenlessAfterARestart(t *testing.T) {
	t.Parallel()
	var file tokens
	inBubble(t, 1, file.config, func(t *testing.T, r *rig) {
		r.stop(r.only())
		r.text("page0", guests("a", 500)...)
		r.sleep(20 * time.Minute)
		r.start(1, func(c *Config) { file.config(c); file.lack("page0") })
		r.sleep(4*time.Minute + 50*time.Second)
		if n := len(r.dead()); n > 0 {
			t.Errorf("%d messages are dead within five minutes of the start, want none", n)
		}
		r.sleep(time.Minute)
		if n := len(r.dead()); n != 500 {
			t.Errorf("%d messages are dead after six minutes, want 500", n)
		}
	})
}

// Broadcasts to a page without a token wait with the rest, and do not go round.
func TestBroadcastWithoutAToken(t *testing.T) {
	t.Parallel()
	var file tokens
	inBubble(t, 1, file.config, func(t *testing.T, r *rig) {
		pages := r.peers(2)
		file.lack(pages[1])
		r.know(pages[0])
		r.broadcast(pages[1], time.Hour, guests("b", 3000)...)
		r.beside(t, pages[0], 2*time.Minute)
		file.lack()
		r.only().PagesChanged(pages[1:])
		r.sleep(time.Minute)
		if _, delayed := r.moves(); delayed > 0 {
			t.Errorf("%d moves to retry queues, want none", delayed)
		}
		r.checkSentOnce()
	})
}

// However many pages lack a token, the log has a line a minute, with their numbers; the
// list, bounded, and the metric have them until their tokens come, and core is told then.
func TestTokenlessAreShown(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var lines []string
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(string(p), "token") {
			lines = append(lines, string(p))
		}
	}), nil))
	var file tokens
	inBubble(t, 1, func(c *Config) { file.config(c); c.Log = log }, func(t *testing.T, r *rig) {
		pages := r.peers(1501)[1:]
		file.lack(pages...)
		for _, page := range pages {
			r.text(page, "ann")
		}
		r.sleep(3*time.Minute - 10*time.Second)
		mu.Lock()
		if len(lines) != 3 || !strings.Contains(lines[2], "level=ERROR") || !strings.Contains(lines[2], "pages=1500 messages=1500 first=") || len(lines[2]) > 500 {
			t.Errorf("the log has %q, want a short line a minute with the numbers", lines)
		}
		lines = nil
		mu.Unlock()
		if err := testutil.GatherAndCompare(r.only().reg, strings.NewReader(`
# HELP chatclub_dispatch_pages_suspended Pages that nothing is sent to: they have no token or permission, or are blocked for a time.
# TYPE chatclub_dispatch_pages_suspended gauge
chatclub_dispatch_pages_suspended 1500
`), "chatclub_dispatch_pages_suspended"); err != nil {
			t.Error(err)
		}
		s, err := r.only().status(t.Context())
		if err != nil || len(s.Suspended) != 1000 || s.Suspended[0].Code != "" || s.Suspended[0].Since.IsZero() || len(s.Pages) > 0 {
			t.Errorf("status has %d suspended pages and %d others, want 1,000 and none: %v", len(s.Suspended), len(s.Pages), err)
		}
		r.sleep(4 * time.Minute) // all are dead
		if n := len(r.told()); n != 1500 {
			t.Errorf("core was told of %d pages, want 1,500", n)
		}
		file.lack(pages[1500-1])
		r.only().PagesChanged(pages[:1499])
		r.sleep(2 * time.Second)
		for _, ev := range r.told() {
			if ev.Reason != message.FeedbackResumed || ev.Page == pages[1499] {
				t.Fatalf("core was told %+v, want that a page is resumed", ev)
			}
		}
		if n := testutil.ToFloat64(r.only().metrics.suspended); n != 1 {
			t.Errorf("suspended pages = %v, want the one that still lacks its token", n)
		}
		mu.Lock()
		if last := lines[len(lines)-1]; !strings.Contains(last, "level=INFO") || !strings.Contains(last, "pages=1499") {
			t.Errorf("the log's last line is %q, want that 1,499 pages have a token again", last)
		}
		mu.Unlock()
		r.sleep(tokenlessKept)
		if n := testutil.ToFloat64(r.only().metrics.suspended); n != 0 {
			t.Errorf("suspended pages = %v an hour after the last message, want none", n)
		}
	})
}
