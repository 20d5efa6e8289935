package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// unreached is a call for which there was no connection.
func unreached() sender.Result {
	return sender.Result{Outcome: sender.Transient, Err: errors.New("connection refused")}
}

// write has every page get a text for one of 20 people each gap.
func (r *rig) write(pages int, gap, length time.Duration) {
	for p := range pages {
		go every(gap, length, func(i int) { r.text(fmt.Sprint("page", p), fmt.Sprint("u", i%20)) })
	}
}

// between are the calls that began in a part of a test.
func (r *rig) between(from, to time.Time) (calls []made) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if !c.at.Before(from) && c.at.Before(to) {
			calls = append(calls, c)
		}
	}
	return calls
}

// After an outage of 20 s every page sends again within 6 s: a pause of 5 s at most
// before the probe that is accepted, and a call. During the outage a replica makes
// few calls, however many pages it has.
func TestPagesAreBackAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		pages  int
		gap    time.Duration // between two texts of a page
		result sender.Result
	}{
		{"four pages, errors", 4, 200 * time.Millisecond, fail(sender.Transient)},
		{"four pages, no connection", 4, 200 * time.Millisecond, unreached()},
		{"one page, no connection", 1, 200 * time.Millisecond, unreached()},
		{"300 pages, errors", 300, 2 * time.Second, fail(sender.Transient)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for range 4 { // the pauses are partly by chance
				inBubble(t, 1, nil, func(t *testing.T, r *rig) {
					r.write(row.pages, row.gap, 40*time.Second)
					r.sleep(5 * time.Second)
					r.script(func(message.Outbound, int) sender.Result { return row.result })
					r.sleep(20 * time.Second)
					end := time.Now()
					if calls := r.between(end.Add(-10*time.Second), end); len(calls) < 2 || len(calls) > 7 {
						t.Errorf("%d calls in the last 10 s of the outage, want a probe in 1.5 to 5 s", len(calls))
					}
					r.script(nil)
					r.sleep(15 * time.Second)
					back := make(map[string]time.Duration)
					for _, c := range r.between(end, time.Now()) {
						if at := c.at.Sub(end); back[c.out.Page] == 0 {
							back[c.out.Page] = at
						}
					}
					for p := range row.pages {
						page := fmt.Sprint("page", p)
						if at, ok := back[page]; !ok || at > 6*time.Second {
							t.Errorf("%s was called %v after the outage (ever: %v), want 6 s at most", page, at, ok)
						}
					}
					r.sleep(5 * time.Minute)
					for _, id := range r.published {
						if n := r.accepted[id]; n != 1 {
							t.Errorf("%s was accepted %d times, want once", id, n)
						}
					}
				})
			}
		})
	}
}

// A page that is sick by itself keeps its long pauses through an outage of the API.
func TestSickPageKeepsItsPauseAfterAnOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Random = half }, func(t *testing.T, r *rig) {
		down := false
		r.script(func(o message.Outbound, _ int) sender.Result {
			if down || o.Page == "page0" {
				return fail(sender.Transient)
			}
			return sender.Result{}
		})
		r.write(4, 200*time.Millisecond, 150*time.Second)
		r.sleep(time.Minute) // its pause is 30 s
		r.with(func() { down = true })
		r.sleep(10 * time.Second)
		r.with(func() { down = false })
		r.sleep(90 * time.Second)
		var at []time.Duration
		calls := r.callsOf("page0")
		for i, c := range calls {
			if i > 0 && time.Since(c.at) < 100*time.Second {
				at = append(at, c.at.Sub(calls[i-1].at))
			}
		}
		if len(at) < 3 || slices.Min(at) < 29*time.Second {
			t.Errorf("the pauses before its probes since the outage began = %v, want 30 s each", at)
		}
	})
}
