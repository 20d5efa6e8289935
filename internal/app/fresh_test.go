package app

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// TestFreshWithin: for half a minute people write ten times as much as a page can send. With
// FRESH_WITHIN copies arrive new, in order, and in their whole room; no call that could
// be made is not made, each room is told how many messages it was not sent, and a few
// seconds later all is as before. Without it everything arrives, minutes late.
func TestFreshWithin(t *testing.T) {
	t.Parallel()
	rows := []time.Duration{1800 * time.Millisecond, 0}
	if testing.Short() {
		rows = rows[:1]
	}
	for _, fresh := range rows {
		flooded := 28 * time.Second
		if fresh == 0 { // all of it arrives, in minutes
			flooded = 5 * time.Second
		}
		t.Run(fresh.String(), func(t *testing.T) {
			t.Parallel()
			inTogetherWith(t, togetherConfig{fresh: fresh, join: 1}, map[string]int{"p": 500}, func(g *together) {
				const normal, ten = 400 * time.Millisecond, 33 * time.Millisecond // 250 and 3,000 copies/s
				phase := func(d, every time.Duration) (events []string) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
						events = append(events, g.write("p", g.events*37%500, fmt.Sprint("text ", g.events)))
					}
					return events
				}
				time.Sleep(3 * time.Minute) // what they wrote when they came
				calm := g.look(phase(30*time.Second, normal))
				flood := g.look(phase(flooded, ten))
				g.look(phase(5*time.Second, normal))
				after := g.look(phase(30*time.Second, normal))
				time.Sleep(5 * time.Minute)
				was, much, is := calm(), flood(), after()
				t.Logf("before: %v; ten times as much: %v; after: %v", was, much, is)
				if was.left > 0 || was.part+much.part+is.part > 0 {
					t.Errorf("left out before: %d, and some members alone got %d events, want none", was.left, was.part+much.part+is.part)
				}
				if fresh == 0 {
					if much.left+is.left > 0 {
						t.Errorf("left out = %d, want none", much.left+is.left)
					}
					return
				}
				if most := max(2*was.age, fresh); much.age > most {
					t.Errorf("median age of what arrives = %v, want at most %v", much.age, most)
				}
				if most := 28 * 300 * 95 / 100; much.copies < most {
					t.Errorf("copies that arrive of the flood = %d, want at least %d", much.copies, most)
				}
				if is.age > was.age*6/5 {
					t.Errorf("median age five seconds later = %v, want at most 1.2 times the %v before", is.age, was.age)
				}
				if told := g.toldLeftOut(); told < much.left*9/10 || told > much.left+is.left+13 {
					t.Errorf("messages that rooms were told of = %d, want the %d that were left out", told, much.left)
				}
				if n := g.inverted(); n > 0 {
					t.Errorf("overtaken copies = %d, want none", n)
				}
			})
		})
	}
}

// TestPausedIsNotLate: a text that is written while a page is paused, or the API takes no
// calls, waits and is not left out: nobody knows the length of that time.
func TestPausedIsNotLate(t *testing.T) {
	t.Parallel()
	for _, trouble := range []string{"paused", "down"} {
		t.Run(trouble, func(t *testing.T) {
			t.Parallel()
			inTogetherWith(t, togetherConfig{fresh: 2 * time.Second, join: 1}, map[string]int{"p": 200}, func(g *together) {
				time.Sleep(3 * time.Minute) // what they wrote when they came
				write := func(n int) (events []string) {
					for range n {
						events = append(events, g.write("p", g.events*37%200, fmt.Sprint("text ", g.events)))
						time.Sleep(400 * time.Millisecond)
					}
					return events
				}
				write(25)
				if trouble == "paused" {
					w := httptest.NewRecorder()
					g.dispatchers[0].PagesHandler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/pages/p/pause", strings.NewReader(`{"for":"40s"}`)))
					if w.Code != http.StatusNoContent {
						t.Fatalf("pause = %d %s, want 204", w.Code, w.Body)
					}
				} else {
					g.with(func() {
						g.answer = func(message.Outbound) sender.Result {
							return sender.Result{Outcome: sender.Transient, Status: 503, Err: errors.New("down")}
						}
					})
				}
				events := write(100)
				g.with(func() { g.answer = nil })
				came := g.look(events)
				time.Sleep(5 * time.Minute)
				least := 100
				if trouble == "down" { // it takes some seconds to see that
					least = 90
				}
				if l := came(); l.whole < least || l.part > 0 {
					t.Errorf("messages that came to their whole rooms = %d and in part = %d of 100, want at least %d", l.whole, l.part, least)
				}
			})
		})
	}
}

// looked counts some events by who got them, and their copies.
type looked struct {
	whole, part, left int // events that the whole room got, some of it, nobody
	copies            int
	age               time.Duration // of the copies that arrived, the median
}

// look returns a function that says, later, who got the events.
func (g *together) look(events []string) func() looked {
	return func() (l looked) {
		var ages []time.Duration
		reached := make(map[string]int)
		g.with(func() {
			for id, d := range g.waits {
				if event := id[:strings.LastIndex(id, "/")+1]; strings.Count(id, "/") == 2 {
					reached[event]++
					if slices.Contains(events, event) {
						ages = append(ages, d)
					}
				}
			}
		})
		for _, ev := range events {
			switch n := reached[ev]; {
			case n == 99:
				l.whole++
			case n > 0:
				l.part++
			default:
				l.left++
			}
		}
		slices.Sort(ages)
		l.copies, l.age = len(ages), ages[len(ages)/2]
		return l
	}
}

// toldLeftOut adds up the left out messages that the rooms were told of.
func (g *together) toldLeftOut() (sum int) {
	told := make(map[string]bool)
	for _, o := range g.order {
		event := strings.Split(o.ID, "/")[1]
		var n int
		if _, err := fmt.Sscanf(o.Text, "⋯ %d", &n); err == nil && !told[event] {
			told[event] = true
			sum += n
		}
	}
	return sum
}

// inverted returns the number of copies that came after a later one to the same member.
func (g *together) inverted() (n int) {
	last := make(map[string]int64)
	for _, o := range g.order {
		if o.Time < last[o.To] {
			n++
		}
		last[o.To] = o.Time
	}
	return n
}
