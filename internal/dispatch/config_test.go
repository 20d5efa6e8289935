package dispatch

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/aimd"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

func TestConfigNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Prefetch: MinPrefetch - 1, LanePrefetch: MinLanePrefetch - 1, MaxInFlight: 1, JoinTexts: -1, Latency: aimd.Config{Target: -1}})
	if err == nil {
		t.Fatal("New() of nothing = nil error")
	}
	for _, want := range []string{
		"Broker must be set", "Sender must be set", "Limits must be set", "Log must be set", "Registerer must be set",
		"Prefetch must be at least 64", "LanePrefetch must be at least 512", "MaxInFlight must be at least 2",
		"JoinTexts must be at least 1", "MaxAttempts must be at least 1", "MessageTTL must be at least", "ShutdownTimeout must be at least",
		"Latency.Target must be at least 0",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %q, lacks %q", err, want)
		}
	}
}

// The least settings work, for conversations, voice and broadcasts, with a page
// that hangs beside them.
func TestLeastSettings(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) {
		c.Prefetch, c.LanePrefetch, c.MaxInFlight, c.MaxAttempts = MinPrefetch, MinLanePrefetch, MinInFlight, 1
	}, func(t *testing.T, r *rig) {
		r.latency = func(o message.Outbound) time.Duration {
			if o.Page == "hangs" {
				return 10 * time.Second
			}
			return 40 * time.Millisecond
		}
		r.text("hangs", "ann")
		r.sleep(time.Second)
		r.text("page0", guests("u", 50)...)
		r.media("page0", guests("u", 5)...)
		r.broadcast("page1", time.Hour, guests("b", 20)...)
		r.text("page2", "ann")
		r.sleep(10 * time.Minute)
		r.checkSentOnce()
	})
}

// A dead-letter queue that takes nothing holds a bounded part of a replica, and
// the others go on. What is dead is not sent again, and arrives there once.
func TestDeadLetterQueueRefuses(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 256 }, func(t *testing.T, r *rig) {
		pages := r.peers(2)
		var full atomic.Bool
		full.Store(true)
		r.only().link.with(func(l *link) {
			l.refuse = func(_, name string) error {
				if full.Load() && name == r.top.Dead() {
					return queue.ErrRefused
				}
				return nil
			}
		})
		r.script(func(o message.Outbound, _ int) sender.Result {
			if o.Page == pages[0] {
				return fail([]sender.Outcome{sender.BadMessage, sender.Ambiguous, sender.RecipientGone}[number(o.ID)%3])
			}
			return sender.Result{}
		})
		var dead []string
		go every(100*time.Millisecond, time.Minute, func(i int) { r.text(pages[1], fmt.Sprint("u", i%30)) })
		every(20*time.Millisecond, 20*time.Second, func(i int) { dead = append(dead, r.text(pages[0], fmt.Sprint("d", i))...) })
		if err := r.broker.Publish(t.Context(), queue.Message{Queue: r.top.OutboundOf(pages[0]), ID: "bad", Body: []byte("{")}); err != nil {
			t.Fatal(err)
		}
		r.sleep(time.Minute)
		if w := quantile(r.waits(pages[1]), 1); w > 200*time.Millisecond {
			t.Errorf("another page's messages waited %v", w)
		}
		r.only().inspect(func(e *engine) {
			if n := e.pages.inHand; n > 64+10 {
				t.Errorf("%d messages are held, want at most %d", n, 64+10)
			}
		})
		full.Store(false)
		r.sleep(2 * time.Minute)
		got := r.dead()
		if len(got) != len(dead)+1 {
			t.Errorf("%d dead letters, want %d", len(got), len(dead)+1)
		}
		for _, id := range dead {
			if d := got[id]; r.attempts[id] != 1 || d.Attempts != 1 {
				t.Fatalf("%s was sent %d times, and is dead as %+v, want one call", id, r.attempts[id], d)
			}
		}
		gone := 0
		for _, e := range r.told() {
			if e.Reason == string(message.ReasonGone) {
				gone++
			}
		}
		want := 0
		for _, id := range dead {
			if number(id)%3 == 2 {
				want++
			}
		}
		if gone != want {
			t.Errorf("core was told %d times of recipients who are gone, want %d: once of each", gone, want)
		}
	})
}

// A message that says that it is dead goes to the dead-letter queue; one that
// says so in other words is a message like any other.
func TestForgedDeath(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		for i, headers := range []map[string]string{
			message.Death{Reason: message.ReasonGone, Attempts: 3, FirstCode: "551", LastCode: "551", Error: "no", Time: time.Now(), Page: "page0", Recipient: "0"}.Headers(),
			message.Death{Reason: "because", Attempts: 3}.Headers(),
			{},
		} {
			o := r.copyOf("page0", message.ClassText, fmt.Sprint(i))
			body, err := o.Encode()
			if err != nil {
				t.Fatal(err)
			}
			headers[message.HeaderDead] = "1"
			if err := r.broker.Publish(t.Context(), queue.Message{Queue: r.top.OutboundOf("page0"), ID: o.ID, Body: body, Headers: headers}); err != nil {
				t.Fatal(err)
			}
		}
		r.sleep(time.Second)
		if got := r.ids(); len(got) != 2 {
			t.Errorf("accepted %v, want the last two", got)
		}
		want := message.Death{Reason: message.ReasonGone, Queue: r.top.OutboundOf("page0"), Attempts: 3, FirstCode: "551", LastCode: "551"}
		if got := r.dead(); len(got) != 1 || got[r.published[0]] != want {
			t.Errorf("dead = %+v, want %+v", got, want)
		}
	})
}
