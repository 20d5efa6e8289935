package flow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"chatclub/loadtest/report"

	"chatclub/fakeapi"
	"chatclub/fakeapi/limit"
	"chatclub/internal/queue"
)

// hotPages is the number of the pages of zipf that are above their limit.
const hotPages = 6

// zipf is the rates of 1,000 pages, the k-th of k^−1.5 of the first, so that
// the sixth is above the limit and the seventh below it, but none beyond three
// times the limit; skip leaves out the first so many.
func zipf(skip int) map[int]float64 {
	rates := make(map[int]float64)
	for k := skip + 1; k <= 1000; k++ {
		rates[k] = min(3*pageLimit, 4900/math.Pow(float64(k), 1.5))
	}
	return rates
}

// firstCold is the first page of zipf whose rate is below half its limit: those
// between it and the hot ones are now and then in excess by themselves.
const firstCold = 11

// cold enters the delays of pages that are not in excess.
func (r *rig) cold(delays []time.Duration) {
	r.figures[report.ColdP50] = quantile(delays, .5).Seconds()
	r.figures[report.ColdP99] = quantile(delays, .99).Seconds()
}

// coldPages enters the delays of the pages that are far from their limit.
func (r *rig) coldPages(w window) {
	delays := r.record.delays(w, func(e *entry) bool { return e.page >= firstCold })
	r.cold(delays)
	r.figures[stall] = quantile(delays, 1).Seconds()
}

func manyPages() group {
	crowd := func(skip int) func(*rig) {
		return func(r *rig) {
			r.demand(spread(zipf(skip), 500))
			r.until(14 * time.Second)
			r.coldPages(window{2 * time.Second, 12 * time.Second})
			if skip == 0 {
				r.flow(window{start, 14 * time.Second}, pageLimit, report.Quota, report.Refused)
			}
		}
	}
	return group{
		title: "A thousand pages",
		text: "Rates fall with rank^−1.5, at most three times the limit: 7,500 messages a second, half of them of the six pages above their limit. " +
			"Cold are the 990 that stay below half of it. Delays are from publish to answer, of which the latency is most. The ratios compare with a run without the six; the stall is the longest delay of a cold message.",
		rows: slices.Concat(
			both(row{
				name: "6 of 1,000 pages above the limit", replicas: 4, script: crowd(0), control: crowd(hotPages),
				bounds: []report.Bound{report.AtMost(ratioP50, 1.1), report.AtMost(ratioP99, 1.1)},
			}),
			both(row{
				name: "no page above the limit", replicas: 4, bounds: []report.Bound{report.AtMost(report.Operations, 3.05+(hellos(4)+questions(4, 40*time.Second))/12_000)},
				script: func(r *rig) {
					stop := r.demand(spread(evenly(1000), 500))
					r.until(12 * time.Second)
					stop()
					r.until(20 * time.Second)
					r.coldPages(window{2 * time.Second, 12 * time.Second})
				},
			}),
		),
	}
}

// hellos returns the number of the broker's operations at the start of dispatchers: each
// has a message for each of 64 partitions.
func hellos(dispatchers int) float64 { return perMessage * 64 * float64(dispatchers) }

// questions returns the number of the broker's operations by which dispatchers find out in a
// time whether a partition stands: each asks one a second, and its owner answers.
func questions(dispatchers int, d time.Duration) float64 {
	return 2 * perMessage * float64(dispatchers) * d.Seconds()
}

// evenly is a total rate over the pages that never are hot.
func evenly(total float64) map[int]float64 {
	rates := make(map[int]float64)
	for k := hotPages + 1; k <= 1000; k++ {
		rates[k] = total / (1000 - hotPages)
	}
	return rates
}

// queueCapacity is the capacity of a queue in operations a second, where it matters:
// in the lower half of what was measured on RabbitMQ.
const queueCapacity = 15_000

// coldRate is that of all other pages while a backlog lands.
const coldRate = 200

// moving returns the time in which a partition passes n messages on: it does three
// operations for each, the publish, the delivery and the acknowledgement, and
// what comes later is behind them.
func moving(n int) time.Duration {
	return time.Duration(3*n) * time.Second / queueCapacity
}

