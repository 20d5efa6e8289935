package core

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/partitions"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

func TestDeadLetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put(t, "p", "1", []byte("{"))
		r.put(t, "p", "0", []byte("["))
		r.put(t, "p", "2", []byte(`{"kind":"message","page":"p","id":"m"}`))
		r.say(t,
			text("a\x00b", "3", "no database takes this"),
			message.Event{Kind: message.KindFeedback, Page: "p", ID: "4", User: "1", Reason: "whim"},
			text("1", "5", "hello"),
		)
		r.handled(t)
		now := time.Now().UTC()
		want := map[string]message.Death{
			"1":   {Reason: message.ReasonUndecodable, Error: "decode event: body is no JSON: unexpected end of JSON input", Queue: "test.inbound.00", Time: now},
			"2":   {Reason: message.ReasonUndecodable, Error: "decode event: user is empty", Queue: "test.inbound.00", Time: now},
			"0":   {Reason: message.ReasonUndecodable, Error: "decode event: body is no JSON: unexpected end of JSON input", Queue: "test.inbound.00", Time: now},
			"p/3": {Reason: message.ReasonBadMessage, Error: "receive event: event cannot be stored: user holds a control character", Queue: "test.inbound.00", Time: now, Page: "p"},
			"p/4": {Reason: message.ReasonBadMessage, Error: `event cannot be stored: feedback reason "whim" is unknown`, Queue: "test.inbound.00", Time: now, Page: "p"},
		}
		got := map[string]message.Death{}
		for _, m := range take(t, r.broker, "test.dead") {
			death, err := message.DeathFromHeaders(m.Headers)
			if err != nil {
				t.Fatal(err)
			}
			got[m.ID] = death
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dead letters: -want +got\n%s", diff)
		}
		wantSent(t, "of the event behind the dead ones", r.sent(t), "1: "+welcomeFirst)
		r.wantQueue(t, "test.inbound.00", 0)
		r.wantMetrics(t, `
			# HELP chatclub_core_dead_total Events moved to the dead-letter queue, by reason.
			# TYPE chatclub_core_dead_total counter
			chatclub_core_dead_total{reason="bad_message"} 2
			chatclub_core_dead_total{reason="undecodable"} 3
		`, "chatclub_core_dead_total")
	})
}

// An event that is for other programs makes no copies and is taken off the queue.
func TestOtherEventIsIgnored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.say(t, message.Event{Kind: message.KindOther, Page: "p", ID: "1", Raw: message.Payload(`{"read":{}}`)})
		r.handled(t)
		wantSent(t, "of an event for others", r.sent(t))
		r.wantQueue(t, "test.inbound.00", 0)
		r.wantQueue(t, "test.dead", 0)
	})
}

func TestFeedback(t *testing.T) {
	t.Parallel()
	for reason, want := range map[message.Reason][]string{
		message.ReasonGone:         {"3: Guest 1: after", "2: Welcome to room 1, Guest 2! You are with 2 others. Everything you write goes to everybody here.", "1: Guest 2: back", "3: Guest 2: back"},
		message.ReasonWindowClosed: {"3: Guest 1: after", "1: Guest 2: back", "3: Guest 2: back"},
		message.ReasonNotOurs:      {"3: Guest 1: after", "1: Guest 2: back", "3: Guest 2: back"},
		message.ReasonFailing:      {"3: Guest 1: after", "1: Guest 2: back", "3: Guest 2: back"},
	} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.say(t, text("1", "a", ""), text("2", "b", ""), text("3", "c", ""))
				r.handled(t)
				r.sent(t)
				back := text("2", "e", "back")
				back.Time = 3
				r.say(t,
					message.Event{Kind: message.KindFeedback, Page: "p", ID: "f", User: "2", Time: 2, Reason: string(reason), Until: at(0).UnixMilli()},
					text("1", "d", "after"),
					back,
				)
				r.store.before = times(2, "gone") // an outage loses no feedback
				stop := r.start(t)
				time.Sleep(time.Minute)
				if err := stop(); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
				wantSent(t, "after feedback", r.sent(t), want...)
				r.wantQueue(t, "test.inbound.00", 0)
			})
		})
	}
}

