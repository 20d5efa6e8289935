package core

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

// TestBacklog: what a dispatcher told goes by as it is sent, grows by what core adds, and
// is believed for a while. Nonsense is no backlog.
func TestBacklog(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	b := NewBacklog()
	check := func(now time.Duration, messages int, want time.Duration) {
		t.Helper()
		if got := b.wait(at(now), "p", messages); got != want {
			t.Errorf("wait of %d more after %v = %v, want %v", messages, now, got, want)
		}
	}
	b.Add(at(-time.Second), "p", 500)
	check(0, 100, 0) // nobody told anything
	b.Tell(at(0), at(0), "p", 600, 300)
	check(0, 0, 2*time.Second)
	check(0, 300, 3*time.Second)
	check(1500*time.Millisecond, 0, 500*time.Millisecond)
	check(4*time.Second, 150, 500*time.Millisecond) // it is not behind
	b.Add(at(4*time.Second), "p", 300)
	check(4*time.Second, 0, time.Second)
	check(staleTime+time.Second, 300, 0)
	for _, row := range []struct {
		messages int
		rate     float64
	}{{0, 300}, {-5, 300}, {5, 0}, {5, -1}, {5, math.NaN()}, {math.MaxInt, 1e-300}, {0, math.Inf(1)}} {
		b = NewBacklog()
		b.Tell(at(0), at(0), "p", 600, 300)
		b.Tell(at(0), at(0), "p", row.messages, row.rate)
		if check(0, 100, 0); t.Failed() {
			t.Fatalf("it was told %d and %g", row.messages, row.rate)
		}
	}
	b.Tell(at(time.Hour), at(time.Hour), "q", 0, 1)
	if b.pages["p"] != nil {
		t.Error("a page without reports for long is kept")
	}
	b.Add(at(2*time.Hour), "p", 1)
	b.Add(at(3*time.Hour), "r", 1)
	if len(b.pages) != 1 {
		t.Errorf("pages = %d, want the last one alone, also where no dispatcher reports anything", len(b.pages))
	}
}

// TestLateReport: a report that was long on its way, behind a page's events, is believed from
// when it comes. It does not know of what core has added since it was made.
func TestLateReport(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, row := range []struct {
		name     string
		messages int // that waited when it was made, at 300 a second
		want     time.Duration
	}{
		{"many waited", 30000, 85 * time.Second}, // 100 s of them, and 5 s of what core added
		{"none waited", 0, 0},                    // and what core added is sent
	} {
		b := NewBacklog()
		b.Add(made.Add(-time.Second), "p", 3000) // the report knows of it
		b.Add(made.Add(10*time.Second), "p", 1500)
		b.Tell(made.Add(20*time.Second), made, "p", row.messages, 300)
		if got := b.wait(made.Add(20*time.Second), "p", 0); got != row.want {
			t.Errorf("%s: wait = %v, want %v", row.name, got, row.want)
		}
		b.Add(made.Add(20*time.Second), "p", 3000)
		b.Tell(made.Add(21*time.Second), made.Add(19*time.Second), "p", 0, 300)
		if got, want := b.wait(made.Add(21*time.Second), "p", 0), 9*time.Second; got != want {
			t.Errorf("%s: wait = %v after 3,000 more, want %v", row.name, got, want)
		}
	}
}

// TestLeftOut: a room is told once, when nothing has been left out for a while, or after a
// minute, and what nobody can be told is forgotten.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b, room := NewBacklog(), rooms.RoomKey{Page: "p", Room: 1}
	take := func(now time.Duration, events, copies int) {
		t.Helper()
		l := b.leftOut(start.Add(now), room)
		if l.events > 0 {
			b.told(room)
		}
		if l.events != events || l.copies != copies {
			t.Errorf("left out after %v = %d and %d copies, want %d and %d", now, l.events, l.copies, events, copies)
		}
	}
	take(0, 0, 0)
	for i := range 3 {
		if first := b.leaveOut(start.Add(time.Duration(i)*time.Second), room, 99); first != (i == 0) {
			t.Errorf("message %d is the first: %v", i, first)
		}
	}
	take(4*time.Second, 0, 0) // it goes on
	take(7*time.Second, 3, 297)
	take(20*time.Second, 0, 0)
	for i := range 70 {
		b.leaveOut(start.Add(time.Duration(30+i)*time.Second), room, 2)
	}
	take(100*time.Second, 70, 140)
	b.leaveOut(start, room, 2)
	b.Tell(start.Add(2*forgetTime), start, "q", 0, 0)
	if len(b.left) != 0 {
		t.Errorf("rooms = %d, want none after %v", len(b.left), 2*forgetTime)
	}
}

// TestLateIsLeftOut: a message of which a text would come later than FreshWithin is left out,
// whole; a shorter message is not. The room is told with the next message that it gets
// once that is over, also where core stops before that is published.
func TestLateIsLeftOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.FreshWithin = 7 * time.Second })
		r.say(t, now("1", "a", ""), now("2", "b", ""))
		r.handled(t)
		r.sent(t)
		waits := func(id string, messages int) message.Event {
			return message.Event{
				Kind: message.KindFeedback, Page: "p", ID: id, Reason: message.FeedbackWaiting,
				Time: time.Now().UnixMilli(), Waiting: messages, Rate: 1,
			}
		}
		pictures := now("1", "c", "")
		for i := range 3 {
			pictures.Attachments = append(pictures.Attachments, message.Attachment{Type: "image", URL: fmt.Sprint("https://x/", i)})
		}
		r.say(t, waits("w", 5), pictures)
		r.handled(t)
		wantSent(t, "of four texts after five seconds", r.sent(t))
		sticker := now("1", "s", "")
		sticker.Attachments = []message.Attachment{{Type: "image"}} // it has no address: nothing of it is passed on
		r.say(t, waits("w1", 20), sticker)
		r.handled(t)
		r.sent(t)
		r.say(t, waits("w2", 5), now("1", "d", "short"))
		r.handled(t)
		wantSent(t, "of one text after five seconds", r.sent(t), "2: Guest 1: short")
		r.wantMetrics(t, `
			# HELP chatclub_core_left_out_copies_total Copies that were not made of them.
			# TYPE chatclub_core_left_out_copies_total counter
			chatclub_core_left_out_copies_total 4
			# HELP chatclub_core_left_out_events_total Messages of users that were not passed on, because their copies would have come later than FRESH_WITHIN. The log names page and room.
			# TYPE chatclub_core_left_out_events_total counter
			chatclub_core_left_out_events_total 1
		`, "chatclub_core_left_out_copies_total", "chatclub_core_left_out_events_total")

		time.Sleep(overTime)
		r.flaky.before = func(context.Context, []queue.Message) error { return errAway }
		r.say(t, waits("w3", 0), now("1", "e", "again"))
		r.handled(t)
		wantSent(t, "that are not published", r.sent(t))
		r.flaky.before = nil
		time.Sleep(time.Minute)
		r.handled(t)
		wantSent(t, "once that is over", r.sent(t), "2: Guest 1: again", "2: ⋯ 1 message before this one was left out, because it would have come late.")
	})
}
