package flow

import (
	"context"
	"fmt"
	"time"

	"chatclub/loadtest/report"

	"chatclub/fakeapi"
	"chatclub/fakeapi/limit"
	"chatclub/internal/chaos"
	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// hot is the page that a script saturates. In the scripts with many pages it
// is the first.
const hot = 1

// start is the time in which the replicas find the page's pace.
const start = 10 * time.Second

func scenarios(e extent) []group {
	return []group{
		saturation(), limiters(), unknown(), changes(), faults(), manyPages(), backlogs(e), drains(e),
		livelyRooms(), roomsThatSpeak(), roomBursts(), smallLimits(), sickPeople(), sickPages(), neighbours(), sicknesses(), asked(),
	}
}

// saturated is a demand of a number of times the limit on one page.
func saturated(times float64, length time.Duration) func(*rig) {
	return func(r *rig) {
		r.demand(saturate(hot, times*pageLimit))
		r.until(length)
		r.flow(window{start, length}, pageLimit, report.Quota, report.Refused)
		r.flow(window{0, length}, pageLimit, quotaStart, refusedStart)
	}
}

// flow enters the share of the limit that was used on the hot page in a window,
// and the refusals per send in it.
func (r *rig) flow(w window, limit float64, used, refusals report.Figure) {
	c := r.series(hot, w)
	r.figures[used] = float64(c.Accepted) / (limit * w.seconds())
	r.figures[refusals] = float64(c.Refused) / float64(max(c.Accepted, 1))
}

func saturation() group {
	g := group{
		title: "One saturated page, by the number of replicas",
		text: "Demand is three times the limit of 300/s, for 25 s; the platform counts in fixed windows. " +
			"What is not called \"from the start\" leaves out the first 5 s, or what the row says. The messages are for 2,000 people at random. At 0.9 × the limit a page is now free and now in excess.",
	}
	for _, n := range []int{1, 4, 16, 64} {
		g.rows = append(g.rows, both(row{
			name: "3 × the limit", replicas: n, script: saturated(3, 25*time.Second),
			bounds: []report.Bound{report.AtLeast(report.Quota, .975), report.AtMost(report.Refused, .001), report.AtMost(refusedStart, .01)},
		})...)
	}
	g.rows = append(g.rows, both(row{
		name: "3 × the limit, from 30 s to 90 s", replicas: 4, bounds: []report.Bound{report.AtLeast(report.Quota, .984), report.AtMost(report.Refused, .0005)},
		script: func(r *rig) {
			r.saturates(90 * time.Second)
			r.flow(window{30 * time.Second, 90 * time.Second}, pageLimit, report.Quota, report.Refused)
		},
	})...)
	for _, n := range []int{4, 16} {
		g.rows = append(g.rows, both(row{
			name: "0.9 × the limit", replicas: n, script: saturated(.9, 25*time.Second),
			bounds: []report.Bound{report.AtMost(report.Refused, .003), report.AtMost(refusedStart, .01)},
		})...)
	}
	return g
}

func limiters() group {
	g := group{
		title: "One saturated page, by the platform's algorithm",
		text: "As above. Which algorithm the platform uses is not published, nor whether refused calls count; " +
			"the dispatchers are told neither. Latencies are the median and the 99th percentile. A call is counted when it is made, and the latency comes after that.",
	}
	add := func(name, of string, settings func(*fakeapi.Settings)) {
		g.rows = append(g.rows, row{
			name: name, replicas: 4, script: saturated(3, 25*time.Second), settings: settings, latency: of,
			bounds: []report.Bound{report.AtLeast(report.Quota, .97), report.AtMost(report.Refused, .003)},
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
			for _, of := range []string{slow, quick} {
				add(name, of, func(s *fakeapi.Settings) {
					s.Text.Algorithm, s.Text.CountRefused = a, counting
					if a == limit.TokenBucket {
						s.Text.Burst = 30
					}
				})
			}
		}
	}
	for _, l := range []string{"10ms,38ms", "200ms,750ms"} {
		add("fixed-window", l, nil)
	}
	return g
}

// unknown is a page whose limit is half of what was configured, by the platform's
// algorithm.
func unknown() group {
	g := group{
		title: "A lower limit that nobody was told of, where refused calls count",
		text: "As above, but the page takes 150 calls a second from the start, and refused calls count too. The figures are from 20 s to 65 s. To ask for more costs the calls that are sent until its answer comes. " +
			"Token and leaky buckets save calls: then more passes for a while than is possible.",
	}
	for _, a := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog, limit.TokenBucket, limit.LeakyBucket} {
		g.rows = append(g.rows, both(row{
			name: string(a), replicas: 4, bounds: []report.Bound{report.AtLeast(report.Quota, .9), report.AtMost(report.Refused, .05)}, ifSlow: []report.Bound{report.AtLeast(report.Quota, .6), report.AtMost(report.Refused, .1)},
			settings: func(s *fakeapi.Settings) { s.Text.Algorithm, s.Text.CountRefused, s.Text.PerSecond = a, true, 150 },
			script: func(r *rig) {
				r.saturates(65 * time.Second)
				r.flow(window{20 * time.Second, 65 * time.Second}, 150, report.Quota, report.Refused)
			},
		})...)
	}
	return g
}

// limited sets the platform's limit from now on.
func (r *rig) limited(perSecond int) {
	r.must(r.fleet.API().Patch(fmt.Appendf(nil, `{"text":{"per_second":%d}}`, perSecond)))
}

// changeAt is the time of a script's change: long enough after the start that the
// pace is found.
const changeAt = 20 * time.Second

// changed saturates the page, lets the change happen, which may take time, and
// measures the 20 s from its begin.
func changed(change func(*rig)) func(*rig) { return ended(0, func(*rig) {}, change) }

// ended is the same where what ends at that time began so long before.
func ended(lasts time.Duration, begin, end func(*rig)) func(*rig) {
	return func(r *rig) {
		r.saturates(changeAt - lasts)
		begin(r)
		r.until(changeAt)
		end(r)
		r.until(changeAt + 20*time.Second)
		r.after(pageLimit)
	}
}

// after enters what happened in the 20 s after the event.
func (r *rig) after(limit float64) {
	w := window{changeAt, changeAt + 20*time.Second}
	r.flow(w, limit, quota20, refused20)
	r.figures[refused20] = float64(r.series(hot, w).Refused)
	r.figures[report.Back] = r.record.back(hot, changeAt, .9*limit, 20*time.Second).Seconds()
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
	steady := []report.Bound{report.AtLeast(quota20, .93), report.AtMost(refused20, 30)}
	g := group{
		title: "Replicas and limits that change",
		text: "One page at three times its limit; the change comes after 20 s. \"Back\" is the end of the last second with less than 90 % of the quota, from the first change on. " +
			"Silent is the longest time without an accepted call. Where nothing passes, or only 1/s, the 20 s are those after it. At 700 ms the bounds of changed limits are wider: when the limit falls, 105 calls above it are under way before the first refusal is known, and whether more is possible shows a second and an answer's time later. The quota is that of the limit in force, less what another app asks for. Where it is not said of the 20 s it is of the 40 s after the change. Later is the last 20 s of them, the last 10 s where the limit is raised, or the 20 s after it is back.",
	}
	change := func(name string, replicas int, bounds, ifSlow []report.Bound, script func(*rig)) {
		g.rows = append(g.rows, both(row{name: name, replicas: replicas, bounds: bounds, ifSlow: ifSlow, script: script})...)
	}
	handed := []report.Bound{report.AtLeast(quota20, .85), report.AtMost(refused20, 30)} // silent for 3 s at most
	change("4 → 2, the page's sender among those that leave", 4, steady, handed, changed(func(r *rig) {
		r.leave(r.owner(hot, true), r.owner(hot, false))
	}))
	g.rows = append(g.rows, both(row{
		name: "2 → 1, the page's sender is killed", replicas: 2, faulty: true, bounds: append([]report.Bound{report.AtMost(report.Silence, 1)}, steady...),
		script: func(r *rig) {
			changed(func(r *rig) { r.killOwner(hot) })(r)
			r.figures[report.Silence] = r.record.silent(hot, window{changeAt - time.Second, changeAt + 20*time.Second}).Seconds()
		},
	})...)
	change("4 → 8", 4, steady, handed, changed(func(r *rig) {
		for range 4 {
			r.join()
		}
	}))
	rolled := []report.Bound{report.AtLeast(quota20, .80), report.AtMost(refused20, 30)}
	change("4 → 8 → 4, one a second", 4, rolled, rolled, changed(roll))
	change("limit 300 → 150", 4, []report.Bound{report.AtMost(refused20, 110), report.AtMost(refusedLater, .012)}, []report.Bound{report.AtMost(refused20, 240), report.AtMost(refusedLater, .02)}, func(r *rig) {
		r.saturates(changeAt)
		r.limited(150)
		r.until(changeAt + 40*time.Second)
		r.after(150)
		r.flow(window{changeAt + 20*time.Second, changeAt + 40*time.Second}, 150, quotaLater, refusedLater)
	})
	change("limit 150 → 300", 4, []report.Bound{report.AtLeast(quotaLater, .95)}, nil, func(r *rig) {
		r.limited(150)
		r.saturates(changeAt)
		r.limited(300)
		r.until(changeAt + 40*time.Second)
		r.after(300)
		r.flow(window{changeAt + 30*time.Second, changeAt + 40*time.Second}, 300, quotaLater, refusedLater)
	})
	change("limit 300 → 150 for 6 s", 4, []report.Bound{report.AtLeast(quotaLater, .9), report.AtMost(refused20, 100)}, []report.Bound{report.AtLeast(quotaLater, .85), report.AtMost(refused20, 200)}, func(r *rig) {
		r.saturates(changeAt)
		r.limited(150)
		r.until(changeAt + 6*time.Second)
		r.limited(300)
		r.until(changeAt + 26*time.Second)
		r.after(300)
		delete(r.figures, quota20) // of two limits
		r.flow(window{changeAt + 6*time.Second, changeAt + 26*time.Second}, 300, quotaLater, refusedLater)
	})
	change("limit 300 → 150 → 300, 10, 10 and 20 s", 4, []report.Bound{report.AtLeast(report.Quota, .9), report.AtMost(report.Refused, .015)}, []report.Bound{report.AtLeast(report.Quota, .85), report.AtMost(report.Refused, .03)}, func(r *rig) {
		r.saturates(10 * time.Second)
		r.limited(150)
		r.until(20 * time.Second)
		r.limited(300)
		r.until(40 * time.Second)
		r.flow(window{0, 40 * time.Second}, (10*300+10*150+20*300)/40., report.Quota, report.Refused)
	})
	for _, lasts := range []int{3, 10} {
		change(fmt.Sprintf("nothing passes for %d s", lasts), 4, []report.Bound{report.AtLeast(quota20, .85)}, []report.Bound{report.AtLeast(quota20, .8)},
			ended(time.Duration(lasts)*time.Second, func(r *rig) {
				r.breaks(everyPage, func(ctx context.Context, _ dispatch.Caller, _ message.Outbound) sender.Result {
					return refuses(ctx, r.row.median())
				})
			}, (*rig).mends))
	}
	change("another app takes all but 1/s for 3 s", 4, []report.Bound{report.AtLeast(quota20, .3)}, nil,
		ended(3*time.Second, func(r *rig) { r.limited(1) }, func(r *rig) { r.limited(pageLimit) }))
	// Of what the other app asks for some is refused: ours may have a percent more than the rest.
	change("another app takes 100/s", 4, []report.Bound{report.AtLeast(report.Quota, .96), report.AtMost(report.Refused, .02)}, []report.Bound{report.AtLeast(report.Quota, .91), report.AtMost(report.Refused, .04)}, func(r *rig) {
		const rest = pageLimit - 100
		r.saturates(changeAt)
		r.must(r.fleet.API().Patch([]byte(`{"text":{"other_app":100}}`)))
		r.until(changeAt + 40*time.Second)
		r.after(rest)
		r.flow(window{changeAt, changeAt + 40*time.Second}, rest, report.Quota, report.Refused)
		r.flow(window{changeAt + 20*time.Second, changeAt + 40*time.Second}, rest, quotaLater, refusedLater)
	})
	return g
}

func faults() group {
	g := group{
		title: "A replica that is sick",
		text: "One page at three times its limit on four replicas; one of them falls sick after 20 s: " +
			"it hangs (its calls get no answer and do not reach the platform) or all its answers take ten times as long. Later is from 15 s to 25 s after that.",
	}
	for _, h := range []struct {
		name   string
		health chaos.Health
		back   float64
	}{{"hangs", chaos.Hung, 6.2}, {"is ten times slower", chaos.Slow, 15}} {
		for _, own := range []bool{true, false} {
			name := "the page's sender " + h.name
			if !own {
				name = "another replica " + h.name
			}
			g.rows = append(g.rows, both(row{
				name: name, replicas: 4, faulty: true, doubles: true, bounds: []report.Bound{report.AtLeast(quotaLater, .9), report.AtMost(report.Back, h.back)},
				script: func(r *rig) {
					r.saturates(changeAt)
					r.owner(hot, own).Way.SetHealth(h.health)
					r.until(changeAt + 25*time.Second)
					r.after(pageLimit)
					r.flow(window{changeAt + 15*time.Second, changeAt + 25*time.Second}, pageLimit, quotaLater, refusedLater)
				},
			})...)
		}
	}
	return g
}
