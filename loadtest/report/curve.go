package report

// curveChart shows what came out for what was offered, and how late.
func curveChart(r *Report) chart {
	c := chart{ID: "curve", Title: "Goodput under overload", About: "What came out for what was offered, with the step back after the overload as rings, and the latency of what was accepted."}
	called, st := names(r.Runs), styles(r.Runs)
	goodput := panel{Title: "goodput", X: axis{Label: "offered per second"}, Y: axis{Label: "goodput per second"}}
	p99 := panel{Title: "99th percentile of what was accepted", X: goodput.X, Y: axis{Label: "latency (log)"}}
	var capacity float64
	for i := range r.Runs {
		cv := r.Runs[i].Curve
		if cv == nil {
			continue
		}
		if cv.CapacityPerS != nil {
			capacity = max(capacity, *cv.CapacityPerS)
		}
		goodput.Lines = append(goodput.Lines, curveLines(called[i], st[i], cv, 0, func(p *CurvePoint) *float64 { return p.GoodputPerS })...)
		p99.Lines = append(p99.Lines, curveLines(called[i], st[i], cv, least, func(p *CurvePoint) *float64 { return p.P99MS })...)
	}
	for _, p := range []panel{goodput, p99} {
		if len(p.Lines) == 0 {
			continue
		}
		low, high := extent(p.Lines, func(l *line) []float64 { return l.X })
		p.X = logAxis(p.X.Label, low, high, short)
		bottom, top := extent(p.Lines, func(l *line) []float64 { return l.Y })
		if p.Title == p99.Title {
			p.Y = logAxis(p.Y.Label, bottom, top, axisMS)
			p.Y.Unit = "ms"
		} else {
			if capacity > 0 {
				p.Lines = append(p.Lines, line{Name: "capacity", Style: limitStyle, Role: reference, X: []float64{p.X.Min, p.X.Max}, Y: []float64{capacity, capacity}})
			}
			p.Y = linearAxis(p.Y.Label, max(top, capacity))
		}
		c.Panels = append(c.Panels, p)
	}
	return c
}

// curveLines are one run's steps up, joined, and its steps back, as marks.
func curveLines(name string, st style, c *Curve, low float64, value func(*CurvePoint) *float64) []line {
	up := line{Name: name, Style: st, Role: measured}
	back := line{Name: name + ", after the overload", Style: solid(st), Role: measured, Points: true}
	for i := range c.Points {
		p := &c.Points[i]
		v := value(p)
		if v == nil || p.OfferedPerS < least {
			continue
		}
		to := &up
		if p.Recovery {
			to = &back
		}
		to.X, to.Y = append(to.X, p.OfferedPerS), append(to.Y, max(*v, low))
	}
	var out []line
	for _, l := range []line{up, back} {
		if len(l.X) > 0 {
			out = append(out, l)
		}
	}
	return out
}
