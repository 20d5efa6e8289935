package flow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"chatclub/loadtest/report"

	"chatclub/fakeapi"
	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// Pages of the rows in which something is sick.
const (
	sickPage  = 2
	quietPage = 3
	busyPage  = 4
)

// Loads that the load tests have against the clock, too: a message of the sick page, the
// quiet and the busy one every so often, an event in the sick member's room, and a
// room in the partition of a page with three times its limit.
const (
	sickPageEvery  = 50 * time.Millisecond
	quietPageEvery = 7 * time.Second
	busyPageEvery  = 20 * time.Millisecond

	neighbourRoom  = 33
	neighbourTimes = 3

	roomsP50 = 2.5 // seconds that copies in ten rooms wait at most
)

func everybody(*entry) bool { return true }

// waiting enters how long messages waited.
func (r *rig) waiting(w window, of func(*entry) bool) {
	waits := r.record.waits(w, of)
	r.figures[waitP50] = quantile(waits, .5).Seconds()
	r.figures[waitP99] = quantile(waits, .99).Seconds()
}

// all enters how long all messages waited, and how many arrived.
func (r *rig) all(length time.Duration) {
	r.waiting(window{0, length}, everybody)
	r.figures[report.Others], _, _ = r.record.delivered(everybody)
}

// others enters what became of the messages that nothing is wrong with. Their
// delays are those of cold pages, which the ratios are about.
func (r *rig) others(w window, of func(*entry) bool) {
	delays := r.record.delays(w, of)
	r.cold(delays)
	share, _, _ := r.record.delivered(of)
	r.figures[report.Others] = share
}

// livelyRooms are rooms in which more is written than the latency, or the limit,
// lets pass as single messages.
func livelyRooms() group {
	g := group{
		title: "Lively rooms",
		text: "A room of 99 in which something happens once, twice or five times a second for a minute: at five it is 495 copies a second, and an answer takes 0.7 s. " +
			"Then ten such rooms on one page, an event a second each: 3.3 times the limit. What waits for the same person goes out in one message.",
	}
	const length = time.Minute
	for _, n := range []int{1, 4, 16} {
		for _, perSecond := range []float64{1, 2, 5} { // the load test has ten
			g.rows = append(g.rows, row{
				name: fmt.Sprintf("one room, %g events/s", perSecond), replicas: n, latency: slow,
				bounds: []report.Bound{report.AtLeast(report.Others, 1), report.AtMost(waitP50, .6), report.AtMost(waitP99, 2.5)},
				script: lively(1, time.Duration(float64(time.Second)/perSecond), length),
			})
		}
		g.rows = append(g.rows, row{
			name: "ten rooms at 3.3 × the limit", replicas: n, latency: slow,
			bounds: []report.Bound{report.AtLeast(report.Others, 1), report.AtMost(waitP50, roomsP50)}, script: lively(10, time.Second, length),
		})
	}
	g.rows = append(g.rows, row{
		name: "ten rooms at 3.3 × the limit", replicas: 4, latency: quick,
		bounds: []report.Bound{report.AtLeast(report.Others, 1), report.AtMost(waitP50, roomsP50)}, script: lively(10, time.Second, length),
	})
	return g
}

func lively(rooms int, every, length time.Duration) func(*rig) {
	return func(r *rig) {
		r.until(2 * time.Second)
		for i := range rooms {
			r.speaks(room{hot, 100 * i, 99}, every, length)
		}
		r.until(length + 40*time.Second)
		r.all(length)
	}
}

// smallLimits are pages whose limit is small, so that a share of it would be a
// few calls.
func smallLimits() group {
	g := group{
		title: "Small limits",
		text: "Ten pages with a limit of 30/s at 0.9 of it: message after message for one page after the other, or for a page at random, each to somebody else. " +
			"At random 30 and more often fall into a second: a sender that keeps to 30 in every second has a p99 of 0.4 s at least. " +
			"Audio has a limit of 10/s: four pages at 0.8 of it, at equal distances.",
	}
	const length = 40 * time.Second
	const limit = 30
	pages := func(next func(rng *rand.Rand, i int) int) func(*rig) {
		return func(r *rig) {
			rng := r.random()
			r.until(2 * time.Second)
			r.repeats(time.Second*10/(9*limit*10), length, func(i int) copyOf { return copyOf{page: 11 + next(rng, i), to: i} })
			r.until(length + 10*time.Second)
			r.all(length)
		}
	}
	for _, x := range []struct {
		name string
		next func(*rand.Rand, int) int
		p99  float64
	}{
		{"ten pages in turn", func(_ *rand.Rand, i int) int { return i % 10 }, .3},
		{"ten pages at random", func(rng *rand.Rand, _ int) int { return rng.IntN(10) }, 1},
	} {
		g.rows = append(g.rows, both(row{
			name: x.name, replicas: 4, limit: limit, script: pages(x.next),
			bounds: []report.Bound{report.AtLeast(report.Others, 1), report.AtMost(waitP50, .03), report.AtMost(waitP99, x.p99)},
		})...)
	}
	g.rows = append(g.rows, both(row{
		name: "audio at 0.8 × its limit", replicas: 16,
		bounds: []report.Bound{report.AtLeast(report.Others, 1), report.AtMost(waitP99, 1)},
		script: func(r *rig) {
			r.until(2 * time.Second)
			for page := range 4 {
				rng := r.random()
				r.repeats(time.Second/8, length, func(int) copyOf { return copyOf{page: 11 + page, to: rng.IntN(1000), media: true} })
			}
			r.until(length + 10*time.Second)
			r.all(length)
		},
	})...)
	return g
}

