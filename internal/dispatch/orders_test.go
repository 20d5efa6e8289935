package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// give gives an order about a page.
func (r *rig) give(kind orders.Kind, page string, change func(*orders.Order)) {
	r.t.Helper()
	o := orders.Order{Kind: kind, Page: page, Time: time.Now().UnixMilli()}
	if change != nil {
		change(&o)
	}
	if err := orders.Give(context.Background(), r.broker, o); err != nil {
		r.t.Fatal(err)
	}
}

// A paused page is sent nothing, on whichever replica; its messages wait in order, none is
// dead of its age, and its neighbours are served as ever. It goes on when it is resumed, or
// when the pause ends.
func TestPausedPage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		length  time.Duration
		waiting int  // messages that come meanwhile, to as many people
		resumed bool // and not ended by its own time
		restart bool // all replicas meanwhile
	}{
		{"a moment", 20 * time.Second, 10, true, false},
		{"few messages for hours", 3 * time.Hour, 20, true, false},
		{"many messages", 10 * time.Minute, 3000, true, false},
		{"until it ends", 10 * time.Minute, 300, false, false},
		{"over a restart", 10 * time.Minute, 300, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 2, nil, func(t *testing.T, r *rig) {
				neighbour := r.peers(2)
				page, other := neighbour[0], neighbour[1]
				r.text(page, "ann")
				r.sleep(time.Second)
				r.give(orders.Pause, page, func(o *orders.Order) {
					if !row.resumed {
						o.Until = time.Now().Add(row.length).UnixMilli()
					}
				})
				r.sleep(100 * time.Millisecond)
				calls := len(r.callsOf(page))
				for i := range row.waiting {
					r.text(page, fmt.Sprint("u", i%500))
				}
				for left := row.length; left > 0; left -= row.length / 10 {
					r.text(other, "bob")
					r.sleep(row.length / 10)
					if row.restart && left == row.length {
						for _, p := range r.replicas {
							r.stop(p)
						}
						r.start(2, nil)
					}
					if n := len(r.callsOf(page)); n != calls && left > row.length/10 {
						t.Fatalf("%d calls for a paused page", n-calls)
					}
				}
				if row.resumed {
					r.give(orders.Resume, page, nil)
				}
				r.sleep(2*time.Second + time.Duration(row.waiting)*10*time.Millisecond)
				r.checkSentOnce()
				if n := len(r.dead()); n != 0 {
					t.Errorf("%d messages are dead, want none", n)
				}
				if most := quantile(r.waits(other), 1); !row.restart && most > 3*time.Second {
					t.Errorf("the neighbour waited up to %v", most)
				}
			})
		})
	}
}

// lateBroker does not say what is ordered before its time. It is silent until then, if that is set.
type lateBroker struct {
	*link
	until  time.Time
	silent bool
}

func (b lateBroker) IsSilent() bool { return b.silent && time.Now().Before(b.until) }

func (b lateBroker) Publish(ctx context.Context, msgs ...queue.Message) error {
	if msgs[0].Queue == b.Topology().Orders() {
		select {
		case <-time.After(time.Until(b.until)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return b.link.Publish(ctx, msgs...)
}

// A dispatcher waits for the orders however long the broker takes to be there, and warns of
// nothing. If the broker is there and does not say what is ordered, it sends after 3 s.
func TestOrdersAtTheStart(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		silent bool
		first  time.Duration // when the first message is sent
		warns  int
	}{
		{"the broker is late", true, 10 * time.Second, 0},
		{"the broker does not say", false, ordersTime, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			var log bytes.Buffer
			began := time.Now()
			r.text("page0", "ann")
			r.start(1, func(c *Config) {
				c.Broker = lateBroker{c.Broker.(*link), began.Add(10 * time.Second), row.silent}
				c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			})
			r.sleep(15 * time.Second)
			r.checkSentOnce()
			if after := r.callsOf("page0")[0].at.Sub(began); after < row.first || after > row.first+2*time.Second {
				t.Errorf("%s: the first call was made after %v, want %v or soon after", row.name, after, row.first)
			}
			r.end()
			if n := strings.Count(log.String(), "level=WARN"); n != row.warns {
				t.Errorf("%s: the log has %d lines, want %d:\n%s", row.name, n, row.warns, &log)
			}
		})
	}
}

// A message with a deadline is dead behind it, though its page is paused.
func TestDeadlineInPause(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.give(orders.Pause, "page0", nil)
		o := r.copyOf("page0", message.ClassText, "ann")
		o.Deadline = time.Now().Add(time.Minute).UnixMilli()
		r.publish(o)
		r.sleep(2 * time.Minute)
		r.give(orders.Resume, "page0", nil)
		r.sleep(2 * time.Second)
		if d := r.dead(); len(d) != 1 || d[o.ID].Reason != message.ReasonExpired {
			t.Errorf("dead = %+v, want the message, expired", d)
		}
	})
}

