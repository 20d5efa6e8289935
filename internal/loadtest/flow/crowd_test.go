package flow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/limit"
	"chatclub/internal/queue"
)

// hotPages is how many of the pages of zipf are above their limit.
const hotPages = 6

// zipf returns the rates of 1,000 pages, the k-th of k^−1.5 of the first. The
// sixth is above the limit and the seventh below it, and none is beyond three
// times the limit. skip leaves out the first so many.
func zipf(skip int) map[int]float64 {
	rates := make(map[int]float64)
	for k := skip + 1; k <= 1000; k++ {
		rates[k] = min(3*pageLimit, 4900/math.Pow(float64(k), 1.5))
	}
	return rates
}

// firstCold is the first page of zipf whose rate is below half its limit. The
// pages between it and the hot ones are now and then in excess by themselves.
const firstCold = 11

// coldPages enters the delays of the pages that are far from their limit.
func (r *rig) coldPages(w window) {
	delays := r.record.delays(w, func(page int) bool { return page >= firstCold })
	r.figures[coldP50] = quantile(delays, .5).Seconds()
	r.figures[coldP99] = quantile(delays, .99).Seconds()
	r.figures[stall] = quantile(delays, 1).Seconds()
}

func manyPages() group {
	crowd := func(skip int) func(*rig) {
		return func(r *rig) {
			r.demand(spread(zipf(skip), 500))
			r.until(14 * time.Second)
			r.coldPages(window{2 * time.Second, 12 * time.Second})
			if skip == 0 {
				r.flow(window{start, 14 * time.Second}, pageLimit, quota, refused)
			}
		}
	}
	return group{
		title: "A thousand pages",
		text: "Rates fall with rank^−1.5, at most three times the limit: 7,500 messages a second, half of them of the six pages above their limit. " +
			"Cold are the 990 that stay below half of it. Delays are from publish to answer, of which the latency is most. The ratios compare with a run without the six; the stall is the longest delay of a cold message.",
		rows: []row{
			{
				name: "6 of 1,000 pages above the limit", replicas: 4, lanes: 64, script: crowd(0), control: crowd(hotPages),
				bounds: []bound{atMost(ratioP50, 1.1), atMost(ratioP99, 1.1)},
			},
			{
				name: "no page above the limit", replicas: 4, lanes: 64, bounds: []bound{atMost(operations, 3.05)},
				script: func(r *rig) {
					stop := r.demand(spread(evenly(1000), 500))
					r.until(12 * time.Second)
					stop()
					r.until(20 * time.Second)
					r.coldPages(window{2 * time.Second, 12 * time.Second})
				},
			},
		},
	}
}

// evenly is a total rate over the pages that never are hot.
func evenly(total float64) map[int]float64 {
	rates := make(map[int]float64)
	for k := hotPages + 1; k <= 1000; k++ {
		rates[k] = total / (1000 - hotPages)
	}
	return rates
}

// queueCapacity is how many operations a second a queue does where it matters:
// in the lower half of what was measured on RabbitMQ.
const queueCapacity = 15_000

// coldRate is that of all other pages while a backlog lands.
const coldRate = 200

// landing is a backlog of one page that lands at once, directly or through
// core; n = 0 is without.
func landing(n int, core bool, length time.Duration) func(*rig) {
	return func(r *rig) {
		r.demand(spread(evenly(coldRate), 500))
		r.until(start)
		where := r.directly
		if core {
			where = r.throughCore()
		}
		if n > 0 {
			r.backlog(hot, n, 2000, where)
		}
		r.until(start + length + 2*time.Second)
		r.coldPages(window{start, start + length})
	}
}

func backlogs(e extent) group {
	g := group{
		title: "A backlog of one page lands at once",
		text: "200 messages a second for 1,000 other pages, which are the cold ones; each queue of the broker does 15,000 operations a second. " +
			"Through core, what is more than a second's worth is published on the page's lane, by core's own gate; directly, all of it on `outbound`, which has to pass it on. The ratios compare with a run without the backlog. " +
			"300,000 messages are one run each.",
	}
	for _, n := range []int{30_000, 300_000} {
		if n > e.mostMessages {
			break
		}
		seeds := 0
		if n > 30_000 {
			seeds = 1
		}
		g.rows = append(g.rows,
			row{
				name: fmt.Sprintf("%d through core", n), replicas: 4, lanes: 64, capacity: queueCapacity, seeds: seeds,
				script: landing(n, true, 20*time.Second), control: landing(0, true, 20*time.Second),
				bounds: []bound{atMost(ratioP99, 1.5)},
			},
			row{
				name: fmt.Sprintf("%d directly", n), replicas: 4, lanes: 64, capacity: queueCapacity, seeds: seeds,
				script: landing(n, false, time.Duration(n/1500)*time.Second),
				// The cold messages of that time take part of the capacity, too.
				bounds: []bound{atMost(stall, 3*float64(n)/(queueCapacity-3*coldRate))},
			},
		)
	}
	return g
}

