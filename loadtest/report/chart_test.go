package report

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checkPanel checks what every panel must be, whatever it shows.
func checkPanel(t *testing.T, p *panel) {
	t.Helper()
	for _, l := range p.Lines {
		if len(l.X) == 0 || len(l.X) != len(l.Y) {
			t.Errorf("%s, %s: %d values at %d places", p.Title, l.Name, len(l.Y), len(l.X))
		}
		for i := range l.X {
			for _, v := range []struct {
				a  axis
				at float64
			}{{p.X, l.X[i]}, {p.Y, l.Y[i]}} {
				if !(v.at >= v.a.Min && v.at <= v.a.Max) {
					t.Errorf("%s, %s: value %v outside of axis %q, %v to %v", p.Title, l.Name, v.at, v.a.Label, v.a.Min, v.a.Max)
				}
			}
		}
	}
	for _, a := range []axis{p.X, p.Y} {
		low, high := a.place(a.Min), a.place(a.Max)
		if a.Label == "" || !(high > low) || math.IsInf(low, 0) || math.IsInf(high, 0) {
			t.Errorf("%s: axis %q goes from %v to %v", p.Title, a.Label, a.Min, a.Max)
		}
		if len(a.Ticks) < 2 || len(a.Ticks) > 70 {
			t.Errorf("%s: axis %q has %d ticks, want 2 to 70", p.Title, a.Label, len(a.Ticks))
		}
		if !slices.IsSortedFunc(a.Ticks, func(a, b tick) int { return int(math.Copysign(1, a.At-b.At)) }) {
			t.Errorf("%s: ticks of axis %q are out of order: %v", p.Title, a.Label, a.Ticks)
		}
	}
}

func TestChartsOfASaturatedPage(t *testing.T) {
	t.Parallel()
	r := sampleSaturate()
	all := charts(r)
	var ids []string
	for _, c := range all {
		ids = append(ids, c.ID)
		for _, p := range c.Panels {
			checkPanel(t, &p)
		}
	}
	if diff := cmp.Diff([]string{"sends", "refusals", "latency"}, ids); diff != "" {
		t.Fatalf("charts (-want +got):\n%s", diff)
	}
	sends, refusals, latency := all[0], all[1], all[2]
	if len(sends.Panels) != len(r.Runs) || len(refusals.Panels) != len(r.Runs) {
		t.Errorf("panels of sends and refusals = %d, %d, want one for each of %d runs", len(sends.Panels), len(refusals.Panels), len(r.Runs))
	}
	last := sends.Panels[8]
	if last.Title != "chatclub · hot page 1" || last.X.Label != "seconds since the start" || last.Y.Label != "accepted per second" {
		t.Errorf("panel = %q, %q by %q", last.Title, last.Y.Label, last.X.Label)
	}
	accepted, limit := last.Lines[0], last.Lines[1]
	series := r.Runs[8].Series[0]
	if accepted.Role != measured || accepted.X[7] != 7 || accepted.Y[7] != float64(series.Sent[7]) || !accepted.Step {
		t.Errorf("second 7 = %v accepted at %v, want %d at 7, as steps", accepted.Y[7], accepted.X[7], series.Sent[7])
	}
	if end := len(accepted.X) - 1; accepted.X[end] != 20 || accepted.Y[end] != float64(series.Sent[19]) {
		t.Errorf("the end = %v at %v, want the last second's %d until 20", accepted.Y[end], accepted.X[end], series.Sent[19])
	}
	if limit.Role != reference || limit.Y[0] != 300 || limit.Name != "limit" {
		t.Errorf("line = %s %s %v, want the limit of 300", limit.Role, limit.Name, limit.Y[0])
	}
	if last.Y.Max <= 300 {
		t.Errorf("top of the axis = %v, want above the limit", last.Y.Max)
	}
	for _, p := range sends.Panels {
		if p.Y.Max != last.Y.Max || p.X.Max != last.X.Max {
			t.Errorf("axes of %s end at %v, %v, want those of all others: %v, %v", p.Title, p.X.Max, p.Y.Max, last.X.Max, last.Y.Max)
		}
	}
	if got := []string{latency.Panels[0].Title, latency.Panels[1].Title}; !slices.Equal(got, []string{"cold", "hot"}) {
		t.Errorf("classes = %q, want cold and hot", got)
	}
	p99 := latency.Panels[0].Lines[8]
	if i := slices.IndexFunc(p99.X, func(x float64) bool { return math.Abs(x-100) < 1e-6 }); i < 0 || math.Abs(p99.Y[i]-150) > 15 {
		t.Errorf("latency at the 99th percentile, at 100 = %v, want about 150 ms", p99)
	}
	if x := slices.Max(p99.X); x > 5000*1.01 {
		t.Errorf("latency is drawn up to 1 in %v, want no more than there are samples: 5000", x)
	}
}