// landing is a backlog of n messages of one page that lands at once; without it
// is the control.
func landing(n int, without bool) func(*rig) {
	return func(r *rig) {
		w := window{start, start + 20*time.Second}
		r.demand(spread(evenly(coldRate), 500))
		r.until(start)
		if !without {
			r.backlog(hot, n, 2000)
		}
		r.until(start + max(20*time.Second, moving(n)) + 5*time.Second)
		beside := func(e *entry) bool { return r.partition(int(e.page)) == r.partition(hot) }
		delays := r.record.delays(w, func(e *entry) bool { return e.page >= firstCold && !beside(e) })
		r.cold(delays)
		waits := r.record.waits(w, func(e *entry) bool { return e.page >= firstCold && beside(e) })
		r.figures[stall] = quantile(waits, 1).Seconds()
	}
}

func backlogs(e extent) group {
	g := group{
		title: "A backlog of one page lands at once",
		text: "200 messages a second for 1,000 other pages; each queue of the broker does 15,000 operations a second. " +
			"Cold are the pages of the other partitions; the ratios compare with a run without the backlog. " +
			"The stall is the longest wait on the backlog's own partition, which one page of 64 shares. It can be no shorter than the partition needs to pass the backlog on to the lane: " +
			"a publish, a delivery and an acknowledgement for each message, 6 s for 30,000 and 60 s for 300,000. 2 s more are allowed.",
	}
	for _, n := range []int{30_000, 300_000} {
		if n > e.mostMessages {
			break
		}
		rows := both(row{
			name: fmt.Sprint(n), replicas: 4, capacity: queueCapacity,
			script: landing(n, false), control: landing(n, true),
			bounds: []report.Bound{report.AtMost(ratioP50, 1.1), report.AtMost(ratioP99, 1.1), report.AtMost(stall, moving(n).Seconds()+2)},
		})
		if n > 30_000 {
			rows = rows[:1] // minutes of processor time each
		}
		g.rows = append(g.rows, rows...)
	}
	return g
}

func drains(e extent) group {
	g := group{
		title: "A backlog is drained",
		text: "One page's backlog lands on its partition and is sent to the last message, on four replicas. Each message of the 10,000 is for another person, so that none are joined; the others are for 2,000. " +
			"Broker operations are publishes, deliveries and acknowledgements; the first publish counts. The quota is from the first whole second on. " +
			"What is above six for each, 8,000 at most, is not the messages': owners ask what is in the lanes, and dispatchers that start take their places.",
	}
	for _, n := range []int{3_000, 10_000, 30_000, 300_000} {
		if n > e.mostMessages {
			break
		}
		recipients := 2000
		if n == 10_000 {
			recipients = n
		}
		g.rows = append(g.rows, both(row{
			name: fmt.Sprint(n), replicas: 4,
			bounds: []report.Bound{report.AtLeast(quotaStart, .975), report.AtMost(report.Operations, 6.2)},
			script: func(r *rig) {
				r.until(2 * time.Second)
				landed := r.now()
				r.backlog(hot, n, recipients)
				longest := landed + 2*time.Duration(n/pageLimit)*time.Second + time.Minute
				for r.now() < longest && r.fleet.API().Ledger().Pending() > recipients/4 {
					time.Sleep(100 * time.Millisecond)
				}
				r.flow(window{landed + time.Second, r.now().Truncate(time.Second)}, pageLimit, quotaStart, refusedStart)
				for r.now() < longest && r.fleet.API().Ledger().Pending() > 0 {
					time.Sleep(time.Second)
				}
				r.until(r.now() + 5*time.Second) // the page falls idle
			},
		})...)
	}
	return g
}

func roomBursts() group {
	g := group{
		title: "Rooms that burst",
		text:  "On each of 20 pages, every 5 s, an event happens in six rooms at once: 600 copies, twice the limit of a second. The k-th copy of a burst cannot be sent before k/300 s: that is the ideal.",
	}
	for _, b := range []struct {
		replicas int
		most     float64
	}{{4, .003}, {16, .006}} {
		g.rows = append(g.rows, both(row{
			name: fmt.Sprintf("bursts on %d", b.replicas), replicas: b.replicas,
			bounds: []report.Bound{report.AtMost(refusedStart, b.most), report.AtMost(late, 2)},
			script: func(r *rig) {
				const length = 25 * time.Second
				for page := 1; page <= 20; page++ {
					r.speaks(room{page, 0, 6 * fanOut}, 5*time.Second, length)
				}
				r.until(length + 5*time.Second)
				r.refusedOfAll(length)
				beyond := r.record.times(window{0, length}, func(e *entry, now time.Duration) (time.Duration, bool) {
					return e.delay(now) - time.Duration(e.to)*time.Second/pageLimit, true
				})
				r.figures[late] = quantile(beyond, .99).Seconds()
			},
		})...)
	}
	return g
}

