package core

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/rooms"
)

// TestStoppedPage checks that a page that the dispatchers stopped gets no copies
// until they try it again, and that operators see its pause.
func TestStoppedPage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		until time.Duration // of the event; 0: none
		ends  time.Duration
	}{
		{"until the next probe", 4 * time.Minute, 4 * time.Minute},
		{"until core tries by itself", 4 * time.Hour, 5 * time.Minute},
		{"by a clock that is far ahead", 1 << 60, 5 * time.Minute},
		{"without a time", 0, 5 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t, "sqlite::memory:")
				r := newRigOn(t, newBroker(t), store)
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
				r.say(t, stop, stop) // repeated
				r.say(t, now("1", "c", "not passed on"))
				r.handled(t)
				wantSent(t, "of a stopped page", r.sent(t))
				pages, err := store.Pages(t.Context(), "", 1)
				if err != nil || len(pages) != 1 || pages[0].PauseReason != "stopped" {
					t.Errorf("Pages() with a stopped page = %+v, %v, want its reason", pages, err)
				}
				time.Sleep(tt.ends - 3*placeTime)
				r.say(t, now("1", "d", "still not"))
				r.handled(t)
				wantSent(t, "just before it ends", r.sent(t))
				time.Sleep(3 * placeTime)
				r.say(t, now("1", "e", "again"))
				r.handled(t)
				wantSent(t, "afterwards", r.sent(t), "2: Guest 1: again")
				r.wantMetrics(t, `
					# HELP chatclub_core_page_pauses_total Pauses of pages, by cause: stopped is reported by dispatchers, each replica for itself, policy by Meta.
					# TYPE chatclub_core_page_pauses_total counter
					chatclub_core_page_pauses_total{cause="policy"} 0
					chatclub_core_page_pauses_total{cause="stopped"} 2
				`, "chatclub_core_page_pauses_total")
			})
		})
	}
}

// TestResumed checks that a page and a member that dispatchers can send to again get
// copies at once. A pause by somebody else stays, and an old report of the stop
// changes nothing any more.
func TestResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, "sqlite::memory:")
		r := newRigOn(t, newBroker(t), store)
		r.say(t, now("1", "a", ""), now("2", "b", ""))
		r.handled(t)
		r.sent(t)
		told := func(id, user, reason string) message.Event {
			return message.Event{
				Kind: message.KindFeedback, Page: "p", ID: id, User: user, Reason: reason,
				Time: time.Now().Add(time.Hour).UnixMilli(), Until: time.Now().Add(2 * time.Hour).UnixMilli(), // by a clock that is ahead
			}
		}
		r.say(t, told("s", "1", string(message.ReasonPageStopped)), told("f", "2", message.FeedbackFailing))
		r.say(t, now("1", "c", "not passed on"))
		r.handled(t)
		wantSent(t, "of a stopped page", r.sent(t))
		r.say(t, told("r", "", message.FeedbackResumed))
		r.say(t, now("1", "d", "not to her"))
		r.handled(t)
		wantSent(t, "to a failing member of a page that was resumed", r.sent(t))
		r.say(t, told("w", "2", message.FeedbackResumed))
		r.say(t, now("1", "e", "again"))
		r.handled(t)
		wantSent(t, "when both are resumed", r.sent(t), "2: Guest 1: again")
		if err := store.Pause(t.Context(), "p", "operator: sale", time.Now(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		r.say(t, told("r2", "", message.FeedbackResumed))
		r.say(t, now("1", "f", "not passed on"))
		r.handled(t)
		wantSent(t, "of a page that an operator paused", r.sent(t))
	})
}

// TestBusyPage checks that a busy page's broadcasts wait as long as the dispatcher
// says, but no longer than ten seconds. Other pages' do not wait.
func TestBusyPage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		until time.Time // of the event
		want  time.Time // when the next recipient is due
	}{
		"for three seconds":            {at(3), at(3)},
		"by a clock that is far ahead": {time.UnixMilli(1 << 50), at(10).Add(2 * placeTime)},
		"in the past":                  {at(-1), at(0).Add(placeTime)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t, "sqlite::memory:")
				r := newRigOn(t, newBroker(t), store)
				r.handled(t) // migrates
				for _, page := range []string{"p", "q"} {
					_, added, err := store.Broadcasts().Add(t.Context(), rooms.Broadcast{ID: page, Page: page, Text: "x", Rate: 1, Deadline: at(3600)})
					if !added || err != nil {
						t.Fatalf("AddBroadcast() = %v, %v, want it added", added, err)
					}
				}
				r.say(t, message.Event{
					Kind: message.KindFeedback, Page: "p", ID: "busy", User: "1", Time: 1,
					Reason: message.FeedbackBusy, Until: tt.until.UnixMilli(),
				})
				r.handled(t)
				for page, want := range map[string]time.Time{"p": tt.want, "q": at(0).Add(placeTime)} {
					if b, err := store.Broadcasts().Get(t.Context(), page); !b.Due.Equal(want) || err != nil {
						t.Errorf("the broadcast of %s is due at %v, %v, want %v", page, b.Due, err, want)
					}
				}
			})
		})
	}
}