func TestChartOfAnOverload(t *testing.T) {
	t.Parallel()
	all := charts(sampleOverload())
	if len(all) != 1 || all[0].ID != "curve" || len(all[0].Panels) != 2 {
		t.Fatalf("charts = %v, want one curve of two panels", all)
	}
	for _, p := range all[0].Panels {
		checkPanel(t, &p)
	}
	var got []string
	for _, l := range all[0].Panels[0].Lines {
		got = append(got, l.Name)
	}
	if diff := cmp.Diff([]string{"naive", "naive, after the overload", "chatclub", "chatclub, after the overload", "capacity"}, got); diff != "" {
		t.Errorf("lines of goodput (-want +got):\n%s", diff)
	}
	if back := all[0].Panels[0].Lines[1]; !back.Points || len(back.X) != 1 || back.X[0] != 300 || back.Y[0] != 120 {
		t.Errorf("step back = %+v, want a mark at 300, 120", back)
	}
}

// A class or a series that was not measured has no picture, rather than one
// that shows 0.
func TestNoPictureOfWhatIsUnknown(t *testing.T) {
	t.Parallel()
	r := &Report{Scenario: "x", Runs: []Run{{Figures: Figures{Strategy: "s"}, Series: []Series{{Name: "p", StepMS: 100, Sent: []int64{1, 2}}}, Latency: []Latency{{Class: "cold"}}}}}
	all := charts(r)
	if len(all) != 1 || all[0].ID != "sends" || len(all[0].Panels[0].Lines) != 1 {
		t.Errorf("charts = %+v, want sends without a limit only", all)
	}
	if got := all[0].Panels[0].Y.Label; got != "accepted per 100 ms" {
		t.Errorf("axis = %q, want accepted per 100 ms", got)
	}
	if bars := comparison(r); len(bars.Titles) != 0 {
		t.Errorf("bars = %+v, want none", bars)
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	r := sampleSaturate()
	r.Runs[5].RefusedPerSent = nil
	bars := comparison(r)
	if len(bars.Titles) != 2 || len(bars.Rows) != 9 {
		t.Fatalf("bars = %+v, want two figures of nine runs", bars)
	}
	use := func(i int) bar { return bars.Rows[i].Bars[0] }
	refused := func(i int) bar { return bars.Rows[i].Bars[1] }
	if use(8).Text != "98.01 %" || use(8).Share != .9801 {
		t.Errorf("chatclub's quota = %s, %v long, want 98.01 %%, 0.9801", use(8).Text, use(8).Share)
	}
	if refused(0).Share != 1 || refused(2).Share != 0 || refused(3).Share <= 0 {
		t.Errorf("bars of 807 %%, 0 and 0.02 %% = %v, %v, %v, want 1, 0 and a little", refused(0).Share, refused(2).Share, refused(3).Share)
	}
	if refused(5).Text != "–" || refused(5).Share != 0 {
		t.Errorf("bar of an unknown figure = %s, %v, want – and none", refused(5).Text, refused(5).Share)
	}
	for i := range r.Runs {
		r.Runs[i].RefusedPerSent = new(0.)
	}
	if got := comparison(r).Titles; !slices.Equal(got, []string{"limit used"}) {
		t.Errorf("figures where no run was refused a call = %q, want no empty bars", got)
	}
}

// A strategy looks the same in every picture, whatever else is in it.
func TestStylesBelongToStrategies(t *testing.T) {
	t.Parallel()
	all := sampleSaturate().Runs
	whole := styles(all)
	for i := range all {
		if alone := styles(all[i : i+1])[0]; !cmp.Equal(alone, whole[i]) {
			t.Errorf("%s alone looks like %v, among others like %v", all[i].Strategy, alone, whole[i])
		}
	}
	looks := make(map[string]string)
	twice := styles([]Run{all[8], all[8], {Figures: Figures{Strategy: "bare"}}, {Figures: Figures{Strategy: "bare"}}, {Figures: Figures{Strategy: "other"}}})
	if twice[0].Light != twice[1].Light || cmp.Equal(twice[0].Dash, twice[1].Dash) {
		t.Errorf("two runs of a strategy = %v, %v, want one colour and different dashes", twice[0], twice[1])
	}
	if twice[2].Light == twice[4].Light {
		t.Errorf("two unknown strategies have one colour: %v", twice[2])
	}
	for i, s := range append(whole, twice[2], twice[4]) {
		for _, c := range []string{s.Light, s.Dark} {
			if who, taken := looks[c]; taken {
				t.Errorf("style %d has the colour %s of %s", i, c, who)
			}
			looks[c] = "style " + string(rune('0'+i))
		}
	}
}

// contrast is that of WCAG 2 between two colours.
func contrast(a, b string) float64 {
	luminance := func(hex string) float64 {
		c := rgb(hex)
		channel := func(v uint8) float64 {
			f := float64(v) / 255
			if f <= .04045 {
				return f / 12.92
			}
			return math.Pow((f+.055)/1.055, 2.4)
		}
		return .2126*channel(c.R) + .7152*channel(c.G) + .0722*channel(c.B)
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}

// Lines need a contrast of 3 to be seen by everybody (WCAG 2.2, 1.4.11).
func TestLinesAreSeen(t *testing.T) {
	t.Parallel()
	all := append(slices.Clone(others), limitStyle)
	for _, s := range hues {
		all = append(all, s)
	}
	for _, s := range all {
		if got := contrast(s.Light, "#ffffff"); got < 3 {
			t.Errorf("contrast of %s on white = %.2f, want 3", s.Light, got)
		}
		if got := contrast(s.Dark, "#171b21"); got < 3 {
			t.Errorf("contrast of %s on the dark panel = %.2f, want 3", s.Dark, got)
		}
	}
}