// TestShutdown checks that an event in progress is finished, that the others are
// handed back in order, and that the end comes in bounded time.
func TestShutdown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		publish time.Duration // how long it takes
		ended   time.Duration // when Run returns, after it was asked to
		left    []string      // ids on the inbound queue afterwards
	}{
		{"in time", 3 * time.Second, 2 * time.Second, []string{"p/b", "p/c"}},
		{"too late", time.Hour, 20 * time.Second, []string{"p/a", "p/b", "p/c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.PublishTimeout = 2 * time.Hour })
				r.flaky.before = func(ctx context.Context, _ []queue.Message) error {
					if !backoff.Sleep(ctx, tt.publish) {
						return errors.Join(queue.ErrUnavailable, ctx.Err())
					}
					return nil
				}
				r.say(t, text("1", "a", "1"), text("2", "b", "2"), text("3", "c", "3"))
				stop := r.start(t)
				time.Sleep(time.Second)
				begin := time.Now()
				if err := stop(); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
				if got := time.Since(begin); got != tt.ended {
					t.Errorf("Run() returned after %v, want %v", got, tt.ended)
				}
				var left []string
				for _, m := range take(t, r.broker, "test.inbound.00") {
					left = append(left, m.ID)
				}
				if diff := cmp.Diff(tt.left, left); diff != "" {
					t.Errorf("events handed back: -want +got\n%s", diff)
				}
			})
		})
	}
}

// TestShutdownWhileAway checks that a core that waits for its database ends at
// once.
func TestShutdownWhileAway(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"migrate", "receive"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.store.before = times(1_000_000, method)
			r.say(t, text("1", "a", "1"))
			stop := r.start(t)
			time.Sleep(time.Minute)
			begin := time.Now()
			if err := stop(); err != nil {
				t.Errorf("Run() while %s fails = %v, want nil", method, err)
			}
			if took := time.Since(begin); took != 0 {
				t.Errorf("Run() while %s fails returned after %v, want at once", method, took)
			}
			r.wantQueue(t, "test.inbound.00", 1)
		})
	}
}

func TestBrokerClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		stop := r.start(t)
		synctest.Wait()
		if err := r.broker.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := stop(); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("Run() on a closed broker = %v, want ErrClosed", err)
		}
	})
}

// deadChannel is the settler of a delivery whose connection is lost.
type deadChannel struct{ t *testing.T }

func (c deadChannel) Ack(uint64) error { c.t.Error("Ack of a stale delivery"); return queue.ErrStale }

func (c deadChannel) Requeue(uint64) error { return c.Ack(0) }

func (deadChannel) Live() bool { return false }

// TestStale checks that a delivery of a lost connection is not settled. Its event
// is delivered again, perhaps to another core.
func TestStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.handled(t) // migrates
		body, err := text("1", "a", "hello").Encode()
		if err != nil {
			t.Fatal(err)
		}
		r.core.pages = newPages(1, 1)
		d := queue.NewDelivery(r.broker, deadChannel{t}, 1, queue.Message{Queue: "test.inbound.00", ID: "p/a", Body: body}, false)
		r.core.pages.add(inbound{claim: new(partitions.Claim), delivery: d, event: text("1", "a", "hello")})
		go r.core.work(t.Context(), t.Context())
		synctest.Wait()
		r.core.pages.close()
		if got := testutil.ToFloat64(r.core.metrics.stale); got != 1 {
			t.Errorf("stale deliveries = %v, want 1", got)
		}
		wantSent(t, "of a stale delivery", r.sent(t))
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := Config{Broker: r.broker, Store: r.store}
	for name, change := range map[string]func(*Config){
		"Broker": func(c *Config) { c.Broker = nil },
		"Store":  func(c *Config) { c.Store = nil },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New with a wrong %s = %v, want an error that names it", name, err)
		}
	}
}

// uncounted is a store that counts no audiences, for tests of many hours.
type uncounted struct{ Store }

