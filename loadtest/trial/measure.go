package trial

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"chatclub/loadtest/judge"
	"chatclub/loadtest/report"
)

// quota is the share of what the limits let pass on the hot pages that was
// used, from the end of the warm-up to the end of the load. It counts calls: one
// may carry several messages. Measured are whole seconds of the run, which are
// as many of the platform's windows: of a part of one the share says nothing,
// because whoever retries has all of it at the window's begin.
func (t *trial) quota(run *report.Run, foreign []int64) {
	pages := t.Plan.hot()
	from, to := measured(t.Plan.Warm, t.length)
	if len(pages) == 0 || to <= from {
		return
	}
	n := float64(len(pages))
	if len(pages) > mostFollowed {
		if !t.Plan.onlyHot() {
			return
		}
		pages = []string{""}
	}
	const second = int(time.Second / tenth)
	used := 0.0
	for _, p := range pages {
		used += float64(sum(window(t.calls(p), from/second, to/second)))
	}
	allowed := 0.0
	for i := from; i < to; i++ {
		allowed += t.limitIn(i, tenth) * tenth.Seconds() * n
	}
	others := float64(sum(window(foreign, from, to)))
	run.QuotaUse = ratio(used-others, allowed-others)
}

// onlyHot reports whether every page has more to send than its limit.
func (p Plan) onlyHot() bool {
	return !slices.ContainsFunc(p.Streams, func(s Stream) bool { return s.Group != Hot })
}

// measured are the tenths of a second from the first whole second after the
// warm-up to the last of the load.
func measured(warm, length time.Duration) (from, to int) {
	const second = int(time.Second / tenth)
	return int((max(0, warm)+time.Second-1)/time.Second) * second, int(length/time.Second) * second
}

// limitIn is the platform's limit of one page in the i-th step of the run: that
// in its middle, because what is changed at a step's begin is changed a little
// later.
func (t *trial) limitIn(i int, step time.Duration) float64 {
	at := time.Duration(i)*step + step/2
	l := t.controls.limits[0].limit
	for _, c := range t.controls.limits {
		if c.at <= at {
			l = c.limit
		}
	}
	return l
}

// tenths are a group's acceptances by tenths of a second of the run.
func (t *trial) tenths(g judge.Group) []int64 {
	shift := int(max(0, g.Began.Sub(t.controls.begin)) / tenth)
	cells := make([]int64, shift, shift+len(g.Tenths))
	for _, n := range g.Tenths {
		cells = append(cells, int64(n))
	}
	return cells
}

// latencies are those of the groups. What has not arrived counts with how long
// it has waited: a system that leaves the slow ones is not fast.
func (t *trial) latencies(run *report.Run, groups map[string]judge.Group) {
	for _, name := range []string{Cold, Hot} {
		g, ok := groups[name]
		if !ok {
			continue
		}
		all := hdrhistogram.Import(g.Copies.Export())
		all.Merge(g.Waiting)
		run.Latency = append(run.Latency, report.NewLatency(name, all, time.Microsecond))
		p50, p99 := Quantile(all, 50), Quantile(all, 99)
		if name == Hot {
			run.HotP50MS, run.HotP99MS = p50, p99
		} else {
			run.ColdP50MS, run.ColdP99MS = p50, p99
		}
	}
}

// Quantile is a percentile in ms, nil of nothing.
func Quantile(h *hdrhistogram.Histogram, percent float64) *float64 {
	if h.TotalCount() == 0 {
		return nil
	}
	return new(float64(h.ValueAtPercentile(percent)) / 1000)
}

// rooms counts the room messages whose every copy arrived in time.
func (t *trial) rooms(run *report.Run, groups map[string]judge.Group) {
	if t.Plan.Room == 0 || t.Plan.InTime == 0 {
		return
	}
	var rooms, complete int64
	for _, g := range groups {
		rooms += g.Events
		complete += Within(g.Whole, t.Plan.InTime)
	}
	run.Rooms, run.CompleteRooms = &rooms, &complete
	run.GoodputPerS = ratio(float64(complete), t.length.Seconds())
}

// Within counts the values of a histogram in µs that are not above d.
func Within(h *hdrhistogram.Histogram, d time.Duration) (n int64) {
	for _, b := range h.Distribution() {
		if b.To <= d.Microseconds() {
			n += b.Count
		}
	}
	return n
}
