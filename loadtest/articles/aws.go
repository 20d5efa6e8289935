package articles

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"chatclub/loadtest/report"
)

// overload is the experiments of AWS' article, with the ways of others beside ours.
func overload() []Experiment {
	return []Experiment{
		{"aws-load", "AWS: goodput and availability over offered load, beside CoDel, LIFO and SRE's throttle", load},
		{"aws-retries", "AWS: retries that keep an overload up, and a budget", retries},
		{"aws-netflix", "Netflix: 12 times the load, of which what people wait for must pass", spike},
	}
}

// The columns in which the ways against overload are compared.
const (
	goodput   = report.Goodput + ": at 10 ×"
	available = report.CompleteRooms + ": at 2 ×"
	age       = report.HotP50 + ": at 10 ×"
	ageAfter  = report.HotP50 + ": 5 s after it"
	whole     = report.CompleteRooms + ": or nobody, at 10 ×"
)

// load: messages to rooms come to a server, at 0.5 to 10 times what it can do for 20
// seconds, and then at 0.8 times for 10 seconds.
func load(seed uint64) (res Result) {
	const flood, length, x = 20, 30, "offered load, of the capacity"
	res.Charts = []report.Chart{
		{Title: "goodput: copies in time, of the capacity", X: x, Y: "share"},
		{Title: "throughput: all copies, of the capacity", X: x, Y: "share"},
		{Title: "availability: messages that a whole room got in time", X: x, Y: "share"},
	}
	busy := 0.
	for _, w := range []way{ours(), fifo(), ttl(), lifo(), codel(), sre()} {
		run := report.Run{Strategy: w.name, Figures: make(report.Figures)}
		var lines [3]report.Line
		for _, times := range []float64{.5, .8, 1, 1.5, 2, 3, 5, 10} {
			s := newServer(length*time.Second, seed, w)
			rate := times * capacity / members
			s.after(flood*time.Second, func() { rate = .8 * capacity / members })
			s.every(func() float64 { return rate }, s.src.ExpFloat64, func() { s.enter(&post{size: members}) })
			inTime, all := 0., 0.
			s.onServed = func(m copied) {
				if at := s.since(); at >= 5 && at < flood {
					if all++; !isLate(s, m) {
						inTime++
					}
				}
			}
			s.run()
			var asked, got, same, copies float64
			var during, later []float64
			for _, p := range s.posts {
				copies += float64(p.served)
				switch at := p.written.Sub(s.begin).Seconds(); {
				case at < flood:
					if asked++; p.inTime == p.size {
						got++
					}
					if p.served == 0 || p.served == p.size {
						same++
					}
					during = append(during, p.ages...)
				case at >= flood+5:
					later = append(later, p.ages...)
				}
			}
			for i, v := range []float64{inTime / capacity / (flood - 5), all / capacity / (flood - 5), got / asked} {
				lines[i].Name, lines[i].X, lines[i].Y = w.name, append(lines[i].X, times), append(lines[i].Y, v)
			}
			switch times {
			case 2:
				run.Figures[available] = got / asked
			case 3:
				if w.name == report.Own {
					busy = s.worked.Seconds() / length
				}
			case 10:
				run.Figures[goodput], run.Figures[whole] = lines[0].Y[len(lines[0].Y)-1], same/asked
				run.Figures[age], run.Figures[ageAfter] = quantile(during, .5), quantile(later, .5)
				run.Figures[report.Inversions] = s.overtook / copies
			}
		}
		for i := range lines {
			res.Charts[i].Lines = append(res.Charts[i].Lines, lines[i])
		}
		res.Runs = append(res.Runs, run)
	}
	us := res.Runs[0].Figures
	res.Rows = []Row{
		{"goodput at 10 ×, nothing shed", "falls to nothing", res.Runs[1].Figures[goodput], "%", 0, .05},
		{"goodput at 10 ×, chatclub", "stays flat", us[goodput], "%", .95, 1},
		{"median age at 10 ×, chatclub", "", us[age], "s", .1, 2},
		{"median age 5 s after it, chatclub", "", us[ageAfter], "s", 0, .8},
		{"messages at 10 × that all of a room get or nobody, chatclub", "", us[whole], "%", .99, 1},
		{"how busy the server is at 3 ×, by which a fleet scales, chatclub", "shedding must not hide the load", busy, "%", .9, 1},
	}
	res.Notes = append(winners(res.Runs), "A server of 300 copies a second, rooms of 20, a deadline of 5 s; to shed costs nothing. The rule of FRESH_WITHIN is core's own; the same through webhook and core is a test of internal/app.")
	return res
}