func drains(e extent) group {
	g := group{
		title: "A backlog is drained",
		text: "One page's backlog lands on `outbound` and is sent to the last message, on four replicas. Broker operations are publishes, deliveries and acknowledgements; " +
			"the first publish counts. Inversions are as above: those against the order of publishing come of four replicas that move the backlog to the lane side by side. 300,000 messages are one run.",
	}
	for _, n := range []int{3_000, 30_000, 300_000} {
		if n > e.mostMessages {
			break
		}
		seeds := 0
		if n > 30_000 {
			seeds = 1
		}
		g.rows = append(g.rows, row{
			name: fmt.Sprintf("%d", n), replicas: 4, seeds: seeds,
			bounds: []bound{atMost(operations, 6.1), atMost(overtaken, 0)},
			script: func(r *rig) {
				r.until(2 * time.Second)
				landed := r.now()
				r.backlog(hot, n, 2000, r.directly)
				longest := landed + 2*time.Duration(n/pageLimit)*time.Second + time.Minute
				for r.now() < longest && (r.fleet.API().Ledger().Pending() > 0) {
					time.Sleep(time.Second)
				}
				end := r.now().Truncate(time.Second) - time.Second
				r.flow(window{landed, end}, pageLimit, quotaStart, refusedStart)
				r.until(r.now() + 5*time.Second) // the page falls idle
			},
		})
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
		g.rows = append(g.rows, row{
			name: fmt.Sprintf("bursts on %d", b.replicas), replicas: b.replicas, lanes: 64,
			bounds: []bound{atMost(refusedStart, b.most), atMost(late, 2)},
			script: func(r *rig) {
				for page := 1; page <= 20; page++ {
					r.bursts(page, 2*pageLimit/fanOut, 5*time.Second)
				}
				length := 25 * time.Second
				r.until(length + 5*time.Second)
				c := r.series("", window{0, length})
				r.figures[refusedStart] = float64(c.Refused) / float64(max(c.Accepted, 1))
				r.figures[late] = quantile(r.record.delays(window{0, length}, func(int) bool { return true }), .99).Seconds()
			},
		})
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
						msgs = append(msgs, r.message(page, rng.IntN(2000), 0, r.topology().Outbound()))
					}
					r.publish(msgs)
				}
			})
		}
		r.until(length + 5*time.Second)
		c := r.series("", window{0, length})
		r.figures[refusedStart] = float64(c.Refused) / float64(max(c.Accepted, 1))
		r.coldPages(window{2 * time.Second, length})
	}
}

func roomsThatSpeak() group {
	g := group{
		title: "Rooms that speak",
		text: "On each of 20 pages, one event in a room of 100 every 1.5 to 4.5 s: a third of what the page may send in a second, at once. Or on each of 4 pages, one every 0.25 to 0.75 s: two thirds of the limit. " +
			"At random is a Poisson process on each of 4 pages: at two events a second three often fall into one, and the last must wait. " +
			"Delays are from publish to answer, of which the latency is most. A leaky bucket, which takes 30 calls at once, teaches the dispatchers to send less than that.",
	}
	for _, n := range []int{1, 4, 16} {
		g.rows = append(g.rows, row{
			name: "every 3 s", replicas: n, lanes: 64, script: speaking(20, 3*time.Second, about),
			bounds: []bound{atMost(refusedStart, .001), atMost(coldP99, .25)},
		}, row{
			name: "every 0.5 s", replicas: n, lanes: 64, script: speaking(4, 500*time.Millisecond, about),
			bounds: []bound{atMost(refusedStart, .003), atMost(coldP50, .1)},
		})
	}
	for _, n := range []int{1, 4} {
		p50, p50fast, refusals := .1, .25, .0
		if n > 1 { // others may still be free while the page is in its lane
			p50, p50fast, refusals = .25, .6, .003
		}
		g.rows = append(g.rows, row{
			name: "every 1 s at random", replicas: n, lanes: 64, script: speaking(4, time.Second, atRandom),
			bounds: []bound{atMost(refusedStart, refusals), atMost(coldP50, p50)},
		}, row{
			name: "every 0.5 s at random", replicas: n, lanes: 64, script: speaking(4, 500*time.Millisecond, atRandom),
			bounds: []bound{atMost(refusedStart, refusals), atMost(coldP50, p50fast)},
		})
	}
	for _, a := range []limit.Algorithm{limit.SlidingLog, limit.LeakyBucket} {
		most := 0.0
		if a == limit.LeakyBucket {
			most = .01
		}
		g.rows = append(g.rows, row{
			name: "every 1 s at random, " + string(a) + ", refused calls count", replicas: 1, lanes: 64, script: speaking(4, time.Second, atRandom),
			settings: func(s *fakeapi.Settings) { s.Text.Algorithm, s.Text.CountRefused = a, true },
			bounds:   []bound{atMost(refusedStart, most), atMost(coldP99, 2)},
		})
	}
	for _, a := range []limit.Algorithm{limit.SlidingLog, limit.TokenBucket, limit.LeakyBucket} {
		g.rows = append(g.rows, row{
			name: "every 3 s, " + string(a) + ", refused calls count", replicas: 4, lanes: 64, script: speaking(20, 3*time.Second, about),
			settings: func(s *fakeapi.Settings) { s.Text.Algorithm, s.Text.CountRefused = a, true },
			bounds:   []bound{atMost(refusedStart, .01), atMost(coldP99, 1)},
		})
	}
	return g
}
