package flow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/limit"
	"chatclub/internal/loadtest/fleet"
)

// hot is the page that a script saturates. In the scripts with many pages it
// is the first.
const hot = 1

// start is how long the replicas have to find the page's pace.
const start = 5 * time.Second

func scenarios(e extent) []group {
	return []group{
		saturation(e), limiters(), changes(), faults(), manyPages(), backlogs(e), drains(e), roomsThatSpeak(), roomBursts(), articleRows(e), otherWays(e),
	}
}

// saturated is a demand of a number of times the limit on one page.
func saturated(times float64, length time.Duration) func(*rig) {
	return func(r *rig) {
		r.demand(saturate(hot, times*pageLimit))
		r.until(length)
		r.flow(window{start, length}, pageLimit, quota, refused)
		r.flow(window{0, length}, pageLimit, quotaStart, refusedStart)
	}
}

// flow enters the share of the limit that was used on the hot page in a window,
// less what another app took, and the refusals per send in it.
func (r *rig) flow(w window, limit float64, used, refusals column) {
	accepted, refused := r.calls(hot, w)
	r.figures[used] = float64(accepted) / (limit*w.seconds() - float64(r.other.in(w).accepted))
	r.figures[refusals] = float64(refused) / float64(max(accepted, 1))
}

func saturation(e extent) group {
	g := group{
		title: "One saturated page, by the number of replicas",
		text: "Demand is three times the limit of 300/s, for 25 s; the platform counts in fixed windows. " +
			"What is not called \"from the start\" leaves out the first 5 s, or what the row says. Inversions are messages accepted after one to the same of 2,000 recipients that was published later, " +
			"per message; in the lane, how many were accepted after one that came to the lane later. At 0.9 × the limit a page is now free and now in excess.",
	}
	for _, n := range []int{1, 2, 4, 8, 16, 64} {
		bounds := []bound{atLeast(quota, .975), atMost(refused, .001), atMost(refusedStart, .01)}
		if n > 16 {
			bounds = []bound{atLeast(quota, .97), atMost(refused, .003), atMost(refusedStart, .01)}
		}
		g.rows = append(g.rows, row{name: "3 × the limit", replicas: n, script: saturated(3, 25*time.Second), bounds: bounds})
	}
	g.rows = append(g.rows, row{
		name: fmt.Sprintf("3 × the limit, from 30 s to %.0f s", e.longRun.Seconds()), replicas: 4, bounds: []bound{atLeast(quota, .99), atMost(refused, .0005)},
		script: func(r *rig) {
			r.demand(saturate(hot, 3*pageLimit))
			r.until(e.longRun)
			r.flow(window{30 * time.Second, e.longRun}, pageLimit, quota, refused)
		},
	})
	for _, n := range []int{4, 16} {
		g.rows = append(g.rows, row{
			name: "0.9 × the limit", replicas: n, script: saturated(.9, 25*time.Second),
			bounds: []bound{atLeast(quota, .87), atMost(refused, .003), atMost(refusedStart, .01)},
		})
	}
	return g
}

