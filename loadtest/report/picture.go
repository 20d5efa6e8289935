package report

import (
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"slices"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"chatclub/loadtest/palette"
)

// Sizes of a picture in points; at dpi a picture is 1,800 pixels wide.
const (
	dpi         = 144
	pictureWide = 900
	panelHigh   = 215
	titleHigh   = 18
	margin      = 16
)

var (
	ink   = rgb("#20242b")
	faint = rgb("#e3e6ea")
)

// drawChart writes a chart as a PNG.
func drawChart(w io.Writer, c *chart) error {
	cols := columnsFor(len(c.Panels))
	rows := (len(c.Panels) + cols - 1) / cols
	high := vg.Length(panelHigh)
	if cols < 3 {
		high *= 1.5
	}
	legend := legendOf(c)
	head := headHeight(legend)
	img := vgimg.NewWith(vgimg.UseWH(pictureWide, head+high*vg.Length(rows)+margin), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	dc := draw.New(img)
	drawHead(dc, c.Title, legend)

	plots := make([][]*plot.Plot, rows)
	for i := range plots {
		plots[i] = make([]*plot.Plot, cols)
		for j := range cols {
			n := i*cols + j
			if n < len(c.Panels) {
				p, err := newPlot(c.Panels[n])
				if err != nil {
					return fmt.Errorf("draw %s, %s: %w", c.ID, c.Panels[n].Title, err)
				}
				if c.Shared && j > 0 {
					p.Y.Label.Text = ""
				}
				if c.Shared && n+cols < len(c.Panels) {
					p.X.Label.Text = ""
				}
				plots[i][j] = p
			}
		}
	}
	tiles := draw.Tiles{Rows: rows, Cols: cols, PadX: 18, PadY: 14 + titleHigh}
	canvases := plot.Align(plots, tiles, draw.Crop(dc, margin, -1.5*margin, margin, -head-titleHigh))
	title := sans(10.5, true)
	title.XAlign, title.YAlign = draw.XLeft, draw.YBottom
	for i := range plots {
		for j, p := range plots[i] {
			if p == nil {
				continue
			}
			p.Draw(canvases[i][j])
			data := p.DataCanvas(canvases[i][j])
			dc.FillText(title, vg.Point{X: data.Min.X, Y: data.Max.Y + 7}, clip(c.Panels[i*cols+j].Title))
		}
	}
	return encode(w, img)
}

func encode(w io.Writer, img *vgimg.Canvas) error {
	if err := png.Encode(w, palette.Reduce(img.Image())); err != nil {
		return fmt.Errorf("write PNG: %w", err)
	}
	return nil
}

// columnsFor keeps rows full and panels wide.
func columnsFor(panels int) int {
	switch {
	case panels <= 3:
		return panels
	case panels == 4:
		return 2
	}
	return 3
}

// newPlot makes one panel, without its title. gonum sees linear axes only:
// it misplaces labels on others.
func newPlot(p panel) (*plot.Plot, error) {
	g := plot.New()
	setAxis(&g.X, p.X)
	setAxis(&g.Y, p.Y)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	grid.Vertical.Width, grid.Horizontal.Width = .6, .6
	g.Add(grid)
	fill := len(p.Lines) <= 2
	layered := slices.SortedStableFunc(slices.Values(p.Lines), func(a, b line) int { return a.Layer - b.Layer })
	for _, l := range layered {
		if err := addLine(g, &p, &l, fill && l.Step); err != nil {
			return nil, err
		}
	}
	// Add widens the axes to what it is given, which chart.go has decided.
	g.X.Min, g.X.Max = p.X.place(p.X.Min), p.X.place(p.X.Max)
	g.Y.Min, g.Y.Max = p.Y.place(p.Y.Min), p.Y.place(p.Y.Max)
	return g, nil
}

func addLine(g *plot.Plot, p *panel, l *line, fill bool) error {
	xys := make(plotter.XYs, len(l.X))
	for i := range xys {
		xys[i] = plotter.XY{X: p.X.place(l.X[i]), Y: p.Y.place(l.Y[i])}
	}
	if l.Points {
		s, err := plotter.NewScatter(xys)
		if err != nil {
			return err
		}
		s.GlyphStyle = ringOf(l.Style)
		g.Add(s)
		return nil
	}
	ln, err := plotter.NewLine(xys)
	if err != nil {
		return err
	}
	ln.LineStyle = strokeOf(l.Style)
	if l.Step {
		ln.StepStyle = plotter.PostStep
	}
	if fill && l.Role == measured {
		tint := rgb(l.Style.Light)
		tint.A = 40
		ln.FillColor = tint
	}
	g.Add(ln)
	return nil
}

func strokeOf(st style) draw.LineStyle {
	s := draw.LineStyle{Color: rgb(st.Light), Width: vg.Length(st.Width)}
	for _, d := range st.Dash {
		s.Dashes = append(s.Dashes, vg.Length(d))
	}
	return s
}

// setAxis makes gonum's axis what the chart says.
func setAxis(g *plot.Axis, a axis) {
	g.Label.Text, g.Label.TextStyle, g.Label.Padding = a.Label, turned(g.Label.TextStyle, 9), 3
	g.Tick.Label = turned(g.Tick.Label, 8.5)
	g.Tick.Color, g.Color = ink, ink
	g.Tick.Width, g.Width, g.Tick.Length, g.Padding = .6, .6, 4, 0
	ticks := make(plot.ConstantTicks, len(a.Ticks))
	for i, t := range a.Ticks {
		ticks[i] = plot.Tick{Value: a.place(t.At), Label: t.Text}
	}
	g.Tick.Marker = ticks
}

func ringOf(st style) draw.GlyphStyle {
	return draw.GlyphStyle{Color: rgb(st.Light), Radius: 4.5, Shape: ring{}}
}

// ring is a mark that is seen on a line of its own colour.
type ring struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (ring) DrawGlyph(c *draw.Canvas, st draw.GlyphStyle, at vg.Point) {
	var p vg.Path
	p.Move(vg.Point{X: at.X + st.Radius, Y: at.Y})
	p.Arc(at, st.Radius, 0, 2*math.Pi)
	p.Close()
	c.SetColor(color.White)
	c.Fill(p)
	c.SetLineStyle(draw.LineStyle{Color: st.Color, Width: 1.8})
	c.Stroke(p)
}

func sans(size vg.Length, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return text.Style{Color: ink, Font: f, XAlign: draw.XCenter, YAlign: draw.YTop, Handler: plot.DefaultTextHandler}
}

// turned keeps where and how an axis' text is placed.
func turned(s text.Style, size vg.Length) text.Style {
	t := sans(size, false)
	t.Rotation, t.XAlign, t.YAlign = s.Rotation, s.XAlign, s.YAlign
	return t
}

// headHeight is the room for the title and the legend above the panels.
func headHeight(legend []line) vg.Length {
	return 34 + 16*vg.Length(len(legendRows(legend))) + 8
}

// drawHead draws the title, and the legend below it: never over data.
func drawHead(dc draw.Canvas, title string, legend []line) {
	st := sans(14, true)
	st.XAlign = draw.XLeft
	y := dc.Max.Y - 12
	dc.FillText(st, vg.Point{X: margin, Y: y}, title)
	y -= 30
	name := sans(9.5, false)
	name.XAlign, name.YAlign = draw.XLeft, draw.YCenter
	for _, row := range legendRows(legend) {
		x := vg.Length(margin)
		for _, l := range row {
			if l.Points {
				dc.DrawGlyph(ringOf(l.Style), vg.Point{X: x + legendLine/2, Y: y})
			} else {
				dc.StrokeLine2(strokeOf(l.Style), x, y, x+legendLine, y)
			}
			dc.FillText(name, vg.Point{X: x + legendLine + 5, Y: y}, clip(l.Name))
			x += legendWidth(&l)
		}
		y -= 16
	}
}

const legendLine = 26

func legendWidth(l *line) vg.Length {
	return legendLine + 5 + sans(9.5, false).Width(clip(l.Name)) + 16
}

// clip shortens a name that would leave the picture.
func clip(name string) string {
	const longest = 42 // characters in the narrowest panel
	c := []rune(plain(name))
	if len(c) <= longest {
		return string(c)
	}
	return string(c[:longest-1]) + "…"
}

// legendRows breaks the legend where the picture ends.
func legendRows(legend []line) [][]line {
	var rows [][]line
	left := vg.Length(0)
	for _, l := range legend {
		if w := legendWidth(&l); len(rows) == 0 || w > left {
			rows = append(rows, nil)
			left = pictureWide - 2*margin
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], l)
		left -= legendWidth(&l)
	}
	return rows
}

// legendOf lists the lines of a chart, each once. Where each panel is a run
// its title names it, and its colour says nothing.
func legendOf(c *chart) []line {
	var out []line
	for i := range c.Panels {
		for _, l := range c.Panels[i].Lines {
			if c.Shared && l.Role == measured {
				l.Style = style{Light: "#6b7280", Dark: "#a7b0bd", Width: l.Style.Width}
			}
			if !slices.ContainsFunc(out, func(o line) bool { return o.Name == l.Name }) {
				out = append(out, l)
			}
		}
	}
	return out
}
