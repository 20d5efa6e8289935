package core

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/rooms"
)

// TestFloodCostsNoDatabase checks how many of the events of one user the database sees, and
// how many have an effect: as many as without the memory of floods.
func TestFloodCostsNoDatabase(t *testing.T) {
	t.Parallel()
	const limit = 5 // in ten seconds
	for _, row := range []struct {
		name             string
		every            time.Duration // between two events
		events           int
		received, effect int
	}{
		{"at once", 0, 1000, limit + 1, limit},
		{"for ten seconds", 10 * time.Millisecond, 1000, 2*limit + 5, 2*limit - 1},
		{"within the limit", 2 * time.Second, 20, 20, 20},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, err := rooms.Open(rooms.Config{DatabaseURL: "sqlite::memory:", FloodLimit: limit})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				r := newRigOn(t, newBroker(t), store)
				received := 0
				r.store.before = func(method string) error {
					if method == "receive" {
						received++
					}
					return nil
				}
				r.say(t, now("listener", "hello", "hello"))
				stop := r.start(t)
				for i := range row.events {
					r.say(t, now("1", fmt.Sprint("m", i), "spam"))
					time.Sleep(row.every)
				}
				copies := 0
				for _, words := range r.sent(t) {
					if words == "listener: Guest 2: spam" {
						copies++
					}
				}
				received-- // the listener's
				if received > row.received || copies != row.effect {
					t.Errorf("of %d events %d reached the database and %d had an effect, want %d and %d", row.events, received, copies, row.received, row.effect)
				}
				if got := testutil.ToFloat64(r.core.metrics.rejected.WithLabelValues("flood")); got != float64(row.events-row.effect) {
					t.Errorf("chatclub_core_rejected_total of floods = %v, want %d", got, row.events-row.effect)
				}
				if err := stop(); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
			})
		})
	}
}

// What is known of floods is forgotten once it is old, and by an event of the user that has
// an effect.
func TestFloodsAreForgotten(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	span := rooms.Span{From: begin.Add(-10 * time.Second), Until: begin.Add(time.Second)}
	f := newFloods()
	ev := func(user string, at time.Time) rooms.Event { return rooms.Event{Page: "p", User: user, At: at} }
	for i := range 1000 {
		f.note(begin, ev(fmt.Sprint(i), begin), span)
	}
	idle := ev("1", begin)
	idle.Idle = true
	f.note(begin, ev("2", span.Until), rooms.Span{})
	for _, row := range []struct {
		name string
		now  time.Time
		ev   rooms.Event
		want bool
	}{
		{"in the span", begin, ev("1", begin), true},
		{"before the span", begin, ev("1", span.From.Add(-1)), false},
		{"after the span", begin, ev("1", span.Until), false},
		{"handled late", begin.Add(59 * time.Second), ev("1", begin), true},
		{"handled too late", begin.Add(time.Minute), ev("1", begin), false},
		{"no event of the user", begin, idle, false},
		{"of a user who was heard since", begin, ev("2", begin), false},
		{"of another user", begin, ev("none", begin), false},
	} {
		if got := f.refuses(row.now, row.ev); got != row.want {
			t.Errorf("refuses() of an event %s = %v, want %v", row.name, got, row.want)
		}
	}
	f.note(begin.Add(time.Minute), ev("1", begin), rooms.Span{})
	if len(f.users) > 0 {
		t.Errorf("users after a minute = %d, want none", len(f.users))
	}
}
