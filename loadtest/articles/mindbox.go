package articles

import (
	"fmt"
	"sort"
	"time"

	"chatclub/fakeapi"
	"chatclub/internal/aimd"
	"chatclub/loadtest/report"
)

// line is the store of the article as fakeapi has it: 75 requests a second take 260 ms and
// half of them 200 ms, in a straight line.
const (
	line   = "load:1,141.6ms,0.0112994"
	target = 200 * time.Millisecond
)

// mindbox is the experiments of Mindbox' article.
func mindbox() []Experiment {
	return []Experiment{
		{"mindbox-limit", "Mindbox: a store that slows with load, one instance and three", instances},
		{"mindbox-percentile", "Mindbox: a percentile against single answers", percentile},
	}
}

// service is instances before a store, each with a limiter of its own. What comes above a
// limit is answered 429.
type service struct {
	*clock
	seed      uint64
	instances []*instance
	straggle  func() time.Duration // what an answer takes more

	asked, answered, refused []float64 // when, in seconds
	took                     []float64 // milliseconds of the answers
}

type instance struct {
	*aimd.Limiter
	inFlight int
}

// join starts instances.
func (s *service) join(n int, cfg aimd.Config) {
	cfg.Min, cfg.Max, cfg.Start = 1, 100, 8
	for range n {
		l, err := aimd.New(cfg)
		must(err)
		s.instances = append(s.instances, &instance{Limiter: l})
	}
}

// play has so many requests a second come.
func (s *service) play(perSecond float64) {
	src, store := random(s.seed), newPlatform(s.clock, s.seed, 1_000_000, line, func(*fakeapi.Settings) {})
	s.every(always(perSecond), src.ExpFloat64, func() {
		i := s.instances[src.IntN(len(s.instances))]
		s.asked = append(s.asked, s.since())
		if i.inFlight >= i.Limit() {
			s.refused = append(s.refused, s.since())
			return
		}
		i.inFlight++
		_, latency := store.call(hot)
		latency += s.straggle()
		s.after(latency, func() {
			i.Observe(s.now, latency, i.inFlight)
			i.inFlight--
			s.answered, s.took = append(s.answered, s.since()), append(s.took, 1000*latency.Seconds())
		})
	})
	s.run()
}

// from returns what was asked and not refused from some seconds on, as a share, and the
// answers' times.
func (s *service) from(seconds float64) (share float64, took []float64) {
	share = 1 - float64(len(s.refused[before(s.refused, seconds):]))/float64(len(s.asked[before(s.asked, seconds):]))
	return share, s.took[before(s.answered, seconds):]
}

// before returns how many of ascending times are before one.
func before(at []float64, seconds float64) int { return sort.SearchFloat64s(at, seconds) }

// charts are the article's three.
func (s *service) charts(name string, length float64) []report.Chart {
	const step = 10
	latency := []report.Line{{Name: "mean"}, {Name: "p95"}, {Name: "p99"}}
	for k := 0; k < int(length/step); k++ {
		list := s.took[before(s.answered, float64(k)*step):before(s.answered, float64(k+1)*step)]
		for i, v := range []float64{mean(list), quantile(list, .95), quantile(list, .99)} {
			latency[i].X, latency[i].Y = append(latency[i].X, float64(k)*step), append(latency[i].Y, v)
		}
	}
	return []report.Chart{
		{Title: name + ": load", X: "seconds", Y: "requests a second", Steps: true, Lines: []report.Line{course("asked", s.asked, step, length)}},
		{Title: name + ": answers", X: "seconds", Y: "a second", Steps: true, Lines: []report.Line{course("200", s.answered, step, length), course("429", s.refused, step, length)}},
		{Title: name + ": latency as the client measures it", X: "seconds", Y: "ms", Steps: true, Lines: latency},
	}
}

func none() time.Duration { return 0 }

// instances: 75 requests a second come to one instance, to three, and to one that two others
// join in the middle.
func instances(seed uint64) (res Result) {
	const length, rate = 480, 75
	for _, row := range []struct {
		name         string
		first, later int
		target       time.Duration
		p95, share   string
		bounds       [4]float64
	}{
		{"no limit", 1, 0, 0, "260 ms", "all", [4]float64{255, 290, .99, 1}},
		{"one instance", 1, 0, target, "200 ms", "half", [4]float64{196, 204, .42, .51}},
		{"three instances", 3, 0, target, "200 ms", "half", [4]float64{196, 204, .42, .51}},
		{"one, joined by two in the middle", 1, 2, target, "200 ms", "half", [4]float64{196, 204, .42, .51}},
	} {
		s := &service{clock: newClock(length * time.Second), seed: seed, straggle: none}
		s.join(row.first, aimd.Config{Target: row.target})
		s.after(length/2*time.Second, func() { s.join(row.later, aimd.Config{Target: row.target}) })
		s.play(rate)
		if row.later > 0 {
			res.Charts = s.charts(row.name, length)
		}
		share, took := s.from(length * 3 / 4)
		res.Rows = append(res.Rows,
			Row{row.name + ": p95 as the client measures it", row.p95, quantile(took, .95), "ms", row.bounds[0], row.bounds[1]},
			Row{row.name + ": answered, the rest is 429", row.share, share, "%", row.bounds[2], row.bounds[3]})
	}
	return res
}

// percentile: 30 requests a second, which the store answers in time but for one in 50. Each
// limiter is judged by the percentile of 100 answers, or by single ones.
func percentile(seed uint64) (res Result) {
	for _, row := range []struct {
		window      int
		backoff     float64
		says        string
		least, most float64
	}{
		{100, .9, "is calm", .94, 1},
		{1, .9, "blinks", .9, 1},
		{100, .5, "", .6, .95},
		{1, .5, "", .6, .95},
	} {
		s, src := &service{clock: newClock(4 * time.Minute), seed: seed}, random(seed+1)
		s.straggle = func() time.Duration { return time.Duration(src.IntN(50)/49) * 300 * time.Millisecond }
		s.join(1, aimd.Config{Target: target, Window: row.window, Backoff: row.backoff})
		s.play(30)
		share, _ := s.from(30)
		name := fmt.Sprintf("judged by %d answers, cut to %g", row.window, row.backoff)
		res.Rows = append(res.Rows, Row{"answered of what the store takes in time, " + name, row.says, share, "%", row.least, row.most})
		res.Charts = append(res.Charts, s.charts(name, 240)[1])
	}
	res.Notes = []string{"Single answers do little harm with a cut to 0.9, because what began before a cut cuts no further, and the limit grows again with each answer; with a cut to a half a percentile does not save it."}
	return res
}
