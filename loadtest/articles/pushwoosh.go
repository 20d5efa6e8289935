package articles

import (
	"context"
	"fmt"
	"math"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"

	"chatclub/fakeapi/limit"
	"chatclub/internal/article"
	"chatclub/internal/excess"
	"chatclub/loadtest/report"
	"chatclub/loadtest/strategy"
)

// pushwoosh is the experiments of Pushwoosh's article.
func pushwoosh() []Experiment {
	return []Experiment{
		{"pushwoosh-limiters", "Pushwoosh: five limiters, 10,000 calls, requests delayed after 4 and 6 s", limiters},
		{"pushwoosh-race", "Pushwoosh: get then set, with a lock, and set then get", race},
		{"pushwoosh-sync", "Pushwoosh: how often local counters are summed", syncPeriod},
	}
}

// limiters: 100 daemons send 10,000 lines as fast as one limiter of 1,000 a second on their
// side lets them. After 4 and after 6 seconds the network stands still for a second: the
// requests that are under way are delayed, and those behind them.
func limiters(uint64) (res Result) {
	const rate, lines, request = 1000, 10_000, 20 * time.Millisecond
	for _, row := range []struct {
		algorithm limit.Algorithm
		says      string
		touches   float64    // reads and writes of a store for a decision: a sum is one, a log is swept, counted and added to
		let       [2]float64 // bounds of the most in a second
	}{
		{limit.FixedWindow, "may double", 1, [2]float64{1900, 2000}},
		{limit.SlidingWindow, "approximate", 2, [2]float64{1500, 2000}},
		{limit.SlidingLog, "may exceed after a delay", 3, [2]float64{1000, 1000}},
		{limit.TokenBucket, "never exceeds", 2, [2]float64{1900, 2000}},
		{limit.LeakyBucket, "even", 2, [2]float64{1000, 1100}},
	} {
		build := func() limit.Limiter { // its windows begin beside the delays
			l, err := limit.New(limit.Config{Algorithm: row.algorithm, Limit: rate, Phase: 250 * time.Millisecond})
			must(err)
			return l
		}
		c, l, decisions := newClock(time.Minute), build(), 0.
		var let, arrived []float64
		for range 100 {
			c.spawn(func(sleep func(time.Duration)) {
				for len(let) < lines {
					if decisions++; !l.Allow(c.now) {
						sleep(max(time.Millisecond, l.Wait(c.now)))
						continue
					}
					let = append(let, c.since())
					sleep(request / 2)
					if at := c.since(); int(at) == 4 || int(at) == 6 {
						sleep(time.Duration((math.Floor(at) + 1 - at) * float64(time.Second)))
					}
					arrived = append(arrived, c.since())
					sleep(request / 2)
				}
			})
		}
		c.run()
		name := string(row.algorithm)
		res.Charts = append(res.Charts, report.Chart{
			Title: name + ": requests that arrive, in slots of 0.1 s", X: "seconds", Y: "a second", Steps: true,
			Lines: []report.Line{course("arrive", arrived, .1, 14), course("let through", let, .1, 14)},
		})
		res.Rows = append(res.Rows,
			Row{name + ": most of 1,000 let through in a second", row.says, busiest(let), "", row.let[0], row.let[1]},
			Row{name + ": most that arrive in a second", "", busiest(arrived), "", row.let[0], row.let[1] + 100},
			Row{name + ": store accesses for each request", "", decisions * row.touches / lines, "", row.touches, 200},
			Row{name + ": memory", "", memory(build), "bytes", 30, 9000})
	}
	res.Notes = []string{"The opposite of the article: a token bucket lets twice its rate through, at the begin and after each delay, and only the log never exceeds. What the log let through before a delay arrives after it, beside what it lets through then."}
	return res
}

// memory returns the bytes that a limiter takes.
func memory(build func() limit.Limiter) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		runtime.KeepAlive(build())
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / 1000
}