func (uncounted) CountAudiences(context.Context) error { return nil }

// TestPrune checks that events are recognised for a day.
func TestPrune(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, newBroker(t), uncounted{newStore(t, "sqlite::memory:")})
		stop := r.start(t)
		r.say(t, text("1", "a", "hello"))
		time.Sleep(23 * time.Hour)
		r.say(t, text("1", "a", "hello"))
		synctest.Wait()
		if got := testutil.ToFloat64(r.core.metrics.repeated); got != 1 {
			t.Errorf("repeated events within a day = %v, want 1", got)
		}
		time.Sleep(2 * time.Hour)
		r.say(t, text("1", "a", "hello"))
		synctest.Wait()
		if got := testutil.ToFloat64(r.core.metrics.repeated); got != 1 {
			t.Errorf("repeated events after more than a day = %v, want still 1", got)
		}
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// TestPruneAgain checks that a pruning that failed is tried again within seconds, and
// then at its time.
func TestPruneAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var mu sync.Mutex
		var tries []time.Duration
		begin := time.Now()
		r.store.before = func(method string) error {
			if method != "prune" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			tries = append(tries, time.Since(begin))
			if len(tries) < 4 {
				return errAway
			}
			return nil
		}
		want := func(what string, n int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if len(tries) != n || tries[3] > 5*time.Second {
				t.Errorf("tries %s = %v, want %d, four of them within 5 s", what, tries, n)
			}
		}
		stop := r.start(t)
		time.Sleep(pruneEvery - time.Second)
		want("at first", 4)
		time.Sleep(6 * time.Second)
		want("after a while", 5)
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		if got := testutil.ToFloat64(r.core.metrics.failures[stepPrune]); got != 3 {
			t.Errorf("failed prunings = %v, want 3", got)
		}
	})
}

// wrongClock is a store that finds this machine's clock wrong.
type wrongClock struct {
	Store
	err error
}

func (c wrongClock) CheckClock(context.Context) error { return c.err }

// TestWrongClock checks that a core whose clock is ahead forgets nothing, sends no member
// away, and says so once for each step that it leaves out. One whose clock is right goes on.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err            error
		silent, prunes int // members who are found, and prunings in ten minutes
		failures       float64
	}{
		{rooms.ErrAhead, 0, 0, 3},
		{nil, 5, 2, 0},
	} {
		t.Run(fmt.Sprint(tt.err), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRigOn(t, newBroker(t), wrongClock{silentStore{newStore(t, "sqlite::memory:")}, tt.err})
				var prunes atomic.Int64
				r.store.before = func(method string) error {
					if method == "prune" {
						prunes.Add(1)
					}
					return nil
				}
				if err := (sweeper{r.core.cfg, r.core.retry}).sweep(t.Context()); (err != nil) != (tt.silent == 0) {
					t.Errorf("sweep() = %v, want an error: %v", err, tt.silent == 0)
				}
				r.wantQueue(t, "test.inbound.00", tt.silent)
				stop := r.start(t)
				time.Sleep(pruneEvery)
				if err := stop(); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
				if got := prunes.Load(); got != int64(tt.prunes) {
					t.Errorf("prunings = %d, want %d", got, tt.prunes)
				}
				if got := testutil.ToFloat64(r.core.metrics.failures[stepPrune]); got > tt.failures {
					t.Errorf("failed prunings = %v, want at most %v", got, tt.failures)
				}
			})
		})
	}
}

// TestAudience checks that the people whom a page may send to are counted within a
// minute.
func TestAudience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, "sqlite::memory:")
		r := newRigOn(t, newBroker(t), store)
		stop := r.start(t)
		r.say(t, now("1", "a", "hello"), now("2", "b", "hi"))
		time.Sleep(audienceEvery + time.Second)
		pages, err := store.Pages(t.Context(), "", 10)
		if len(pages) != 1 || pages[0].Audience != 2 || err != nil {
			t.Errorf("Pages() after a minute = %+v, %v, want an audience of 2", pages, err)
		}
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}