// sickPeople are rooms with one member to whom no message can be sent.
func sickPeople() group {
	g := group{
		title: "One person who cannot be sent to",
		text: "Every call to one member of a room of 99 is answered with a code that nobody knows, with an event a second, for five minutes. " +
			"Delivered, delays and ratios are of the others; the ratios compare with a run without the sick.",
	}
	sick := func(e *entry) bool { return e.page == hot && e.to == 3 }
	well := func(e *entry) bool { return !sick(e) }
	const length = 5 * time.Minute
	script := func(isSick bool) func(*rig) {
		return func(r *rig) {
			if isSick {
				r.breaks(hot, func(ctx context.Context, next dispatch.Caller, m message.Outbound) sender.Result {
					if m.To != "1000003" {
						return next.Send(ctx, m)
					}
					return fails(ctx, 99_999, 40*time.Millisecond)
				})
			}
			r.until(2 * time.Second)
			r.speaks(room{hot, 0, 99}, time.Second, length)
			r.until(length + time.Minute)
			r.others(window{0, length}, well)
			if isSick {
				_, _, calls := r.record.delivered(sick)
				r.figures[sickCalls] = float64(calls)
			}
		}
	}
	for _, n := range []int{1, 4} {
		g.rows = append(g.rows, both(row{
			name: "one who is sick in a busy room", replicas: n, faulty: true, deaths: true, script: script(true), control: script(false),
			bounds: []report.Bound{report.AtLeast(report.Others, 1), report.AtMost(ratioP99, 1.2), report.AtMost(sickCalls, 100)},
		})...)
	}
	return g
}

// sickPages are pages whose every call fails.
func sickPages() group {
	g := group{
		title: "One page that is sick",
		text: "A page with 20 messages a second is answered 500, or not at all, for five minutes. Beside it are a page with a message every 7 s and one with 50 a second, to which delivered, delays and ratios belong; " +
			"the ratios compare with a run in which the page is well.",
	}
	const length = 5 * time.Minute
	script := func(how string) func(*rig) {
		return func(r *rig) {
			if how != "" {
				r.breaks(sickPage, func(ctx context.Context, _ dispatch.Caller, _ message.Outbound) sender.Result {
					if how == "hangs" {
						return hangs(ctx)
					}
					return fails(ctx, 2, 40*time.Millisecond)
				})
			}
			r.until(2 * time.Second)
			for page, every := range map[int]time.Duration{sickPage: sickPageEvery, quietPage: quietPageEvery, busyPage: busyPageEvery} {
				rng := r.random()
				r.repeats(every, length, func(int) copyOf { return copyOf{page: page, to: rng.IntN(200)} })
			}
			r.until(length + time.Minute)
			r.others(window{0, length}, func(e *entry) bool { return e.page != sickPage })
			_, most, _ := r.record.delivered(everybody)
			r.figures[mostCalls] = float64(most)
		}
	}
	for _, how := range []string{"answers 500", "hangs"} {
		g.rows = append(g.rows, both(row{
			name: "a page " + how, replicas: 4, faulty: true, deaths: true, script: script(how), control: script(""),
			bounds: []report.Bound{report.AtLeast(report.Others, 1), report.AtMost(ratioP99, 1.2), report.AtMost(mostCalls, 9)},
		})...)
	}
	return g
}

// beside returns another page of the hot one's partition.
func (r *rig) beside() int {
	for page := 1000; ; page++ {
		if r.partition(page) == r.partition(hot) {
			return page
		}
	}
}

