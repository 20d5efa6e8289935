package dispatch

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// A lane that takes nothing, cannot be made for its next owner, or is deleted by
// somebody else, holds up its page for a while and not for good. Once it is well it is
// used again, and in the end it goes. Its partition's other page notices nothing.
func TestSickLane(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		owners int     // of whom the first ends when the lane becomes sick, if there are two
		part   float64 // of the page's messages that must go on: the others are in the lane
		err    error
		silent time.Duration // is the page at most
	}{
		"takes nothing":  {1, 1, queue.ErrUnavailable, 23 * time.Second},
		"cannot be made": {2, 0.8, queue.ErrUnavailable, 23 * time.Second},
		"is locked":      {2, 0.8, errors.Join(queue.ErrUnavailable, queue.ErrLocked), 3 * time.Second},
		"is not there":   {1, 1, queue.ErrUnroutable, 23 * time.Second}, // until it is declared
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, tc.owners, func(c *Config) { c.Prefetch = 512 }, func(t *testing.T, r *rig) {
				r.limits = func(string, message.Class) int { return 300 }
				lane, other := r.top.Lane("page0", string(message.ClassText)), r.peers(2)[1]
				sick := false
				for _, d := range r.replicas {
					d.link.with(func(l *link) {
						l.dies = func(op, name string) bool {
							if op == "declare" && name == lane && errors.Is(tc.err, queue.ErrUnroutable) {
								r.with(func() { sick = false })
							}
							return false
						}
						l.refuse = func(name string) (err error) {
							r.with(func() {
								if sick && name == lane {
									err = tc.err
								}
							})
							return err
						}
					})
				}
				r.text("page0", guests("h", 1500)...)
				r.sleep(time.Second)
				if len(r.laneQueues()) == 0 {
					t.Fatal("there is no lane: nothing is tested")
				}
				r.with(func() { sick = true })
				if tc.owners == 2 {
					r.stop(r.replicas[r.owner("page0")])
				}
				for i := range 180 {
					r.text("page0", guests("h", 50)...)
					r.text(other, guests("c", i+1)[i:]...)
					r.sleep(time.Second)
				}
				written := time.Now()
				r.sleep(time.Minute)
				r.with(func() {
					if !sick && errors.Is(tc.err, queue.ErrUnavailable) || sick && errors.Is(tc.err, queue.ErrUnroutable) {
						t.Errorf("the lane is sick: %t, want %t", sick, !sick)
					}
					sick = false
				})
				r.sleep(3 * time.Minute)
				if left := r.laneQueues(); len(left) > 0 {
					t.Errorf("lanes %v are still there, want none", left)
				}
				if w := quantile(r.waits("page0"), tc.part); w > time.Minute {
					t.Errorf("the page waited %v, want a minute at most", w)
				}
				if s := r.silence("page0", written); s > tc.silent {
					t.Errorf("the page was silent for %v, want %v at most", s, tc.silent)
				}
				if w := quantile(r.waits(other), 1); w > 100*time.Millisecond {
					t.Errorf("the other page waited %v, want 100 ms at most", w)
				}
				r.inversions = nil // the price, of this page
				r.checkSentOnce()
			})
		})
	}
}

// silence is the longest time between two messages of a page that were accepted, until
// then.
func (r *rig) silence(page string, until time.Time) (most time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var times []time.Time
	for id, at := range r.times {
		if strings.HasPrefix(id, page+"/") && at.Before(until) {
			times = append(times, at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	for i := range times[1:] {
		most = max(most, times[i+1].Sub(times[i]))
	}
	return most
}
