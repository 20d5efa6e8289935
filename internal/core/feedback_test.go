package core

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
)

// TestStoppedPage: a page that the dispatchers stopped gets no copies until
// they try it again, and operators see it.
func TestStoppedPage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		until time.Duration // as the event tells it; 0: not at all
		ends  time.Duration
	}{
		{"until the next probe", 4 * time.Hour, 4 * time.Hour},
		{"for half an hour", 0, 30 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.say(t, now("1", "a", "hello"), now("2", "b", "hi"))
				r.handled(t)
				r.sent(t)
				stop := message.Event{
					Kind: message.KindFeedback, Page: "p", ID: "s", User: "1", Time: time.Now().UnixMilli(),
					Reason: string(message.ReasonPageStopped),
				}
				if tt.until > 0 {
					stop.Until = time.Now().Add(tt.until).UnixMilli()
				}
				r.say(t, stop, stop) // told twice
				r.say(t, now("1", "c", "nobody hears"))
				r.handled(t)
				wantSent(t, "of a stopped page", r.sent(t))
				if _, answer := r.ask(t, "GET", "/pages", ""); !strings.Contains(answer, `"pause_reason":"stopped"`) {
					t.Errorf("GET /pages of a stopped page = %s", answer)
				}
				time.Sleep(tt.ends - time.Millisecond)
				r.say(t, now("1", "d", "still not"))
				r.handled(t)
				wantSent(t, "just before it ends", r.sent(t))
				time.Sleep(time.Millisecond)
				r.say(t, now("1", "e", "again"))
				r.handled(t)
				wantSent(t, "afterwards", r.sent(t), "2: Guest 1: again")
				r.wantMetrics(t, `
					# HELP chatclub_core_page_pauses_total What paused pages: stopped is what dispatchers tell, each replica for itself, policy is Meta's word.
					# TYPE chatclub_core_page_pauses_total counter
					chatclub_core_page_pauses_total{cause="policy"} 0
					chatclub_core_page_pauses_total{cause="stopped"} 2
				`, "chatclub_core_page_pauses_total")
			})
		})
	}
}

// TestPolicy: Meta's block holds until Meta lifts it; a warning, and a block
// told again afterwards, change nothing.
func TestPolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		policy := func(id, action string) message.Event {
			time.Sleep(time.Second)
			return message.Event{Kind: message.KindPolicy, Page: "p", ID: id, Time: time.Now().UnixMilli(), Action: action, Reason: "spam"}
		}
		heard := func(what string, want ...string) {
			t.Helper()
			r.say(t, now("1", what, what))
			r.handled(t)
			wantSent(t, what, r.sent(t), want...)
		}
		r.say(t, now("1", "a", "hello"), now("2", "b", "hi"), policy("1", "warning"))
		r.handled(t)
		r.sent(t)
		heard("after a warning", "2: Guest 1: after a warning")
		block, unblock := policy("2", "block"), policy("3", "unblock")
		r.say(t, block)
		heard("after a block")
		time.Sleep(1000 * time.Hour)
		r.say(t, now("2", "c", "I am awake"))
		heard("long after a block")
		r.say(t, unblock, block)
		heard("after the end of the block", "2: Guest 1: after the end of the block")
	})
}
