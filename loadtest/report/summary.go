package report

import "fmt"

// detail is a table beside the comparison, for those who want the figures of
// the pictures.
type detail struct {
	Title string
	Texts int // so many columns, the first ones, are texts; the others are figures
	Head  []string
	Rows  [][]string
}

// details returns the tables that the report has figures for.
func details(r *Report) []detail {
	var out []detail
	for _, d := range []detail{seriesDetail(r), latencyDetail(r), curveDetail(r), cpuDetail(r)} {
		if len(d.Rows) > 0 {
			out = append(out, d)
		}
	}
	return out
}

// seriesDetail sums up what happened step by step.
func seriesDetail(r *Report) detail {
	d := detail{Title: "Step by step", Texts: 2, Head: []string{"run", "pages", "step", "steps", "sent per step", "fewest", "most", "of the limit", "steps over the limit", "refused", "most refused in a step"}}
	called := names(r.Runs)
	for i := range r.Runs {
		for j := range r.Runs[i].Series {
			s := &r.Runs[i].Series[j]
			if len(s.Sent) == 0 {
				continue
			}
			d.Rows = append(d.Rows, append([]string{called[i], s.Name}, s.summary()...))
		}
	}
	return d
}

func (s *Series) summary() []string {
	sum, low, high := spread(s.Sent)
	ofLimit, over := unknown, unknown
	if len(s.Limit) > 0 {
		allowed, above := 0.0, 0
		for i, l := range s.Limit {
			allowed += l
			if float64(s.Sent[i]) > l {
				above++
			}
		}
		over = whole(float64(above))
		if allowed > 0 {
			ofLimit = percent(float64(sum) / allowed)
		}
	}
	refused, worst := unknown, unknown
	if len(s.Refused) > 0 {
		n, _, most := spread(s.Refused)
		refused, worst = whole(float64(n)), whole(float64(most))
	}
	return []string{
		fmt.Sprintf("%s ms", whole(float64(s.StepMS))), whole(float64(len(s.Sent))),
		number(float64(sum) / float64(len(s.Sent))), whole(float64(low)), whole(float64(high)), ofLimit, over, refused, worst,
	}
}

func spread(v []int64) (sum, low, high int64) {
	low, high = v[0], v[0]
	for _, n := range v {
		sum, low, high = sum+n, min(low, n), max(high, n)
	}
	return sum, low, high
}

// latencyDetail lists the percentiles that people ask for.
func latencyDetail(r *Report) detail {
	asked := []float64{50, 90, 99, 99.9, 100}
	d := detail{Title: "Latency", Texts: 2, Head: []string{"run", "class", "messages", "p50", "p90", "p99", "p99.9", "most"}}
	called := names(r.Runs)
	var figures [][]*float64
	for i := range r.Runs {
		for _, l := range r.Runs[i].Latency {
			d.Rows = append(d.Rows, []string{called[i], l.Class, whole(float64(l.Count))})
			var row []*float64
			for _, p := range asked {
				row = append(row, l.at(p))
			}
			figures = append(figures, row)
		}
	}
	d.add(figures, latencies)
	return d
}

// add appends columns of figures, each in one unit.
func (d *detail) add(rows [][]*float64, u unit) {
	if len(rows) == 0 {
		return
	}
	for j := range rows[0] {
		var known []float64
		for _, row := range rows {
			if row[j] != nil {
				known = append(known, *row[j])
			}
		}
		format := u(known)
		for i, row := range rows {
			text := unknown
			if row[j] != nil {
				text = format(*row[j])
			}
			d.Rows[i] = append(d.Rows[i], text)
		}
	}
}

// at returns one percentile, if the samples could tell it.
func (l *Latency) at(percent float64) *float64 {
	for _, p := range l.Percentiles {
		if p.Percent == percent {
			return &p.MS
		}
	}
	return nil
}

func curveDetail(r *Report) detail {
	d := detail{Title: "Goodput by offered load", Texts: 2, Head: []string{"run", "after the overload", "offered per second", "goodput per second", "p50", "p99"}}
	called := names(r.Runs)
	var rates, waits [][]*float64
	for i := range r.Runs {
		if r.Runs[i].Curve == nil {
			continue
		}
		for _, p := range r.Runs[i].Curve.Points {
			back := "no"
			if p.Recovery {
				back = "yes"
			}
			d.Rows = append(d.Rows, []string{called[i], back})
			rates = append(rates, []*float64{&p.OfferedPerS, p.GoodputPerS})
			waits = append(waits, []*float64{p.P50MS, p.P99MS})
		}
	}
	d.add(rates, fixed(number))
	d.add(waits, latencies)
	return d
}

func cpuDetail(r *Report) detail {
	d := detail{Title: "CPU per sent message", Texts: 1, Head: []string{"run", "together", "dispatchers", "broker", "fake"}}
	called := names(r.Runs)
	var figures [][]*float64
	for i := range r.Runs {
		if c := r.Runs[i].CPU; c != nil {
			d.Rows = append(d.Rows, []string{called[i]})
			figures = append(figures, []*float64{r.Runs[i].CPUUSPerSent, c.Dispatchers, c.Broker, c.Fake})
		}
	}
	d.add(figures, fixed(microseconds))
	return d
}

// facts says how the report was made, in the order to show them in.
func facts(r *Report) []Parameter {
	out := append([]Parameter(nil), r.Parameters...)
	add := func(name, value string) {
		if value != "" {
			out = append(out, Parameter{name, value})
		}
	}
	add("seed", fmt.Sprint(r.Seed))
	if !r.Started.IsZero() {
		add("started", r.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	add("chatclub", r.Versions.Chatclub)
	add("Go", r.Versions.Go)
	add("broker", r.Versions.Broker)
	add("Redis", r.Versions.Redis)
	add("machine", r.Machine.String())
	return out
}

// String is the machine in one line.
func (m Machine) String() string {
	var s string
	add := func(format string, v any, known bool) {
		if known {
			if s != "" {
				s += ", "
			}
			s += fmt.Sprintf(format, v)
		}
	}
	add("%s", m.OS+"/"+m.Arch, m.OS != "")
	add("%d CPUs", m.CPUs, m.CPUs > 0)
	add("%s", m.CPU, m.CPU != "")
	add("%s of memory", bytesize(float64(m.MemoryBytes)), m.MemoryBytes > 0)
	add("kernel %s", m.Kernel, m.Kernel != "")
	return s
}