// about is half to one and a half, atRandom what makes a Poisson process; both
// are 1 at the mean.
func about(rng *rand.Rand) float64    { return 0.5 + rng.Float64() }
func atRandom(rng *rand.Rand) float64 { return rng.ExpFloat64() }

// speaking makes an event in a room of each of some pages, gap times every after
// the last one, and enters how long the copies took.
func speaking(pages int, every time.Duration, gap func(*rand.Rand) float64) func(*rig) {
	return func(r *rig) {
		const length = 60 * time.Second
		for page := firstCold; page < firstCold+pages; page++ {
			rng := r.random()
			r.work.Go(func() {
				for r.now() < length {
					time.Sleep(time.Duration(gap(rng) * float64(every)))
					var msgs []queue.Message
					for range fanOut {
						msgs = append(msgs, r.message(copyOf{page: page, to: rng.IntN(2000)}))
					}
					r.publish(msgs)
				}
			})
		}
		r.until(length + 5*time.Second)
		r.refusedOfAll(length)
		// In the second after an owner's first delivery nothing goes ahead of the
		// pace: by start each page has had an event.
		r.coldPages(window{start, length})
		r.waiting(window{start, length}, everybody)
	}
}

func roomsThatSpeak() group {
	g := group{
		title: "Rooms that speak",
		text: "On each of 20 pages, one event in a room of 100 every 1.5 to 4.5 s: a third of what the page may send in a second, at once. Or on each of 4 pages, one every 0.25 to 0.75 s: two thirds of the limit. " +
			"At random is a Poisson process on each of 4 pages: at two events a second three often fall into one, and the last must wait. " +
			"Delays are from publish to answer, of which the latency is most. The people are drawn from 2,000 with replacement, so one copy in 40 is the event's second one to its recipient and waits for the answer to the first: " +
			"the p99 of the waits cannot be below the 59th percentile of the latency, 772 ms or 46 ms. A leaky bucket, which takes 30 calls at once, teaches the dispatchers to send less than that. " +
			"Sixteen dispatchers still move partitions at first, and a new owner paces what comes in its first second.",
	}
	for _, n := range []int{1, 4, 16} {
		for _, of := range []struct {
			latency string
			p99     float64
		}{{slow, .85}, {quick, .06}} {
			if n == 16 {
				of.p99 = max(of.p99, .35) // the last of 100 copies that are paced
			}
			g.rows = append(g.rows, row{
				name: "every 3 s", replicas: n, latency: of.latency, script: speaking(20, 3*time.Second, about),
				bounds: []report.Bound{report.AtMost(refusedStart, .001), report.AtMost(waitP50, .05), report.AtMost(waitP99, of.p99)},
			})
		}
		g.rows = append(g.rows, both(row{
			name: "every 0.5 s", replicas: n, script: speaking(4, 500*time.Millisecond, about),
			bounds: []report.Bound{report.AtMost(refusedStart, .003), report.AtMost(waitP50, .1)},
		})...)
	}
	for _, n := range []int{1, 4} {
		g.rows = append(g.rows, both(row{
			name: "every 1 s at random", replicas: n, script: speaking(4, time.Second, atRandom),
			bounds: []report.Bound{report.AtMost(refusedStart, .003), report.AtMost(waitP50, .1)},
		})...)
		g.rows = append(g.rows, both(row{
			name: "every 0.5 s at random", replicas: n, script: speaking(4, 500*time.Millisecond, atRandom),
			bounds: []report.Bound{report.AtMost(refusedStart, .003), report.AtMost(waitP50, .2)},
		})...)
	}
	for _, a := range []limit.Algorithm{limit.SlidingLog, limit.TokenBucket, limit.LeakyBucket} {
		most := .01
		if a == limit.LeakyBucket { // each page's first event is refused two thirds of its calls
			most = .045
		}
		g.rows = append(g.rows, both(row{
			name: "every 1 s at random, " + string(a) + ", refused calls count", replicas: 4, script: speaking(4, time.Second, atRandom),
			settings: func(s *fakeapi.Settings) { s.Text.Algorithm, s.Text.CountRefused = a, true },
			bounds:   []report.Bound{report.AtMost(refusedStart, most), report.AtMost(waitP99, 2)},
		})...)
		g.rows = append(g.rows, both(row{
			name: "every 3 s, " + string(a) + ", refused calls count", replicas: 4, script: speaking(20, 3*time.Second, about),
			settings: func(s *fakeapi.Settings) { s.Text.Algorithm, s.Text.CountRefused = a, true },
			bounds:   []report.Bound{report.AtMost(refusedStart, most), report.AtMost(waitP99, 1.2)},
		})...)
	}
	return g
}