// race: eight senders share a counter of 1,000 a second, in a store that is a millisecond
// away.
func race(uint64) (res Result) {
	const rate, trip = 1000, time.Millisecond
	for _, row := range []struct {
		name, article string
		least, most   float64
		locks, adds   bool
	}{
		{"get, then set", "more than 1,000", 1500, 8000, false, false},
		{"get, then set, under a lock", "a bottleneck", 100, 500, true, false},
		{"set, then get", "right", rate, rate, false, true},
	} {
		c, taken, accesses, counter, locked := newClock(time.Second), 0., 0., 0, false
		for range 8 {
			c.spawn(func(sleep func(time.Duration)) {
				do := func(f func()) { // one access
					sleep(trip / 2)
					accesses++
					f()
					sleep(trip / 2)
				}
				for c.runs() {
					for mine := !row.locks; !mine; {
						do(func() { mine, locked = !locked, true })
					}
					n := 0
					do(func() {
						if n = counter; row.adds {
							counter++
						}
					})
					if n < rate {
						if taken++; !row.adds {
							do(func() { counter = n + 1 })
						}
					}
					if row.locks {
						do(func() { locked = false })
					}
				}
			})
		}
		c.run()
		res.Rows = append(res.Rows,
			Row{row.name + ": taken of 1,000 in a second", row.article, taken, "", row.least, row.most},
			Row{row.name + ": store accesses for each", "", accesses / taken, "", 1, 30})
	}
	return res
}

// replica is one of a strategy that shares a Redis with others, on an experiment's clock.
type replica struct {
	strategy.Strategy
	sent []float64 // seconds
}

// onRedis makes replicas of a strategy and their Redis, which is in this process.
func onRedis(c *clock, seed uint64, name string, cfg strategy.Config) (list []*replica, server *miniredis.Miniredis) {
	server = miniredis.NewMiniRedis()
	server.SetTime(c.now)
	server.ClockTTL(true)
	c.every(always(100), steady, func() { server.SetTime(c.now) })
	cfg.RedisURL, cfg.KeyPrefix, cfg.Fault = "redis://127.0.0.1:1", "articles", must
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return server.Dial() }
	cfg.Now, cfg.Random = func() time.Time { return c.now }, random(seed).Float64
	info, _ := strategy.Find(name)
	for cfg.Replica = range cfg.Replicas {
		s, err := info.New(cfg)
		must(err)
		list = append(list, &replica{Strategy: s})
	}
	return list, server
}

// sends has a replica send for some seconds, so much a second at most.
func (r *replica) sends(c *clock, from, until, perSecond float64) {
	k := excess.Key{Page: hot, Class: "text"}
	c.spawn(func(sleep func(time.Duration)) {
		for sleep(time.Duration(from * float64(time.Second))); c.since() < until; {
			wait := time.Millisecond
			if float64(len(r.sent)) <= perSecond*(c.since()-from) {
				d := r.Offer(c.now, k, false)
				if wait = max(wait, d.Wait); d.Action == article.Send {
					r.sent = append(r.sent, c.since())
					continue
				}
			}
			sleep(wait)
		}
	})
}

// merge returns when all replicas sent, in order.
func merge(list []*replica) (all []float64) {
	for _, r := range list {
		all = append(all, r.sent...)
	}
	slices.Sort(all)
	return all
}

// syncPeriod: four senders count for themselves against 300 a second, and add up their
// counts now and then.
func syncPeriod(seed uint64) (res Result) {
	over, price := report.Line{Name: "over the limit, %"}, report.Line{Name: "store accesses a second"}
	for _, row := range []struct {
		period                        time.Duration
		leastOver, mostOver, accesses float64
	}{
		{10 * time.Millisecond, 1, 1.05, 500},
		{100 * time.Millisecond, 1, 1.2, 60},
		{300 * time.Millisecond, 1.2, 2, 25},
		{time.Second, 1.5, 4, 8},
		{10 * time.Second, 3, 4, 2},
	} {
		length := max(5*time.Second, 3*row.period)
		c := newClock(length)
		list, server := onRedis(c, seed, "synced", strategy.Config{Replicas: 4, SyncEvery: row.period, Limit: func(string) float64 { return 300 }})
		for _, r := range list {
			r.sends(c, 0, length.Seconds(), math.Inf(1))
		}
		c.run()
		most, accesses := busiest(merge(list))/300, float64(server.CommandCount())/length.Seconds()
		for _, r := range list {
			must(r.Close())
		}
		server.Close()
		x := row.period.Seconds()
		over.X, over.Y = append(over.X, x), append(over.Y, 100*(most-1))
		price.X, price.Y = append(price.X, x), append(price.Y, accesses)
		name := fmt.Sprintf("summed every %v", row.period)
		res.Rows = append(res.Rows,
			Row{name + ": most in a second, of the limit", "", most, "%", row.leastOver, row.mostOver},
			Row{name + ": store accesses a second", "", accesses, "", 0, row.accesses})
	}
	res.Charts = []report.Chart{{Title: "the price of the period", X: "seconds between two sums", Y: "% over the limit, accesses a second", Lines: []report.Line{over, price}}}
	return res
}