func limiters() group {
	g := group{
		title: "One saturated page, by the platform's algorithm",
		text: "As above. Which algorithm the platform uses is not published, nor whether refused calls count; " +
			"the dispatchers are told neither. Latencies are the median and the 99th percentile. A call is counted when it is made, and the latency comes after that, but in the last two rows: " +
			"there it is counted after half of its latency, so that calls arrive in another order and at other distances than they were made. Nothing is required of these.",
	}
	add := func(name string, settings func(*fakeapi.Settings)) {
		g.rows = append(g.rows, row{
			name: name, replicas: 4, script: saturated(3, 25*time.Second), settings: settings,
			bounds: []bound{atLeast(quota, .97), atMost(refused, .003)},
		})
	}
	for _, a := range []limit.Algorithm{limit.SlidingWindow, limit.SlidingLog, limit.TokenBucket, limit.LeakyBucket} {
		for _, counting := range []bool{false, true} {
			name := string(a)
			if a == limit.TokenBucket {
				name += " of 30"
			}
			if counting {
				name += ", refused calls count"
			}
			add(name, func(s *fakeapi.Settings) {
				s.Text.Algorithm, s.Text.CountRefused = a, counting
				if a == limit.TokenBucket {
					s.Text.Burst = 30
				}
			})
		}
	}
	for _, l := range []string{"10ms,38ms", "200ms,750ms"} {
		add("latency "+l, latency("lognormal:"+l))
	}
	for _, a := range []limit.Algorithm{limit.FixedWindow, limit.SlidingLog} {
		g.rows = append(g.rows, row{
			name: string(a) + ", half the latency before it", replicas: 4, script: saturated(3, 25*time.Second),
			settings: func(s *fakeapi.Settings) {
				latency("lognormal:20ms,75ms")(s)
				s.Text.Algorithm = a
			},
			there: logNormal(20*time.Millisecond, 75*time.Millisecond),
		})
	}
	return g
}

// logNormal draws times with a median and a 99th percentile.
func logNormal(median, p99 time.Duration) func(*rand.Rand) func() time.Duration {
	const z99 = 2.3263478740408408 // of the standard normal distribution
	sigma := math.Log(float64(p99)/float64(median)) / z99
	return func(rng *rand.Rand) func() time.Duration {
		var mu sync.Mutex
		return func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(float64(median) * math.Exp(sigma*rng.NormFloat64()))
		}
	}
}

// latency sets the platform's.
func latency(form string) func(*fakeapi.Settings) {
	l, err := fakeapi.ParseLatency(form)
	if err != nil {
		panic(err) // a constant of this file
	}
	return func(s *fakeapi.Settings) { s.Latency = l }
}

// limited sets the platform's limit from now on.
func (r *rig) limited(perSecond int) {
	r.must(r.fleet.API().Patch(fmt.Appendf(nil, `{"text":{"per_second":%d}}`, perSecond)))
}

// changeAt is when a script's change happens: long enough after the start that the
// pace is found.
const changeAt = 20 * time.Second

// changed saturates the page, lets the change happen, which may take time, and
// measures the 20 s from its begin.
func changed(change func(*rig)) func(*rig) {
	return func(r *rig) {
		r.demand(saturate(hot, 3*pageLimit))
		r.until(changeAt)
		change(r)
		r.until(changeAt + 20*time.Second)
		r.after(pageLimit)
	}
}

// after enters what happened in the 20 s after the event.
func (r *rig) after(limit float64) {
	w := window{changeAt, changeAt + 20*time.Second}
	r.flow(w, limit, quota20, refused20)
	_, refused := r.calls(hot, w)
	r.figures[refused20] = float64(refused)
	rest := limit - float64(r.other.in(w).accepted)/w.seconds()
	r.figures[back] = r.record.back(hot, changeAt, .9*rest, 20*time.Second).Seconds()
}

// roll replaces four replicas by way of eight, one a second.
func roll(r *rig) {
	old := r.fleet.Dispatchers()
	for range old {
		r.join()
		time.Sleep(time.Second)
	}
	time.Sleep(4 * time.Second)
	for _, d := range old {
		r.leave(d)
		time.Sleep(time.Second)
	}
}

