package report

import (
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// barChart compares one figure of all runs.
type barChart struct {
	Title string
	Bars  []bar
}

// bar is one run's.
type bar struct {
	Name  string
	Text  string  // the figure, or that it is unknown
	Share float64 // length, 0–1
	Style style
}

// comparison returns the bars of quota use and of refusals. Refusals are drawn
// on the scale log(1 + 1000 v), so that one in a thousand is seen beside eight
// per send.
func comparison(r *Report) []barChart {
	var out []barChart
	called, st := names(r.Runs), styles(r.Runs)
	for _, o := range []struct {
		field, title string
		share        func(v, top float64) float64
	}{
		{"quota_use", "quota used", func(v, _ float64) float64 { return min(v, 1) }},
		{"refused_per_sent", "refused calls per message sent (log)", func(v, top float64) float64 {
			return math.Log1p(1000*v) / math.Log1p(1000*max(top, .01))
		}},
	} {
		c := columns[slices.IndexFunc(columns, func(c column) bool { return c.field == o.field })]
		b := barChart{Title: o.title}
		top, known := 0.0, false
		for i := range r.Runs {
			if v := c.value(&r.Runs[i]); v != nil {
				top, known = max(top, *v), true
			}
		}
		for i := range r.Runs {
			bar := bar{Name: called[i], Text: c.text(&r.Runs[i]), Style: st[i]}
			if v := c.value(&r.Runs[i]); v != nil {
				bar.Share = o.share(*v, top)
			}
			b.Bars = append(b.Bars, bar)
		}
		if known {
			out = append(out, b)
		}
	}
	return out
}

// drawBars writes the comparison as a PNG, the charts side by side.
func drawBars(w io.Writer, charts []barChart) error {
	const rowHigh, head = 21, 62
	n := len(charts[0].Bars)
	img := vgimg.NewWith(vgimg.UseWH(pictureWide, vg.Length(head+rowHigh*n+margin)), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	dc := draw.New(img)
	drawHead(dc, "Comparison", nil)
	label := sans(9.5, false)
	label.YAlign = draw.YCenter
	var names vg.Length
	for _, b := range charts[0].Bars {
		names = max(names, label.Width(clip(b.Name)))
	}
	const figures = 62 // room for a figure beside the longest bar
	wide := (pictureWide - 2*margin - names - 8) / vg.Length(len(charts))
	for i, b := range charts[0].Bars {
		label.XAlign = draw.XRight
		dc.FillText(label, vg.Point{X: margin + names, Y: dc.Max.Y - head - rowHigh*vg.Length(i) - rowHigh/2}, clip(b.Name))
	}
	for j, c := range charts {
		x := margin + names + 8 + wide*vg.Length(j)
		title := sans(10.5, true)
		title.XAlign = draw.XLeft
		dc.FillText(title, vg.Point{X: x, Y: dc.Max.Y - 40}, c.Title)
		for i, b := range c.Bars {
			y := dc.Max.Y - head - rowHigh*vg.Length(i)
			end := x + (wide-figures)*vg.Length(b.Share)
			dc.FillPolygon(rgb(b.Style.Light), []vg.Point{{X: x, Y: y - 4}, {X: end, Y: y - 4}, {X: end, Y: y - rowHigh + 4}, {X: x, Y: y - rowHigh + 4}})
			dc.StrokeLine2(draw.LineStyle{Color: ink, Width: .6}, x, y, x, y-rowHigh)
			label.XAlign = draw.XLeft
			dc.FillText(label, vg.Point{X: end + 4, Y: y - rowHigh/2}, b.Text)
		}
	}
	return encode(w, img)
}