// A page's limit is changed by an order while it is saturated: it is in force within two
// seconds, on whichever replica, also after a restart; other pages keep theirs.
func TestOrderedLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(c *Config) {
		c.Limits = func(page string) message.Limits {
			if page == "page0" {
				return message.Limits{Text: 100, Media: 10}
			}
			return message.Limits{Text: 300, Media: 10}
		}
	}, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 1_000_000 }
		r.text("page0", guests("u", 4_000)...)
		r.text("page1", guests("u", 15_000)...)
		rates := func(when string, want0, want1 float64) {
			t.Helper()
			r.sleep(2 * time.Second)
			from := time.Now()
			const length = 4 * time.Second
			r.sleep(length)
			n := map[string]float64{}
			for _, c := range r.between(from, time.Now()) {
				n[c.out.Page]++
			}
			for page, want := range map[string]float64{"page0": want0, "page1": want1} {
				if got := n[page] / length.Seconds(); got > want || got < 0.9*want {
					t.Errorf("%s: %s has %v calls a second, want nearly %v", when, page, got, want)
				}
			}
		}
		rates("by the configuration", 100, 300)
		limit := func(l message.Limits) {
			r.give(orders.Limit, "page0", func(o *orders.Order) { o.Limits = l })
		}
		limit(message.Limits{Text: 50})
		rates("by an order", 50, 300)
		r.give(orders.Limit, "page1", func(o *orders.Order) { o.Limits = message.Limits{Text: 500} })
		rates("a second page", 50, 500)
		for _, p := range r.replicas {
			r.stop(p)
		}
		r.start(1, nil)
		rates("after a restart", 50, 500)
		limit(message.Limits{})
		rates("without the order", 300, 500)
	})
}

