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

// barChart compares some figures of all runs: a row for each run, with a bar for
// each figure.
type barChart struct {
	Titles []string // of the figures
	Rows   []barRow
}

// barRow is one run's bars.
type barRow struct {
	Name  string
	Style style
	Bars  []bar // as many as there are titles
}

// bar is one figure.
type bar struct {
	Text  string  // the figure, or that it is unknown
	Share float64 // length, 0–1
}

// comparison returns the bars of quota use and of refusals, or else of what the
// scenario measures, or else of the processor time: without figures that are 0
// in all runs.
func comparison(r *Report) barChart {
	quota, refused, cpu := columnOf("quota_use"), columnOf("refused_per_sent"), columnOf("cpu_us_per_sent")
	quota.title, refused.title = "limit used", "refused calls per message sent (log)"
	own := slices.DeleteFunc(measures(r.Runs), func(c column) bool { return c.better == Neither })
	var b barChart
	for _, figures := range [][]column{{quota, refused}, own, {cpu}} {
		if b = barsOf(r, figures); len(b.Titles) > 0 {
			break
		}
	}
	return b
}

func barsOf(r *Report, figures []column) barChart {
	var b barChart
	called, st := names(r.Runs), styles(r.Runs)
	for i := range r.Runs {
		b.Rows = append(b.Rows, barRow{Name: called[i], Style: st[i]})
	}
	for _, c := range figures {
		known := c.figures(r.Runs)
		if len(known) == 0 || slices.Max(known) == 0 {
			continue
		}
		c.format = c.unit(known)
		b.Titles = append(b.Titles, c.title)
		for i := range b.Rows {
			bar := bar{Text: c.text(&r.Runs[i])}
			if v := c.value(&r.Runs[i]); v != nil {
				bar.Share = length(c.field, *v, slices.Max(known))
			}
			b.Rows[i].Bars = append(b.Rows[i].Bars, bar)
		}
	}
	return b
}

// length is a bar's, as a share of the longest. The quota's is of all that the
// limit allows. Refusals are on the scale log(1 + 1000 v), so that one in a
// thousand is seen beside eight per send.
func length(field string, v, top float64) float64 {
	switch field {
	case "quota_use":
		return min(v, 1)
	case "refused_per_sent":
		return math.Log1p(1000*v) / math.Log1p(1000*max(top, .01))
	}
	return max(v, 0) / top
}

// drawBars writes the comparison as a PNG, the figures side by side.
func drawBars(w io.Writer, c barChart) error {
	const rowHigh, head = 21, 62
	img := vgimg.NewWith(vgimg.UseWH(pictureWide, vg.Length(head+rowHigh*len(c.Rows)+margin)), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	dc := draw.New(img)
	drawHead(dc, "Comparison", nil)
	label := sans(9.5, false)
	label.YAlign = draw.YCenter
	var names vg.Length
	for _, row := range c.Rows {
		names = max(names, label.Width(clip(row.Name)))
	}
	const figures = 62 // room for a figure beside the longest bar
	wide := (pictureWide - 2*margin - names - 8) / vg.Length(len(c.Titles))
	column := func(j int) vg.Length { return margin + names + 8 + wide*vg.Length(j) }
	title := sans(10.5, true)
	title.XAlign = draw.XLeft
	for j, text := range c.Titles {
		dc.FillText(title, vg.Point{X: column(j), Y: dc.Max.Y - 40}, text)
	}
	for i, row := range c.Rows {
		y := dc.Max.Y - head - rowHigh*vg.Length(i)
		label.XAlign = draw.XRight
		dc.FillText(label, vg.Point{X: margin + names, Y: y - rowHigh/2}, clip(row.Name))
		label.XAlign = draw.XLeft
		for j, b := range row.Bars {
			x := column(j)
			end := x + (wide-figures)*vg.Length(b.Share)
			dc.FillPolygon(rgb(row.Style.Light), []vg.Point{{X: x, Y: y - 4}, {X: end, Y: y - 4}, {X: end, Y: y - rowHigh + 4}, {X: x, Y: y - rowHigh + 4}})
			dc.StrokeLine2(draw.LineStyle{Color: ink, Width: .6}, x, y, x, y-rowHigh)
			dc.FillText(label, vg.Point{X: end + 4, Y: y - rowHigh/2}, b.Text)
		}
	}
	return encode(w, img)
}
