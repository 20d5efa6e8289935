package broadcast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/rooms"
)

// TestBroadcast checks the messages of broadcasts, their state and their counts.
func TestBroadcast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 3)
		begin := time.Now()
		r.add(t, to("p", "all", 5))
		room := to("p", "none", 30)
		room.Room = 2
		r.add(t, room)
		long := to("p", "long", 1)
		long.Text = strings.Repeat("word ", 500)
		long.Deadline = begin.Add(2*time.Hour + 500*time.Millisecond)
		r.add(t, long)
		taken, err := r.scheduler.Add(t.Context(), to("q", "all", 1))
		if taken.Page != "p" || err != nil {
			t.Errorf("Add() of another broadcast under the same id = %+v, %v, want the first", taken, err)
		}

		stop := r.start(t)
		time.Sleep(10 * time.Second)
		stop()
		var got []message.Outbound
		for _, m := range r.take(t) {
			o, err := message.DecodeOutbound(m.Body)
			if err != nil {
				t.Fatal(err)
			}
			if m.ID != o.ID || o.Time < begin.UnixMilli() || o.Time > time.Now().UnixMilli() {
				t.Errorf("message %q of %d, want its copy's id %q and the time when it was queued", m.ID, o.Time, o.ID)
			}
			if o.Time = 0; len(o.Text) > 100 {
				o.Text = "long"
			}
			got = append(got, o)
		}
		slices.SortFunc(got, func(a, b message.Outbound) int { return strings.Compare(a.ID, b.ID) })
		want := func(broadcast, id, user, text string, deadline time.Time) message.Outbound {
			return message.Outbound{
				ID: "p/broadcast-" + broadcast + "/" + id, Page: "p", To: user, Class: message.ClassText, Text: text,
				Broadcast: broadcast, Deadline: deadline.UnixMilli(),
			}
		}
		inAnHour := begin.Add(time.Hour)
		diff := cmp.Diff([]message.Outbound{
			want("all", "u001", "u001", "x", inAnHour), want("all", "u002", "u002", "x", inAnHour), want("all", "u003", "u003", "x", inAnHour),
			want("long", "u001", "u001", "long", long.Deadline), want("long", "u001/1", "u001", "long", long.Deadline),
			want("long", "u002", "u002", "long", long.Deadline), want("long", "u002/1", "u002", "long", long.Deadline),
			want("long", "u003", "u003", "long", long.Deadline), want("long", "u003/1", "u003", "long", long.Deadline),
		}, got)
		if diff != "" {
			t.Errorf("messages: -want +got\n%s", diff)
		}
		for id, queued := range map[string]int{"all": 3, "none": 0, "long": 3} {
			if b, err := r.db.Broadcasts().Get(t.Context(), id); b.State != rooms.BroadcastDone || b.Queued != queued || err != nil {
				t.Errorf("broadcast %s = %s, %d queued, %v, want done, %d", id, b.State, b.Queued, err, queued)
			}
		}
		counts := map[rooms.RoomKey]rooms.Count{{Page: "p"}: {Events: 2, Copies: 9}, {Page: "p", Room: 2}: {Events: 1}}
		if diff := cmp.Diff(counts, r.counter.Take()); diff != "" {
			t.Errorf("counts: -want +got\n%s", diff)
		}
		r.wantMetrics(t, `
			# HELP chatclub_core_broadcast_messages_total Messages of broadcasts confirmed on their page's partition.
			# TYPE chatclub_core_broadcast_messages_total counter
			chatclub_core_broadcast_messages_total 9
			# HELP chatclub_core_broadcasts_held Broadcasts that this core works on.
			# TYPE chatclub_core_broadcasts_held gauge
			chatclub_core_broadcasts_held 0
			# HELP chatclub_core_failures_total Failed steps, each tried again, by step.
			# TYPE chatclub_core_failures_total counter
			chatclub_core_failures_total{step="broadcast"} 0
		`, "chatclub_core_broadcast_messages_total", "chatclub_core_broadcasts_held", "chatclub_core_failures_total")
		r.wantEnded(t, 3, 0, 0)
	})
}

