package articles

import (
	"fmt"
	"time"

	"chatclub/fakeapi/limit"
	"chatclub/internal/article"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/loadtest/report"
	"chatclub/loadtest/strategy"
)

// azure is the experiments of Azure's pattern.
func azure() []Experiment {
	return []Experiment{
		{"azure-calls", "Azure: 10,000 records where 2,000 a second are taken", records},
		{"azure-leases", "Azure: two processes lease parts of a limit, step by step", leases},
	}
}

// records: 10,000 records, a hundred for each of 100 people, are there at once. The store
// takes 20,000 units a second, of which a record costs ten. The naive way sends all that is
// left in each second.
func records(seed uint64) (res Result) {
	const all, perSecond = 10_000, 2000
	chart := report.Chart{Title: "calls to a store that takes 2,000 a second", X: "seconds", Y: "calls", Steps: true}
	k := excess.Key{Page: hot, Class: "text"}
	play := func(name string, says, bounds [3]float64, begin func(c *clock, call func() excess.Result)) {
		c, made, refused := newClock(time.Minute), []float64(nil), 0.
		store, err := limit.New(limit.Config{Algorithm: limit.FixedWindow, Limit: perSecond})
		must(err)
		begin(c, func() excess.Result {
			if made = append(made, c.since()); store.Allow(c.now) {
				return excess.Accepted
			}
			refused++
			return excess.Refused
		})
		c.run()
		chart.Lines = append(chart.Lines, course(name, made, 1, 7))
		for i, v := range []float64{float64(len(made)), refused, made[len(made)-1]} {
			what := []string{"calls", "errors", "seconds until the last is sent"}[i]
			res.Rows = append(res.Rows, Row{name + ": " + what, report.Figure("").Text(says[i]), v, "", .99 * bounds[i], 1.04 * bounds[i]})
		}
	}
	play("naive", [3]float64{30_000, 20_000, 4}, [3]float64{30_000, 20_000, 4}, func(c *clock, call func() excess.Result) {
		g := naive(seed)
		var send func()
		send = func() {
			if call() == excess.Refused {
				c.after(g.Done(c.now, k, true, excess.Refused), send)
			}
		}
		for range all {
			c.after(0, send)
		}
	})
	for i, most := range []int{1, 8} {
		bounds := [][3]float64{{all, 0, 5}, {1300, 0, 0}}[i] // joined, there are 13 calls for each person
		play(fmt.Sprintf("ours, texts joined to %d at most", most), [3]float64{all, 0, 5}, bounds, func(c *clock, call func() excess.Result) {
			m := excess.New(func(excess.Key) float64 { return perSecond })
			var waiting []message.Outbound
			for i := range all {
				waiting = append(waiting, message.Outbound{ID: fmt.Sprint(i), To: fmt.Sprint(i / 100), Text: "a record", Class: message.ClassText, Joins: true})
			}
			c.spawn(func(sleep func(time.Duration)) {
				for len(waiting) > 0 {
					wait, permit := m.Offer(c.now, k, time.Time{})
					if wait > 0 {
						sleep(wait)
						continue
					}
					n := 1
					for n < len(waiting) && waiting[n].To == waiting[0].To {
						n++
					}
					_, n = message.Join(waiting[:n], most)
					got := call()
					if got == excess.Accepted {
						waiting = waiting[n:]
					}
					c.after(40*time.Millisecond, func() { m.Done(c.now, permit, got) })
				}
			})
		})
	}
	res.Charts = []report.Chart{chart}
	return res
}

// leases: two processes share 500 a second. A has 300 a second to send for 60 seconds, and
// B has 450 a second from 20 to 100 seconds. A gives its leases back at its end, or dies
// with them.
func leases(seed uint64) (res Result) {
	for _, gives := range []bool{true, false} {
		c := newClock(100 * time.Second)
		list, server := onRedis(c, seed, "leased", strategy.Config{Replicas: 2, GiveBack: gives, Limit: func(string) float64 { return 500 }})
		list[0].sends(c, 0, 60, 300)
		list[1].sends(c, 20, 100, 450)
		c.after(60*time.Second+time.Millisecond, func() { must(list[0].Close()) })
		c.run()
		a, b := course("A", list[0].sent, 1, 100), course("B", list[1].sent, 1, 100)
		full := 60 // when B has four fifths
		for full < 99 && b.Y[full] < 400 {
			full++
		}
		end, least, most := "A dies", 5., 16.
		if gives {
			end, least, most = "A gives back", 0, 5
			res.Charts = []report.Chart{{Title: "two processes that lease parts of 500 a second", X: "seconds", Y: "a second", Steps: true, Lines: []report.Line{a, b}}}
			res.Rows = []Row{
				{"A alone, in its first second", "100/s, then more", a.Y[0], "/s", 50, 250},
				{"A alone, from 5 to 20 s", "300/s", mean(a.Y[5:20]), "/s", 270, 330},
				{"A beside B", "", mean(a.Y[40:60]), "/s", 200, 320},
				{"B beside A", "", mean(b.Y[40:60]), "/s", 100, 300},
				{"most of both in a second", "never above 500", busiest(merge(list)), "", 400, 500},
			}
		}
		must(list[1].Close())
		server.Close()
		res.Rows = append(res.Rows, Row{"until B has four fifths after A's end, " + end, "15 s at most", float64(full - 60), "s", least, most})
	}
	return res
}

// naive returns the gate of the naive strategy.
func naive(uint64) article.Gate {
	info, _ := strategy.Find("naive")
	s, err := info.New(strategy.Config{})
	must(err)
	return s
}