// TestFailingMember checks that a member whom every message fails to reach gets no
// copies until the dispatcher tries again, at most for an hour. Nobody is told, and
// texts from the time between do not come afterwards.
func TestFailingMember(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		until time.Time // of the event
		ends  time.Duration
	}{
		"for five minutes":             {at(300), 5 * time.Minute},
		"by a clock that is far ahead": {time.UnixMilli(1 << 50), 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.say(t, now("1", "a", ""), now("2", "b", ""))
				r.handled(t)
				r.sent(t)
				failing := message.Event{
					Kind: message.KindFeedback, Page: "p", ID: "f", User: "2", Time: time.Now().UnixMilli(),
					Reason: message.FeedbackFailing, Until: tt.until.UnixMilli(),
				}
				r.say(t, failing, failing) // repeated
				r.say(t, now("1", "c", "not passed on"))
				r.handled(t)
				wantSent(t, "to a failing member", r.sent(t))
				time.Sleep(tt.ends - 3*placeTime)
				r.say(t, now("1", "d", "still not"))
				r.handled(t)
				wantSent(t, "just before it ends", r.sent(t))
				time.Sleep(3 * placeTime)
				r.say(t, now("1", "e", "again"))
				r.handled(t)
				wantSent(t, "afterwards", r.sent(t), "2: Guest 1: again")
			})
		})
	}
}

// at returns a time so many seconds after the beginning of a bubble.
func at(seconds int) time.Time {
	return time.Date(2000, 1, 1, 0, 0, seconds, 0, time.UTC)
}

// TestPolicy checks that Meta's block holds until Meta lifts it. A warning, and a
// block that is repeated afterwards, change nothing.
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

// TestPagesPaused checks that a page that Meta blocked is shown for as long as that
// lasts, and how much of its quota is used.
func TestPagesPaused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		stop := r.start(t)
		page := func(page string, ev message.Event) {
			ev.Page, ev.ID, ev.Time = page, fmt.Sprint(ev.Action, page), time.Now().UnixMilli()
			r.say(t, ev)
		}
		want := func(when string, policy, stopped, operator int, quota string) {
			t.Helper()
			r.wantMetrics(t, fmt.Sprintf(`
				# HELP chatclub_core_pages_paused Pages that core holds, by cause, counted every minute; every core counts all. Those paused by order: chatclub_dispatch_pages_paused.
				# TYPE chatclub_core_pages_paused gauge
				chatclub_core_pages_paused{cause="operator"} %d
				chatclub_core_pages_paused{cause="policy"} %d
				chatclub_core_pages_paused{cause="stopped"} %d
				# HELP chatclub_core_quota_share_max Share of its 24 h quota used by the page that has used most, counted every minute. Every core counts all pages.
				# TYPE chatclub_core_quota_share_max gauge
				chatclub_core_quota_share_max %s
			`, operator, policy, stopped, quota), "chatclub_core_pages_paused", "chatclub_core_quota_share_max")
		}
		want("at first", 0, 0, 0, "0")
		r.say(t, now("1", "a", "hello"), now("2", "b", "hi")) // two are welcomed, and one gets a copy
		for _, p := range []string{"p", "q"} {
			page(p, message.Event{Kind: message.KindPolicy, Action: "block", Reason: "spam: much of it"})
		}
		page("r", message.Event{Kind: message.KindFeedback, User: "1", Reason: string(message.ReasonPageStopped)})
		time.Sleep(time.Second)
		if err := r.store.Pause(t.Context(), "r", "operator: stopped", time.Now(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		page("s", message.Event{Kind: message.KindFeedback, User: "1", Reason: string(message.ReasonPageStopped)})
		time.Sleep(2 * time.Minute)
		want("while pages are paused", 2, 1, 1, "0.0075")
		time.Sleep(10 * time.Minute)
		page("p", message.Event{Kind: message.KindPolicy, Action: "unblock"})
		time.Sleep(time.Hour)
		want("when one is unblocked and one was tried again", 1, 0, 1, "0.0075")
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// TestDeletion checks that a request to delete a user's data is taken off the queue, and
// noted with its code for an operator.
func TestDeletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		r.say(t, message.Event{Kind: message.KindDeletion, ID: "code7", User: "2", Time: time.Now().UnixMilli()})
		r.handled(t)
		r.wantQueue(t, "test.inbound.00", 0)
		r.wantQueue(t, "test.dead", 0)
		if got := log.String(); !strings.Contains(got, "data deletion was requested") || !strings.Contains(got, "code=code7") {
			t.Errorf("log = %q, want the request with its code", got)
		}
	})
}