// wantEnded checks how many broadcasts ended, by state.
func (r *rig) wantEnded(t testing.TB, done, expired, stopped int) {
	t.Helper()
	r.wantMetrics(t, fmt.Sprintf(`
		# HELP chatclub_core_broadcasts_total Broadcasts that ended, by state: all of it queued, stopped by an operator, or past its deadline.
		# TYPE chatclub_core_broadcasts_total counter
		chatclub_core_broadcasts_total{state="done"} %d
		chatclub_core_broadcasts_total{state="expired"} %d
		chatclub_core_broadcasts_total{state="stopped"} %d
	`, done, expired, stopped), "chatclub_core_broadcasts_total")
}

// TestSideBySide checks that broadcasts do not wait for one another, whatever
// their sizes and rates.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 60)
		r.members(t, "q", 30)
		r.members(t, "s", 5)
		rec := record(t, r.broker)
		stop := r.start(t)
		r.add(t, to("p", "big", 20))
		r.add(t, to("s", "slow", 0.2))
		parts := to("s", "parts", 1)
		parts.Text = strings.Repeat("word ", 500)
		r.add(t, parts)
		time.Sleep(time.Second)
		r.add(t, to("q", "second", 10))
		time.Sleep(23 * time.Second)
		stop()
		rec.wantLast(t, "big", 3*time.Second, 4500*time.Millisecond)
		rec.wantLast(t, "second", 4*time.Second, 5500*time.Millisecond)
		rec.wantLast(t, "parts", 8*time.Second, 9500*time.Millisecond)
		rec.wantLast(t, "slow", 20*time.Second, 22*time.Second)
		for id, tt := range map[string]struct {
			messages, least int
			rate            float64
		}{"big": {60, 1, 20}, "second": {30, 1, 10}, "slow": {5, 1, 0.2}, "parts": {10, 2, 1}} {
			rec.wantOnce(t, id, tt.messages)
			rec.wantRate(t, id, tt.rate, tt.least)
		}
		times := rec.of("parts")
		for i := 0; i < len(times); i += 2 {
			if times[i] != times[i+1] {
				t.Errorf("the parts of one recipient came at %v and %v, want together", times[i], times[i+1])
			}
		}
	})
}

// TestManyBroadcasts checks that many broadcasts keep their rates, one round at a time.
func TestManyBroadcasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 3)
		rec := record(t, r.broker)
		const broadcasts = 100
		for i := range broadcasts {
			r.add(t, to("p", fmt.Sprint("b", i), 1))
		}
		stop := r.start(t)
		time.Sleep(7 * time.Second)
		stop()
		for i := range broadcasts {
			rec.wantOnce(t, fmt.Sprint("b", i), 3)
			rec.wantLast(t, fmt.Sprint("b", i), 2*time.Second, 5*time.Second)
		}
	})
}

// TestPauseStopDeadline checks that a broadcast waits while its page is paused,
// and ends when it is stopped or its deadline comes.
func TestPauseStopDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 100)
		rec := record(t, r.broker)
		stop := r.start(t)
		a, b := to("p", "a", 10), to("p", "b", 10)
		b.Deadline = time.Now().Add(15 * time.Second)
		r.add(t, a)
		r.add(t, b)
		time.Sleep(3500 * time.Millisecond)
		if err := r.db.Pause(t.Context(), "p", "", time.Now(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		before := len(rec.of("a"))
		time.Sleep(8 * time.Second)
		if got := len(rec.of("a")); before < 30 || before > 41 || got != before {
			t.Errorf("messages before and after a pause = %d, %d, want about 35 and no more", before, got)
		}
		if err := r.db.Resume(t.Context(), "p", time.Time{}); err != nil {
			t.Fatalf("Resume() = %v, want nil", err)
		}
		time.Sleep(2 * time.Second)
		if got := len(rec.of("a")) - before; got < 15 || got > 36 {
			t.Errorf("messages in the two seconds after a pause = %d, want those and at most 15 that it missed", got)
		}
		for range 2 {
			if got, err := r.scheduler.Stop(t.Context(), "a"); got.State != rooms.BroadcastStopped || err != nil {
				t.Errorf("Stop() = %s, %v, want stopped", got.State, err)
			}
		}
		stopped := len(rec.of("a"))
		time.Sleep(5 * time.Second)
		if got := len(rec.of("a")); got != stopped {
			t.Errorf("messages after the stop = %d, want none", got-stopped)
		}
		stop()
		for id, want := range map[string]rooms.BroadcastState{"a": rooms.BroadcastStopped, "b": rooms.BroadcastExpired} {
			if got, err := r.db.Broadcasts().Get(t.Context(), id); got.State != want || got.Queued != len(rec.of(id)) || err != nil {
				t.Errorf("broadcast %s = %s with %d queued, %v, want %s and %d", id, got.State, got.Queued, err, want, len(rec.of(id)))
			}
		}
		rec.wantLast(t, "b", 12*time.Second, 15*time.Second)
		rec.wantOnce(t, "a", stopped)
		r.wantEnded(t, 0, 1, 1)
		if _, err := r.scheduler.Stop(t.Context(), "none"); !errors.Is(err, rooms.ErrUnknown) {
			t.Errorf("Stop() of an unknown id = %v, want ErrUnknown", err)
		}
	})
}

