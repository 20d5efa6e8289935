package core

import (
	"math"
	"testing"
	"time"

	"chatclub/internal/rooms"
)

// TestBacklog: what a dispatcher told goes by as it is sent, grows by what core adds, and
// is believed for a while. Nonsense is no backlog.
func TestBacklog(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	b := newBacklog()
	check := func(now time.Duration, messages int, want time.Duration) {
		t.Helper()
		if got := b.wait(at(now), "p", messages); got != want {
			t.Errorf("wait of %d more after %v = %v, want %v", messages, now, got, want)
		}
	}
	b.add(at(0), "p", 500)
	check(0, 100, 0) // nobody told anything
	b.tell(at(0), "p", 600, 300)
	check(0, 0, 2*time.Second)
	check(0, 300, 3*time.Second)
	check(1500*time.Millisecond, 0, 500*time.Millisecond)
	check(4*time.Second, 150, 500*time.Millisecond) // it is not behind
	b.add(at(4*time.Second), "p", 300)
	check(4*time.Second, 0, time.Second)
	check(staleTime+time.Second, 300, 0)
	for _, row := range []struct {
		messages int
		rate     float64
	}{{0, 300}, {-5, 300}, {5, 0}, {5, -1}, {5, math.NaN()}, {math.MaxInt, 1e-300}, {0, math.Inf(1)}} {
		b.tell(at(0), "p", 600, 300)
		b.tell(at(0), "p", row.messages, row.rate)
		if check(0, 100, 0); t.Failed() {
			t.Fatalf("it was told %d and %g", row.messages, row.rate)
		}
	}
	if len(b.pages) != 0 {
		t.Errorf("pages = %d, want none: nothing waits", len(b.pages))
	}
}

// TestLeftOut: a room is told once, when nothing has been left out for a while, or after a
// minute, and what nobody can be told is forgotten.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b, room := newBacklog(), rooms.RoomKey{Page: "p", Room: 1}
	take := func(now time.Duration, events, copies int) {
		t.Helper()
		if l := b.takeLeftOut(start.Add(now), room); l.events != events || l.copies != copies {
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
	b.tell(start.Add(2*forgetTime), "q", 0, 0)
	if len(b.left) != 0 {
		t.Errorf("rooms = %d, want none after %v", len(b.left), 2*forgetTime)
	}
}
