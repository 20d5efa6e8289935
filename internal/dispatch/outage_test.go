package dispatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue/memory/memorytest"
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
			for range seeds(4) { // the pauses are partly by chance
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
		for i := 1; i < len(at); i++ { // a probe, and a stranger's
			if at[i-1]+at[i] < 29*time.Second {
				t.Errorf("the pauses before its probes since the outage began = %v, want 30 s for two each", at)
			}
		}
		if len(at) < 3 {
			t.Errorf("%d probes: nothing is tested", len(at))
		}
	})
}

// The API as a whole is down for half an hour. Where several people wait for something
// no message is dead. Where so few do that they may be the cause themselves, none is
// for some minutes: those of docs/design/dispatcher.md, less what is by chance.
func TestFirstDeathInAnOutage(t *testing.T) {
	t.Parallel()
	const length, never = 30 * time.Minute, time.Hour
	kinds := []struct {
		name    string
		result  sender.Result
		latency time.Duration
	}{
		{"errors", fail(sender.Transient), 40 * time.Millisecond},
		{"no connection", unreached(), 40 * time.Millisecond},
		{"no answer", timeout(), 10 * time.Second},
	}
	for _, row := range []struct {
		name          string
		pages, people int
		gap           time.Duration    // between two texts to each of them; 0: one text each
		least         [3]time.Duration // of each kind: no message is dead before
	}{
		{"one person", 1, 1, 0, [3]time.Duration{90 * time.Second, 90 * time.Second, 170 * time.Second}},
		{"three people of a page, one text each", 1, 3, 0, [3]time.Duration{6 * time.Minute, never, 9 * time.Minute}},
		{"three people of two pages each, one text each", 2, 3, 0, [3]time.Duration{never, never, 5 * time.Minute}},
		{"a room of 20", 1, 20, 10 * time.Second, [3]time.Duration{never, never, never}},
		{"two rooms of 20", 2, 20, 10 * time.Second, [3]time.Duration{never, never, never}},
	} {
		for i, kind := range kinds {
			t.Run(row.name+", "+kind.name, func(t *testing.T) {
				t.Parallel()
				inBubble(t, 1, nil, func(t *testing.T, r *rig) {
					r.with(func() { r.latency = func(message.Outbound) time.Duration { return kind.latency } })
					r.script(func(message.Outbound, int) sender.Result { return kind.result })
					began, gap := time.Now(), row.gap
					if gap == 0 {
						gap = length
					}
					for p := range row.pages {
						go every(gap, length, func(int) { r.text(fmt.Sprint("page", p), guests("u", row.people)...) })
					}
					r.sleep(length)
					first := never
					for _, m := range memorytest.Drain(t, r.broker, r.top.Dead()) {
						d, err := message.DeathFromHeaders(m.Headers)
						if err != nil {
							t.Fatal(err)
						}
						first = min(first, d.Time.Sub(began))
					}
					if least := row.least[i]; first < least {
						t.Errorf("the first message is dead after %v, want %v at least (%v: never)", first, least, never)
					}
					if row.people == 1 && first > row.least[i]+5*time.Second {
						t.Errorf("the first message is dead after %v, want about %v: the documents say so", first, row.least[i])
					}
					r.script(nil)
					r.with(func() { r.latency = nil })
					r.sleep(2 * time.Minute)
				})
			})
		}
	}
}

// A throttle of the app pauses its calls for as long as the platform asks, a minute at most. It counts
// no attempt, nobody is at fault for it, and everything is sent afterwards, in order.
func TestAppThrottled(t *testing.T) {
	t.Parallel()
	const asked = 5 * time.Minute
	for _, replicas := range []int{1, 2} {
		inBubble(t, replicas, func(c *Config) { c.MaxAttempts = 2 }, func(t *testing.T, r *rig) {
			throttled := fail(sender.AppThrottled)
			throttled.RetryAfter = asked
			r.write(6, time.Second, 30*time.Second)
			r.sleep(10 * time.Second)
			r.script(func(message.Outbound, int) sender.Result { return throttled })
			began := time.Now()
			r.sleep(2 * time.Second)
			if calls := len(r.between(began, time.Now())); calls < 2 || calls > 6*replicas {
				t.Errorf("%d calls until the throttle is known, want a page's or two of each replica", calls)
			}
			r.sleep(asked - 3*time.Second)
			if calls := len(r.between(began.Add(2*time.Second), time.Now())); calls > 12*replicas {
				t.Errorf("%d calls while the platform asks for none, want one a minute, and one of each page", calls)
			}
			r.script(nil)
			r.sleep(20 * time.Second)
			r.checkSentOnce()
			if dead, told := r.dead(), r.told(); len(dead) > 0 || len(told) > 0 {
				t.Errorf("%d messages are dead, and core was told %+v, want neither", len(dead), told)
			}
		})
	}
}

// After an outage that each of four replicas saw, and rests for, the first one that hears
// the API again outranks the others. Not for long: 40 s later none has most of the
// partitions. The others wait for the answers to their calls before they leave.
func TestPartitionsAreSpreadAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		sick Caller
		long time.Duration
	}{
		{"calls hang", stuck{}, time.Minute},
		{"calls fail at once", cutOff{}, time.Minute},
		{"questions are answered, and no call is", mute{}, 11 * time.Minute}, // so that rests are long
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && c.long > time.Minute {
				t.Skip("long: make test-long; TestHungReplica has long rests, too")
			}
			for range seeds(4) { // the pauses are partly by chance
				inBubble(t, 4, nil, func(t *testing.T, r *rig) {
					const pages = 64
					r.latency = func(message.Outbound) time.Duration { return 700 * time.Millisecond }
					r.write(pages, time.Second, c.long+5*time.Minute)
					r.sleep(5 * time.Second)
					for _, p := range r.replicas { // so that they do not ask together
						p.inspect(func(e *engine) { e.Sender = c.sick })
						r.sleep(14 * time.Second)
					}
					r.sleep(c.long)
					for i, p := range r.replicas {
						p.inspect(func(e *engine) { e.Sender = client{r.platform, i} })
					}
					end := time.Now()
					for range 4 {
						r.sleep(40 * time.Second)
						from := time.Now()
						r.sleep(5 * time.Second)
						calls := make([]int, len(r.replicas))
						sum := 0
						for _, call := range r.between(from, time.Now()) {
							calls[call.replica]++
							sum++
						}
						if most := slices.Max(calls); 2*most > sum {
							t.Errorf("calls of the replicas in 5 s, %v after the outage = %v, want none with more than half", from.Sub(end), calls)
						}
					}
					r.sleep(4 * time.Minute)
					if doubled := r.doubled(); doubled > 12 {
						t.Errorf("%d messages were sent twice, want those of a call or two at most", doubled)
					}
				})
			}
		})
	}
}

// An API that answers everybody late is no reason to leave a page to others, but once.
func TestSlowForAll(t *testing.T) {
	t.Parallel()
	for range seeds(4) {
		inBubble(t, 4, nil, func(t *testing.T, r *rig) {
			r.latency = func(message.Outbound) time.Duration { return 700 * time.Millisecond }
			r.write(20, time.Second, 6*time.Minute)
			r.sleep(20 * time.Second)
			r.with(func() {
				r.latency = func(message.Outbound) time.Duration { return 3*time.Second + rand.N(time.Second) }
			})
			r.sleep(7 * time.Minute)
			if doubled := r.doubled(); doubled > 5*70 { // 70 are in calls
				t.Errorf("%d of %d messages were sent twice, want little more than those that were in calls when it began", doubled, len(r.published))
			}
		})
	}
}
