package report

import "image/color"

// style is how a run looks in every picture. Colours alone do not tell runs
// apart: each has its dashes as well.
type style struct {
	Light string    `json:"light"` // on white, as #rrggbb
	Dark  string    `json:"dark"`  // on black
	Dash  []float64 `json:"dash"`  // on, off, …; none: solid
	Width float64   `json:"width"`
}

// hues are of different lightness, so that they differ for those who do not
// see colours as well.
var hues = map[string]style{
	Own:         {Light: "#0064c2", Dark: "#5aa9ff"},
	"article":   {Light: "#d55e00", Dark: "#ff8b3d", Dash: []float64{7, 3}},
	"naive":     {Light: "#882255", Dark: "#e58bb9", Dash: []float64{2, 2}},
	"static":    {Light: "#117733", Dark: "#4cc37a", Dash: []float64{10, 3, 2, 3}},
	"pinned":    {Light: "#7a7a10", Dark: "#d0cd5a", Dash: []float64{5, 2}},
	"redis":     {Light: "#9a3fa0", Dark: "#d99be6", Dash: []float64{4, 4}},
	"synced":    {Light: "#158fa8", Dark: "#6fd3e6", Dash: []float64{8, 2, 2, 2, 2, 2}},
	"leased":    {Light: "#b07d00", Dark: "#f0c75e", Dash: []float64{12, 4}},
	"aimd-only": {Light: "#6b7280", Dark: "#a7b0bd", Dash: []float64{3, 3}},
}

// others are for strategies that hues does not know, in the order they come in.
var others = []style{
	{Light: "#332288", Dark: "#a396ff"},
	{Light: "#cc6677", Dark: "#f19aa8", Dash: []float64{6, 3}},
	{Light: "#44705a", Dark: "#9fd0b6", Dash: []float64{2, 3}},
	{Light: "#5c3a1e", Dark: "#d3a883", Dash: []float64{9, 3, 3, 3}},
}

// styles returns a style for each run: the strategy's colour, and where a
// strategy ran more than once other dashes.
func styles(runs []Run) []style {
	again := [][]float64{nil, {6, 3}, {2, 2}, {10, 3, 2, 3}, {12, 4}}
	out := make([]style, len(runs))
	known := make(map[string]style)
	times := make(map[string]int)
	for i := range runs {
		name := runs[i].Strategy
		s, ok := known[name]
		if !ok {
			if s, ok = hues[name]; !ok {
				s = others[len(known)%len(others)]
			}
			known[name] = s
		}
		s.Width = 1.5
		if name == Own {
			s.Width = 2.5
		}
		if n := times[name]; n > 0 {
			s.Dash = again[n%len(again)]
		}
		times[name]++
		out[i] = s
	}
	return out
}

// rgb parses #rrggbb, which is all that this package writes.
func rgb(hex string) color.NRGBA {
	var v [3]uint8
	for i := range v {
		v[i] = nibble(hex[1+2*i])<<4 | nibble(hex[2+2*i])
	}
	return color.NRGBA{R: v[0], G: v[1], B: v[2], A: 255}
}

func nibble(c byte) uint8 {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}