// An order pauses a page's broadcast as the page's own pause does, within a second, and
// nobody's turn is lost: with a deadline that the pause does not reach all are queued.
func TestPauseByOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		book := orders.NewBook()
		var err error
		r.scheduler, err = New(Config{Broker: r.flaky, Store: r.store, Counter: r.counter, Paused: book.IsPaused})
		if err != nil {
			t.Fatal(err)
		}
		r.members(t, "p", 100)
		rec := record(t, r.broker)
		defer r.start(t)()
		r.add(t, to("p", "a", 10))
		time.Sleep(5 * time.Second)
		if got := len(rec.of("a")); got != 0 {
			t.Errorf("messages before the orders are known = %d, want none", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- book.Follow(ctx, r.broker, slog.New(slog.DiscardHandler), func(orders.Order) {}) }()
		defer func() {
			cancel()
			<-ended
		}()
		time.Sleep(4 * time.Second)
		if err := orders.Give(t.Context(), r.broker, orders.Order{Kind: orders.Pause, Page: "p", Time: time.Now().UnixMilli(), Until: time.Now().Add(time.Minute).UnixMilli()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1200 * time.Millisecond)
		before := len(rec.of("a"))
		time.Sleep(50 * time.Second)
		if got := len(rec.of("a")); before < 20 || before == 100 || got != before {
			t.Errorf("messages before and after a pause = %d, %d, want more than 20 and no more", before, got)
		}
		time.Sleep(30 * time.Second)
		rec.wantOnce(t, "a", 100)
		rec.wantRate(t, "a", 10, 20)
	})
}

// TestBusyPage checks that a busy page's broadcast waits, that it does not catch
// up, that its deadline ends it, and that others do not wait.
func TestBusyPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 40)
		r.members(t, "q", 40)
		rec := record(t, r.broker)
		stop := r.start(t)
		r.add(t, to("p", "busy", 10))
		r.add(t, to("q", "free", 10))
		late := to("p", "late", 1)
		late.Deadline = time.Now().Add(6 * time.Second)
		r.add(t, late)
		time.Sleep(2500 * time.Millisecond)
		for range 10 { // the last delay ends at 14.5 s
			if err := r.db.DelayBroadcasts(t.Context(), "p", time.Now().Add(3*time.Second)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		r.wantEnded(t, 1, 1, 0) // "free", and "late" while the page is busy
		if got := len(rec.of("busy")); got > 26 {
			t.Errorf("messages of the busy page's broadcast = %d, want what 2.5 s allow", got)
		}
		time.Sleep(7 * time.Second)
		stop()
		rec.wantLast(t, "free", 3*time.Second, 5*time.Second)
		rec.wantLast(t, "busy", 16*time.Second, 19*time.Second)
		rec.wantOnce(t, "free", 40)
		rec.wantOnce(t, "busy", 40)
		rec.wantRate(t, "busy", 10, 1)
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := Config{Broker: newBroker(t), Store: newStore(t, "sqlite::memory:", nil).Broadcasts()}
	for name, change := range map[string]func(*Config){
		"Broker": func(c *Config) { c.Broker = nil },
		"Store":  func(c *Config) { c.Store = nil },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New() with a wrong %s = %v, want an error that names it", name, err)
		}
	}
}
