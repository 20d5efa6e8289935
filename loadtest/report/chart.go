package report

import (
	"fmt"
	"math"
)

// chart is a picture before it is drawn, by gonum/plot or by the page.
type chart struct {
	ID     string  `json:"id"` // also the file's name
	Title  string  `json:"title"`
	About  string  `json:"about"`  // what is seen, for those who read instead
	Panels []panel `json:"panels"` // side by side, all as wide as each other
	Shared bool    `json:"shared"` // all panels have the first one's axes
}

// panel is one pair of axes.
type panel struct {
	Title string `json:"title"`
	X     axis   `json:"x"`
	Y     axis   `json:"y"`
	Lines []line `json:"lines"`
}

// axis is one of them.
type axis struct {
	Label string  `json:"label"`
	Unit  string  `json:"unit"` // how to read a value: "", "s", "ms" or "percentile", which is at 100 / (100 − percent)
	Scale scale   `json:"scale"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Ticks []tick  `json:"ticks"`
}

// tick is a labelled place on an axis.
type tick struct {
	At   float64 `json:"at"`
	Text string  `json:"text"` // empty: a line without a number
}

// scale is how an axis maps values to places.
type scale string

const (
	linear      scale = "linear"
	logarithmic scale = "log"
	fromOne     scale = "log1p" // log(1+v): nearly linear below 1, so that 0 has a place
)

// line is one of a panel's lines.
type line struct {
	Name   string    `json:"name"`
	Style  style     `json:"style"`
	Role   role      `json:"role"`
	X      []float64 `json:"x"`
	Y      []float64 `json:"y"`
	Step   bool      `json:"step,omitempty"`   // a value holds until the next one
	Points bool      `json:"points,omitempty"` // marks, no line
	Layer  int       `json:"layer"`            // drawn over all lines of lower layers
}

// layer puts dashes over solid lines, which would hide them, and marks over both.
func (l *line) layer() int {
	switch {
	case l.Points:
		return 2
	case len(l.Style.Dash) > 0:
		return 1
	}
	return 0
}

// role says what a line means.
type role string

const (
	measured  role = "measured"
	reference role = "reference" // what to compare with: a limit, an ideal
)

// limitStyle is how limits and ideals look.
var limitStyle = style{Light: "#20242b", Dark: "#f2f4f7", Dash: []float64{4, 3}, Width: 1.25}

// charts returns those that the report has figures for, first the one that says
// most.
func charts(r *Report) []chart {
	var out []chart
	for _, of := range []func(*Report) chart{curveChart, sendsChart, refusalsChart, latencyChart} {
		c := of(r)
		for _, p := range c.Panels {
			for i := range p.Lines {
				p.Lines[i].Layer = p.Lines[i].layer()
			}
		}
		if len(c.Panels) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// sendsChart shows sends against the limit, a panel for each run.
func sendsChart(r *Report) chart {
	c := chart{ID: "sends", Title: "Sends", Shared: true, About: "Messages accepted, by seconds since the start."}
	eachSeries(r, func(name string, st style, s *Series) {
		p := panel{Title: name, X: axis{Label: "seconds since the start"}, Y: axis{Label: "accepted" + per(s.StepMS)}}
		x := steps(s)
		p.Lines = append(p.Lines, line{Name: "accepted", Style: solid(st), Role: measured, X: x, Y: held(floats(s.Sent)), Step: true})
		if len(s.Limit) > 0 {
			c.Title, c.About = "Sends against the limit", "Messages accepted, filled, and how many the limit allowed, dashed, by seconds since the start."
			p.Lines = append(p.Lines, line{Name: "limit", Style: limitStyle, Role: reference, X: x, Y: held(s.Limit), Step: true})
		}
		c.Panels = append(c.Panels, p)
	})
	c.share(linear)
	return c
}

// refusalsChart shows refusals, a panel for each run. They span four orders of
// magnitude, and most runs should have none.
func refusalsChart(r *Report) chart {
	c := chart{ID: "refusals", Title: "Refused calls", Shared: true, About: "Calls refused by seconds since the start, on a logarithmic scale that has a zero."}
	eachSeries(r, func(name string, st style, s *Series) {
		if len(s.Refused) == 0 {
			return
		}
		c.Panels = append(c.Panels, panel{
			Title: name, X: axis{Label: "seconds since the start"}, Y: axis{Label: "refused" + per(s.StepMS) + " (log)"},
			Lines: []line{{Name: "refused", Style: solid(st), Role: measured, X: steps(s), Y: held(floats(s.Refused)), Step: true}},
		})
	})
	c.share(fromOne)
	return c
}

// eachSeries calls f with the first series of every run: the one to look at.
func eachSeries(r *Report, f func(name string, st style, s *Series)) {
	called, st := names(r.Runs), styles(r.Runs)
	for i := range r.Runs {
		if len(r.Runs[i].Series) == 0 || len(r.Runs[i].Series[0].Sent) == 0 {
			continue
		}
		s := &r.Runs[i].Series[0]
		name := called[i]
		if s.Name != "" {
			name += " · " + s.Name
		}
		f(name, st[i], s)
	}
}

// latencyChart shows the distribution of latency, a panel for each class.
func latencyChart(r *Report) chart {
	c := chart{ID: "latency", Title: "Latency by class of page", About: "For each class of page, the latency that so many percent of the messages did not exceed, a line for each run."}
	called, st := names(r.Runs), styles(r.Runs)
	panels := make(map[string]int)
	for i := range r.Runs {
		for _, l := range r.Runs[i].Latency {
			ln := line{Name: called[i], Style: st[i], Role: measured}
			for _, p := range l.Percentiles {
				if p.Percent < 100 { // the maximum would be infinitely far to the right
					ln.X = append(ln.X, 100/(100-p.Percent))
					ln.Y = append(ln.Y, max(p.MS, least))
				}
			}
			if len(ln.X) == 0 {
				continue
			}
			at, ok := panels[l.Class]
			if !ok {
				at = len(c.Panels)
				panels[l.Class] = at
				c.Panels = append(c.Panels, panel{Title: l.Class, X: axis{Label: "percentile"}, Y: axis{Label: "latency (log)"}})
			}
			c.Panels[at].Lines = append(c.Panels[at].Lines, ln)
		}
	}
	for i := range c.Panels {
		p := &c.Panels[i]
		_, top := extent(p.Lines, func(l *line) []float64 { return l.X })
		p.X = axis{Label: p.X.Label, Unit: "percentile", Scale: logarithmic, Min: 1, Max: max(top, 10), Ticks: percentileTicks(max(top, 10))}
		low, high := extent(p.Lines, func(l *line) []float64 { return l.Y })
		p.Y = logAxis(p.Y.Label, low, high, axisMS)
		p.Y.Unit = "ms"
	}
	return c
}

// share gives all panels the same axes, wide enough for each of them.
func (c *chart) share(y scale) {
	var right, top float64
	for i := range c.Panels {
		_, x := extent(c.Panels[i].Lines, func(l *line) []float64 { return l.X })
		_, v := extent(c.Panels[i].Lines, func(l *line) []float64 { return l.Y })
		right, top = max(right, x), max(top, v)
	}
	for i := range c.Panels {
		p := &c.Panels[i]
		p.X = linearAxis(p.X.Label, right)
		p.X.Unit, p.X.Max = "s", right // time ends where the run does
		if y == fromOne {
			p.Y = fromOneAxis(p.Y.Label, top)
		} else {
			p.Y = linearAxis(p.Y.Label, top)
		}
	}
}

func extent(lines []line, of func(*line) []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for i := range lines {
		for _, v := range of(&lines[i]) {
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high
}

// steps are the times at which a series' steps begin, and the end of the last.
func steps(s *Series) []float64 {
	x := make([]float64, len(s.Sent)+1)
	for i := range x {
		x[i] = float64(int64(i)*s.StepMS) / 1000
	}
	return x
}

// held repeats the last value, which holds until the end of its step.
func held(v []float64) []float64 {
	return append(append([]float64(nil), v...), v[len(v)-1])
}

func floats(v []int64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

// solid is for where a run has a panel to itself.
func solid(st style) style {
	st.Dash, st.Width = nil, 1.5
	return st
}

// per names a step: as in " per second".
func per(ms int64) string {
	switch {
	case ms == 1000:
		return " per second"
	case ms%1000 == 0:
		return fmt.Sprintf(" per %d s", ms/1000)
	}
	return fmt.Sprintf(" per %d ms", ms)
}