// winners says who is best in each column.
func winners(runs []report.Run) (notes []string) {
	for _, f := range report.Names(runs[0].Figures) {
		best := slices.MaxFunc(runs, func(a, b report.Run) int { return f.Better(a.Figures[f], b.Figures[f]) })
		var list []string
		for _, r := range runs {
			if f.Text(r.Figures[f]) == f.Text(best.Figures[f]) {
				list = append(list, r.Strategy)
			}
		}
		notes = append(notes, fmt.Sprintf("best in %q: %s", f, strings.Join(list, "; ")))
	}
	return notes
}

// retries: people ask at 0.6 times what the server can do, wait for a second, and ask again,
// three times at most. From 10 to 15 seconds three times as many ask. A budget is so many
// retries for each request.
func retries(seed uint64) (res Result) {
	const patience, length = time.Second, 60
	chart := report.Chart{Title: "availability: people who get an answer", X: "seconds", Y: "share", Steps: true}
	drop := func(s *server, m copied) bool { return s.now.Sub(m.written) > patience }
	for _, row := range []struct {
		name, says  string
		way         way
		budget      float64
		least, most float64
	}{
		{"retries without a budget", "the overload stays", fifo(), 3, 0, .1},
		{"a budget of 10 %", "it ends", fifo(), .1, .99, 1},
		{"no budget, but what is late is dropped", "", way{drop: drop}, 3, .99, 1},
	} {
		s := newServer(length*time.Second, seed, row.way)
		var asked, answered []float64
		rate, budget := .6*capacity, 0.
		var ask func(first float64, tries int)
		ask = func(first float64, tries int) {
			p := &post{size: 1}
			s.enter(p)
			s.after(patience, func() {
				switch {
				case p.served > 0:
					answered = append(answered, first)
				case tries < 3 && budget >= 1 && s.runs():
					budget--
					ask(first, tries+1)
				}
			})
		}
		s.after(10*time.Second, func() { rate *= 3 })
		s.after(15*time.Second, func() { rate /= 3 })
		s.every(func() float64 { return rate }, s.src.ExpFloat64, func() {
			asked, budget = append(asked, s.since()), min(budget+row.budget, 100)
			ask(s.since(), 0)
		})
		s.run()
		all, l := course("", asked, 1, length), course(row.name, answered, 1, length-5) // who asks later may still wait
		for i := range l.Y {
			l.Y[i] /= max(1, all.Y[i])
		}
		chart.Lines = append(chart.Lines, l)
		res.Rows = append(res.Rows, Row{"availability half a minute after a spike, " + row.name, row.says, mean(l.Y[45:]), "%", row.least, row.most})
	}
	res.Charts = []report.Chart{chart}
	return res
}

// spike: conversations take half of what the server can do, and a crowd that may wait a
// third; for 10 seconds the crowd is so large that the load is 12 times what it was.
func spike(seed uint64) (res Result) {
	const talk, usual = .5 * capacity, .3 * capacity
	for _, row := range []struct {
		way
		says   [2]string
		bounds [4]float64
	}{
		{fifo(), [2]string{}, [4]float64{0, .2, .99, 1}},
		{netflix(), [2]string{"above 99.4 %", "20 %"}, [4]float64{.994, 1, .03, .4}},
		{ours(), [2]string{}, [4]float64{.994, 1, .99, 1}},
	} {
		s := newServer(30*time.Second, seed, row.way)
		var served [2][]float64
		s.onServed = func(m copied) {
			if i := len(served) - 1; m.crowd {
				served[i] = append(served[i], s.since())
			} else if !isLate(s, m) {
				served[0] = append(served[0], s.since())
			}
		}
		crowd := usual
		s.after(5*time.Second, func() { crowd = 12*(talk+usual) - talk })
		s.after(15*time.Second, func() { crowd = usual })
		s.every(always(talk/members), s.src.ExpFloat64, func() { s.enter(&post{size: members}) })
		s.every(func() float64 { return crowd }, s.src.ExpFloat64, func() { s.enter(&post{size: 1, crowd: true}) })
		s.run()
		var got, all [2]float64
		for _, p := range s.posts {
			if at := p.written.Sub(s.begin).Seconds(); at < 5 || at >= 15 {
				continue
			}
			i, ok := 0, p.inTime == p.size
			if p.crowd {
				i, ok = 1, p.served == 1
			}
			if all[i]++; ok {
				got[i]++
			}
		}
		res.Charts = append(res.Charts, report.Chart{Title: row.name + ": copies", X: "seconds", Y: "a second", Steps: true, Lines: []report.Line{course("conversations, in time", served[0], 1, 30), course("crowd", served[1], 1, 30)}})
		res.Rows = append(res.Rows,
			Row{"conversations in a spike that whole rooms get in time, " + row.name, row.says[0], got[0] / all[0], "%", row.bounds[0], row.bounds[1]},
			Row{"messages to the crowd that come, sooner or later, " + row.name, row.says[1], got[1] / all[1], "%", row.bounds[2], row.bounds[3]})
	}
	return res
}