// A page that cannot be sent to makes room for its partition's others, also when what came
// first of it is an answer, which passes its lane.
func TestAnswerBeforeCopiesOfAPausedPage(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 512 }, func(t *testing.T, r *rig) {
		pages := r.peers(2)
		r.know(pages[0])
		r.give(orders.Pause, pages[0], nil)
		r.sleep(100 * time.Millisecond)
		r.answerTo(pages[0], "ann")
		r.text(pages[0], guests("g", 2000)...)
		every(time.Second, time.Minute, func(int) { r.text(pages[1], "bob") })
		if w := quantile(r.waits(pages[1]), 1); w > 100*time.Millisecond || len(r.waits(pages[1])) != 60 {
			t.Errorf("%d of 60 messages of the other page arrived, after %v at most, want all within 100 ms", len(r.waits(pages[1])), w)
		}
		r.give(orders.Resume, pages[0], nil)
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// A message for a later time waits on the broker, and is sent then, as a new one.
func TestNotBefore(t *testing.T) {
	t.Parallel()
	rows := []time.Duration{500 * time.Millisecond, 15 * time.Second, 90 * time.Minute, 26 * time.Hour, 7 * 24 * time.Hour}
	if testing.Short() { // hours are as a week
		rows = rows[:4]
	}
	for _, ahead := range rows {
		inBubble(t, 1, nil, func(t *testing.T, r *rig) {
			o := r.copyOf("page0", message.ClassText, "ann")
			o.NotBefore = time.Now().Add(ahead).UnixMilli()
			now := time.Now()
			r.publish(o)
			r.text("page0", "ann") // which waits for none of it
			r.sleep(100 * time.Millisecond)
			if held := r.only().held(); held != 0 || len(r.callsOf("page0")) != 1 {
				t.Errorf("%v ahead: %d messages are held after %d calls, want none after one", ahead, held, len(r.callsOf("page0")))
			}
			r.sleep(ahead - 200*time.Millisecond)
			if n := r.accepted[o.ID]; n != 0 {
				t.Errorf("%v ahead: it was sent before", ahead)
			}
			r.sleep(2 * time.Second)
			if n := r.accepted[o.ID]; n != 1 {
				t.Errorf("%v ahead: sent %d times %v after it was published, want once", ahead, n, time.Since(now))
			}
			if n := len(r.dead()); n != 0 {
				t.Errorf("%v ahead: %d messages are dead", ahead, n)
			}
		})
	}
}

// held returns the number of messages that a replica holds.
func (p *replica) held() (n int) {
	p.inspect(func(e *engine) { n = e.pages.inHand })
	return n
}

// With a limit for one person, by the configuration or an order, calls to that person are
// so far apart, in order; others do not wait for that, and texts that do go out as one.
func TestRecipientLimit(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{false, true} {
		inBubble(t, 1, func(c *Config) {
			if !ordered {
				c.Limits = func(string) message.Limits { return message.Limits{Text: 300, Media: 10, Recipient: 0.5} }
			}
		}, func(t *testing.T, r *rig) {
			if ordered {
				r.give(orders.Limit, "page0", func(o *orders.Order) { o.Limits.Recipient = 0.5 })
			}
			r.know("page0")
			r.sleep(5 * time.Second)
			for range 20 {
				r.text("page0", "ann")
			}
			others := r.text("page0", guests("u", 100)...)
			r.sleep(time.Second)
			for _, id := range others {
				if r.accepted[id] != 1 {
					t.Fatalf("%s was not accepted within a second", id)
				}
			}
			r.sleep(20 * time.Second)
			r.checkSentOnce()
			var last time.Time
			n := 0
			for _, c := range r.callsOf("page0") {
				if c.out.To != "ann" {
					continue
				}
				if gap := c.at.Sub(last); gap < 2*time.Second {
					t.Errorf("a call to the same person after %v, want 2 s at least", gap)
				}
				last = c.at
				n++
			}
			if n < 3 || n > 5 {
				t.Errorf("%d calls for 20 texts, want them joined", n)
			}
		})
	}
}

// The limit for one person holds for messages that come back from a retry queue, too: two of
// three calls fail.
func TestRecipientLimitOfRetries(t *testing.T) {
	t.Parallel()
	for _, limit := range []float64{0.05, 0.2, 1} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(c *Config) {
				c.Limits = func(string) message.Limits { return message.Limits{Text: 300, Media: 10, Recipient: limit} }
			}, func(t *testing.T, r *rig) {
				random := rand.New(rand.NewPCG(1, 3))
				r.script(func(message.Outbound, int) sender.Result {
					if random.IntN(3) > 0 {
						return fail(sender.Transient)
					}
					return sender.Result{}
				})
				every(7*time.Second, 10*time.Minute, func(int) { r.text("page0", "a", "b") })
				r.script(nil)
				r.sleep(20 * time.Minute)
				gap := time.Duration(float64(time.Second) / limit)
				last, rounds, short := make(map[string]time.Time), 0, 0
				for _, c := range r.callsOf("page0") {
					since := c.at.Sub(last[c.out.To])
					if since < gap {
						short++
					}
					if c.out.Attempts >= triesHere && since < gap+time.Second {
						rounds++ // it came from a retry queue, and the limit made it wait, or nearly
					}
					last[c.out.To] = c.at
				}
				if short > 0 {
					t.Errorf("%d of %d calls came less than %v after the one before", short, len(r.callsOf("page0")), gap)
				}
				if limit == 0.05 && rounds == 0 {
					t.Error("no message from a retry queue waited for the limit: nothing is tested")
				}
				r.checkEmpty()
			})
		})
	}
}