func changes() group {
	steady := []bound{atLeast(quota20, .93), atMost(refused20, 30)}
	change := func(name string, replicas int, bounds []bound, script func(*rig)) row {
		return row{name: name, replicas: replicas, bounds: bounds, script: script}
	}
	return group{
		title: "Replicas and limits that change",
		text: "One page at three times its limit; the change comes after 20 s. \"Back\" is the end of the last second with less than 90 % of the quota, from the first change on. " +
			"The quota is that of the limit in force, less what another app took; where it is not said of the 20 s it is of the 40 s after the change, and later is the last 20 s of them, or the last 10 s where the limit is raised, or the 20 s after it is back.",
		rows: []row{
			change("4 → 2, the lane's owner among those that leave", 4, steady, changed(func(r *rig) {
				r.leave(r.owner(hot, true), r.owner(hot, false))
			})),
			change("2 → 1, the lane's owner is killed", 2, steady, changed(func(r *rig) { r.killOwner(hot) })),
			change("4 → 8", 4, steady, changed(func(r *rig) {
				for range 4 {
					r.join()
				}
			})),
			change("4 → 8 → 4, one a second", 4, steady, changed(roll)),
			change("limit 300 → 150", 4, []bound{atMost(refused20, 150), atMost(refusedLater, .012)}, func(r *rig) {
				r.demand(saturate(hot, 3*pageLimit))
				r.until(changeAt)
				r.limited(150)
				r.until(changeAt + 40*time.Second)
				r.after(150)
				r.flow(window{changeAt + 20*time.Second, changeAt + 40*time.Second}, 150, quotaLater, refusedLater)
			}),
			change("limit 150 → 300", 4, []bound{atLeast(quotaLater, .95)}, func(r *rig) {
				r.limited(150)
				r.demand(saturate(hot, 3*pageLimit))
				r.until(changeAt)
				r.limited(300)
				r.until(changeAt + 40*time.Second)
				r.after(300)
				r.flow(window{changeAt + 30*time.Second, changeAt + 40*time.Second}, 300, quotaLater, refusedLater)
			}),
			change("limit 300 → 150 for 6 s", 4, []bound{atLeast(quotaLater, .8), atMost(refused20, 150)}, func(r *rig) {
				r.demand(saturate(hot, 3*pageLimit))
				r.until(changeAt)
				r.limited(150)
				r.until(changeAt + 6*time.Second)
				r.limited(300)
				r.until(changeAt + 26*time.Second)
				r.after(300)
				delete(r.figures, quota20) // of two limits
				r.flow(window{changeAt + 6*time.Second, changeAt + 26*time.Second}, 300, quotaLater, refusedLater)
			}),
			change("another app takes 100/s", 4, []bound{atMost(refused, .015)}, func(r *rig) {
				r.demand(saturate(hot, 3*pageLimit))
				r.until(changeAt)
				r.disturb(100)
				r.until(changeAt + 40*time.Second)
				r.after(pageLimit)
				r.flow(window{changeAt, changeAt + 40*time.Second}, pageLimit, quota, refused)
				r.flow(window{changeAt + 20*time.Second, changeAt + 40*time.Second}, pageLimit, quotaLater, refusedLater)
			}),
		},
	}
}

func faults() group {
	g := group{
		title: "A replica that is sick",
		text: "One page at three times its limit on four replicas; one of them falls sick after 20 s: " +
			"it hangs (its calls get no answer and do not reach the platform) or all its answers take ten times as long. Later is from 15 s to 25 s after that.",
	}
	for _, h := range []struct {
		name   string
		health fleet.Health
	}{{"hangs", fleet.Hung}, {"is ten times slower", fleet.Slow}} {
		for _, own := range []bool{true, false} {
			name := "the lane's owner " + h.name
			if !own {
				name = "another replica " + h.name
			}
			g.rows = append(g.rows, row{
				name: name, replicas: 4, bounds: []bound{atLeast(quotaLater, .9), atMost(back, 15)},
				script: func(r *rig) {
					r.demand(saturate(hot, 3*pageLimit))
					r.until(changeAt)
					r.owner(hot, own).SetHealth(h.health)
					r.until(changeAt + 25*time.Second)
					r.after(pageLimit)
					r.flow(window{changeAt + 15*time.Second, changeAt + 25*time.Second}, pageLimit, quotaLater, refusedLater)
				},
			})
		}
	}
	return g
}