// neighbours share a partition, a page, or a sender.
func neighbours() group {
	g := group{
		title: "Neighbours",
		text: "Of two pages of one partition one has three times its limit to send, or is refused whatever it sends. The other is a room of 33 with an event a second and, after a minute, a burst of 500. " +
			"Stall is the longest wait in the burst, whose last message cannot be sent before 1.7 s. Delivered, delays and ratios are of the events from 10 s after the burst on, against a run without the neighbour. " +
			"Then 25 audio messages a second beside text at three times its limit.",
	}
	const length = 2 * time.Minute
	burst := func(how string) func(*rig) {
		return func(r *rig) {
			other := r.beside()
			if how == "shut" {
				r.breaks(other, func(ctx context.Context, _ dispatch.Caller, _ message.Outbound) sender.Result {
					return refuses(ctx, 40*time.Millisecond)
				})
			}
			r.speaks(room{hot, 0, neighbourRoom}, time.Second, length)
			if how == "saturated" {
				r.until(time.Minute / 2) // it is in excess long before the burst
			}
			if how != "" {
				r.demand(saturate(other, neighbourTimes*pageLimit))
			}
			r.until(time.Minute)
			r.event(room{hot, 1000, 500})
			r.until(length + 10*time.Second)
			ours := func(e *entry) bool { return e.page == hot }
			r.figures[stall] = quantile(r.record.waits(window{time.Minute, time.Minute + cell}, ours), 1).Seconds()
			r.others(window{70 * time.Second, length}, ours)
		}
	}
	for _, n := range []int{1, 4} {
		for _, how := range []string{"saturated", "shut"} {
			g.rows = append(g.rows, both(row{
				name: "a neighbour that is " + how, replicas: n, faulty: true, script: burst(how), control: burst(""),
				bounds: []report.Bound{report.AtLeast(report.Others, 1), report.AtMost(stall, 500./pageLimit+3), report.AtMost(ratioP99, 1.2)},
			})...)
		}
	}
	g.rows = append(g.rows, both(row{
		name: "25 audio messages a second beside text at 3 × its limit", replicas: 4,
		bounds: []report.Bound{report.AtLeast(report.Quota, .97), report.AtMost(report.Refused, .005)},
		script: func(r *rig) {
			r.demand(saturate(hot, 3*pageLimit))
			r.repeats(40*time.Millisecond, length, func(n int) copyOf { return copyOf{page: hot, to: 5000 + n, media: true} })
			r.until(time.Minute)
			r.flow(window{start, time.Minute}, pageLimit, report.Quota, report.Refused)
		},
	})...)
	return g
}

// sicknesses returns the rows of other faults around a dispatcher.
func sicknesses() group {
	return group{
		title: "What else goes wrong",
		text: "SIGTERM: a page at 0.8 of its limit loses its sender while a call of another page takes 9 s; silent is how long nothing of it is accepted, and ratios compare with a run without the slow call. " +
			"A lower limit: the platform takes 50/s, which nobody was told, and a room of 99 has an event every 20 s; the refusals are those after the first three events.",
		rows: slices.Concat(both(sigterm()), both(lowerLimit())),
	}
}

func sigterm() row {
	script := func(slowCall bool) func(*rig) {
		return func(r *rig) {
			other := r.beside()
			if slowCall {
				r.breaks(other, func(ctx context.Context, next dispatch.Caller, m message.Outbound) sender.Result {
					defer time.Sleep(9 * time.Second)
					return next.Send(ctx, m)
				})
			}
			r.demand(saturate(hot, .8*pageLimit))
			r.until(changeAt)
			r.publish([]queue.Message{r.message(copyOf{page: other, to: 1})})
			time.Sleep(time.Second)
			at := r.now()
			owner := r.owner(hot, true)
			r.work.Go(func() { r.leave(owner) })
			r.until(changeAt + 25*time.Second)
			r.figures[report.Silence] = r.record.silent(hot, window{at.Truncate(cell), at + 20*time.Second}).Seconds()
			r.others(window{changeAt, changeAt + 15*time.Second}, func(e *entry) bool { return e.page == hot })
		}
	}
	return row{
		name: "SIGTERM while a call takes 9 s", replicas: 2, script: script(true), control: script(false),
		doubles: true, // calls are waited for 5 s, and then made again by the next owner
		bounds:  []report.Bound{report.AtMost(report.Silence, 5.5), report.AtLeast(report.Others, .9)},
	}
}

func lowerLimit() row {
	const every = 20 * time.Second
	return row{
		name: "a limit of 50 and an event every 20 s", replicas: 2,
		bounds:   []report.Bound{report.AtMost(refusedLater, .02)},
		ifSlow:   []report.Bound{report.AtMost(refusedLater, .05)},
		settings: func(s *fakeapi.Settings) { s.Text.PerSecond = 50 },
		script: func(r *rig) {
			r.until(2 * time.Second)
			for range 12 {
				r.event(room{hot, 0, 99})
				time.Sleep(every)
			}
			r.flow(window{2*time.Second + 3*every, 2*time.Second + 12*every}, 50, quotaLater, refusedLater)
			delete(r.figures, quotaLater)
		},
	}
}