// A paused page with many messages shares its lane with others: these go on.
func TestPausedPageOfASharedLane(t *testing.T) {
	t.Parallel()
	for _, answer := range []bool{false, true} { // what comes first of it is an answer
		inBubble(t, 1, func(c *Config) { c.Prefetch, c.LanePrefetch = 512, 1024 }, func(t *testing.T, r *rig) {
			pages, share := r.sharing()
			paused := share[0]
			r.give(orders.Pause, paused, nil)
			r.sleep(100 * time.Millisecond)
			if answer {
				r.answerTo(paused, "somebody")
			}
			r.sleep(2 * time.Minute)
			for _, page := range pages {
				if n := len(r.waits(page)); page != paused && n != 1500 {
					t.Errorf("%d of 1,500 messages of %s arrived beside a paused page; an answer: %v", n, page, answer)
				}
			}
			r.give(orders.Resume, paused, nil)
			r.sleep(2 * time.Minute)
			r.inversions = nil // the price for the page that is paused
			r.checkSentOnce()
		})
	}
}

// Many pages that take no calls do not fill their partition together, nor a lane: a page
// beside them is sent for.
func TestManyPausedPages(t *testing.T) {
	t.Parallel()
	texts := func(r *rig, page string, to ...string) { r.text(page, to...) }
	for _, row := range []struct {
		name        string
		pages, each int
		publish     func(r *rig, page string, to ...string)
		late        bool // they are paused once they were tried
		well        int  // texts of the page that is well
		within      time.Duration
	}{
		{"in the partition", 40, 8, texts, false, 1, 3 * time.Second},
		{"answers", 40, 8, func(r *rig, page string, to ...string) { r.answerTo(page, to...) }, false, 1, 3 * time.Second},
		{"tried before", 40, 8, texts, true, 1, 3 * time.Second},
		{"in a lane", 24, 120, texts, false, 600, 30 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(c *Config) { c.Prefetch, c.LanePrefetch = 256, MinLanePrefetch }, func(t *testing.T, r *rig) {
				pages := r.peers(row.pages + 1)
				pause := func() {
					for _, page := range pages[1:] {
						r.give(orders.Pause, page, nil)
					}
				}
				if !row.late {
					pause()
				}
				r.script(func(o message.Outbound, _ int) sender.Result {
					if o.Page != pages[0] {
						return fail(sender.PageThrottled)
					}
					return sender.Result{}
				})
				r.sleep(time.Second)
				for _, page := range pages[1:] {
					row.publish(r, page, guests("g", row.each)...)
				}
				r.sleep(100 * time.Millisecond)
				if row.late {
					pause()
				}
				r.sleep(30 * time.Second)
				ids := r.text(pages[0], guests("u", row.well)...)
				r.sleep(row.within)
				missing := 0
				for _, id := range ids {
					if r.accepted[id] == 0 {
						missing++
					}
				}
				if missing > 0 {
					t.Errorf("%d of %d texts of the page that is well did not arrive within %v", missing, len(ids), row.within)
				}
			})
		})
	}
}

// Of a page for which nothing is sent there is no arrival, also where nothing of it waits. Nor is
// there one while nothing can be published.
func TestNoArrivalWhilePaused(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.text("page0", "ann")
		r.sleep(time.Second)
		arrival := func() *Arrival {
			s, err := r.only().status(t.Context())
			if err != nil || len(s.Pages) != 1 {
				t.Fatalf("status = %+v, %v, want one page", s, err)
			}
			return s.Pages[0].Arrival
		}
		if arrival() == nil {
			t.Error("a page that is sent for has no arrival")
		}
		r.replicas[0].link.with(func(l *link) { l.alarm = true })
		if a := arrival(); a != nil {
			t.Errorf("arrival while the broker takes no messages = %+v, want none", a)
		}
		r.replicas[0].link.with(func(l *link) { l.alarm = false })
		r.give(orders.Pause, "page0", nil)
		r.sleep(time.Second)
		if a := arrival(); a != nil {
			t.Errorf("arrival while it is paused = %+v, want none", a)
		}
	})
}
