package dispatch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// A sick lane holds up its page for a while and not for good: the page gets another one.
// What is in it comes once it is well, and in the end it goes. Nobody consumes for long
// what brings nothing, because RabbitMQ may end that connection. The partition's other
// page notices nothing.
func TestSickLane(t *testing.T) {
	t.Parallel()
	takes := func(op string) bool { return op == "publish" }
	for name, tc := range map[string]struct {
		owners int     // of whom the first ends when the lane becomes sick, if there are two
		part   float64 // of the page's messages that must go on: the others are in the lane
		fails  func(op string) bool
		err    error
		mute   bool          // nothing comes out of it
		silent time.Duration // is the page at most
	}{
		"takes nothing":         {1, 1, takes, queue.ErrUnavailable, false, 22 * time.Second},
		"takes no more":         {1, 1, takes, queue.ErrRefused, false, 22 * time.Second},
		"is not there":          {1, 1, takes, queue.ErrUnroutable, false, time.Second}, // between two bursts
		"is not found":          {2, 0.8, func(string) bool { return true }, queue.ErrUnavailable, false, 23 * time.Second},
		"takes and brings none": {2, 0.8, func(op string) bool { return op != "inspect" }, queue.ErrUnavailable, true, 23 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, tc.owners, func(c *Config) { c.Prefetch = 512 }, func(t *testing.T, r *rig) {
				r.limits = func(string, message.Class) int { return 300 }
				lane, other := "", r.peers(2)[1]
				sick := false
				var consumed []time.Time
				for _, d := range r.replicas {
					d.link.with(func(l *link) {
						l.refuse = func(op, name string) (err error) {
							r.with(func() {
								if sick && name == lane && tc.fails(op) {
									err = tc.err
								}
							})
							return err
						}
						l.mute = func(name string) (mute bool) {
							r.with(func() {
								if mute = sick && tc.mute && name == lane; mute {
									consumed = append(consumed, time.Now())
								}
							})
							return mute
						}
					})
				}
				r.text("page0", guests("h", 1500)...)
				r.sleep(time.Second)
				lane = r.laneOf("page0", message.ClassText)
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
					if n := len(consumed); tc.mute && (n < 2 || n > 3) {
						t.Errorf("consumed %d times in four minutes, want 2 or 3: %v", n, consumed)
					}
					sick = false
				})
				r.sleep(10 * time.Minute)
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

// A page may have a lane that was retired, and the one in its place. Its next owner
// takes over both: what is in either comes, and the newer one is in use.
func TestRetiredLaneIsTakenOver(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(c *Config) { c.Prefetch = 512 }, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 100 }
		lane := ""
		for _, d := range r.replicas {
			d.link.with(func(l *link) {
				l.refuse = func(op, name string) (err error) {
					r.with(func() {
						if op == "publish" && name == lane {
							err = queue.ErrRefused // as of one that is full
						}
					})
					return err
				}
			})
		}
		r.text("page0", guests("h", 5000)...)
		r.sleep(2 * time.Second)
		first := r.laneOf("page0", message.ClassText)
		r.with(func() { lane = first })
		for range 30 {
			r.text("page0", guests("h", 50)...)
			r.sleep(time.Second)
		}
		names := r.laneQueues()
		if len(names) != 2 {
			t.Fatalf("lanes = %v, want two: nothing is tested", names)
		}
		old := r.replicas[r.owner("page0")]
		r.stop(old)
		r.sleep(5 * time.Second)
		next := r.replicas[1-slices.Index(r.replicas, old)]
		next.inspect(func(e *engine) {
			if n := len(e.lanes.list); n != 2 {
				t.Fatalf("the next owner has %d lanes, want 2", n)
			}
			for _, k := range e.lanes.list {
				if k.src == nil || k.token == nil || k.isRetired() != (k.queue == first) {
					t.Errorf("%s: consumed %t, with its token %t, retired %t, want true, true, and that the older one is", k.queue, k.src != nil, k.token != nil, k.isRetired())
				}
			}
		})
		r.sleep(5 * time.Minute)
		if left := r.laneQueues(); len(left) > 0 {
			t.Errorf("lanes %v are still there, want none", left)
		}
		r.inversions = nil // the price, of this page
		r.checkSentOnce()
	})
}

// A page whose lanes are all sick, and cannot be deleted either, has a few of them and
// no more: the replica makes lanes for other pages.
func TestLanesAreAllSick(t *testing.T) {
	t.Parallel()
	slow := func(c *Config) {
		c.Prefetch, c.Lanes, c.Limit = 64, 2*mostRetired, message.Limits{Text: 30, Media: 1}.Of
	}
	inBubble(t, 1, slow, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 30 }
		sick := true
		r.only().link.with(func(l *link) {
			l.refuse = func(op, name string) (err error) {
				r.with(func() {
					if sick && op != "declare" && r.isLane(name, "page0", message.ClassText) {
						err = queue.ErrUnavailable
					}
				})
				return err
			}
		})
		for range 150 {
			r.text("page0", guests("h", 60)...)
			r.sleep(time.Second)
		}
		if n := len(r.laneQueues()); n != mostRetired {
			t.Errorf("%d lanes, want %d", n, mostRetired)
		}
		r.with(func() { sick = false })
		r.sleep(30 * time.Minute)
		if left := r.laneQueues(); len(left) > 0 {
			t.Errorf("lanes %v are still there, want none", left)
		}
		r.inversions = nil // the price, of this page
		r.checkSentOnce()
	})
}
