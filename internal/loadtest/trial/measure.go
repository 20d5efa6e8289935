package trial

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"chatclub/internal/loadtest/judge"
	"chatclub/internal/loadtest/report"
)

// quota is the share of what the limits let pass on the hot pages that was
// used, from the end of the warm-up to the end of the load. Only first
// acceptances of announced messages count. Measured are whole seconds of the
// run, which are as many of the platform's windows. Of a part of a window the
// share says nothing, because a dispatcher that retries has all of it at the
// window's begin.
func (t *trial) quota(run *report.Run, groups map[string]judge.Group, foreign []int64) {
	g, ok := groups[Hot]
	pages := t.Plan.hotPages()
	from, to := measured(t.Plan.Warm, t.length)
	if !ok || to <= from {
		return
	}
	allowed := 0.0
	for i := from; i < to; i++ {
		allowed += t.controls.limitIn(i, tenth) * tenth.Seconds() * float64(pages)
	}
	allowed -= float64(sum(window(foreign, from, to)))
	run.QuotaUse = ratio(float64(sum(window(tenths(g, t.controls.begin), from, to))), allowed)
}

// measured are the tenths of a second from the first whole second after the
// warm-up to the last of the load.
func measured(warm, length time.Duration) (from, to int) {
	const second = int(time.Second / tenth)
	return int((max(0, warm)+time.Second-1)/time.Second) * second, int(length/time.Second) * second
}

// hotPages counts the pages that have more to send than their limit.
func (p Plan) hotPages() (n int) {
	for _, s := range p.Streams {
		if s.Group == Hot {
			n += len(s.Pages)
		}
	}
	return n
}

// tenths are a group's acceptances by tenths of a second of the run.
func tenths(g judge.Group, begin time.Time) []int64 {
	shift := int(max(0, g.Began.Sub(begin)) / tenth)
	cells := make([]int64, shift, shift+len(g.Tenths))
	for _, n := range g.Tenths {
		cells = append(cells, int64(n))
	}
	return cells
}

// latencies are those of the groups. What has not arrived counts with how long
// it has waited: a system that leaves the slow ones is not fast.
func latencies(run *report.Run, groups map[string]judge.Group) {
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
func (p Plan) rooms(run *report.Run, groups map[string]judge.Group, length time.Duration) {
	if p.Room == 0 || p.InTime == 0 {
		return
	}
	var rooms, complete int64
	for _, g := range groups {
		rooms += g.Events
		complete += Within(g.Whole, p.InTime)
	}
	run.Rooms, run.CompleteRooms = &rooms, &complete
	run.GoodputPerS = ratio(float64(complete), length.Seconds())
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
