package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// marked returns the names of the runs that are marked in a column, each with an
// equals sign where it ties with another.
func marked(t *testing.T, r *Report, title string) []string {
	t.Helper()
	all := compare(r)
	j := slices.IndexFunc(all.Columns, func(c column) bool { return c.title == title })
	if j < 0 {
		t.Fatalf("no column %q", title)
	}
	out := []string{}
	for _, row := range all.Rows {
		switch row.Cells[j].Mark {
		case best:
			out = append(out, row.Name)
		case ties:
			out = append(out, row.Name+"=")
		case unmarked:
		}
	}
	return out
}

// runOf is a run with some figures set.
func runOf(strategy string, set func(*Run)) Run {
	r := Run{Figures: Figures{Strategy: strategy, Replicas: 1}}
	set(&r)
	return r
}

func TestTheBestIsMarkedHonestly(t *testing.T) {
	t.Parallel()
	cold := func(ms float64) func(*Run) { return func(r *Run) { r.ColdP99MS = &ms } }
	with := func(sets ...func(*Run)) func(*Run) {
		return func(r *Run) {
			for _, set := range sets {
				set(r)
			}
		}
	}
	lost := func(r *Run) { r.Lost = new(int64(1)) }
	unexpected := func(r *Run) { r.Unexpected = new(int64(1)) }
	status := func(s Status) func(*Run) { return func(r *Run) { r.Status = s } }
	refused := func(perSent float64) func(*Run) { return func(r *Run) { r.RefusedPerSent = &perSent } }
	baseline := func(r *Run) { r.Baseline = true }
	unknown := func(*Run) {}
	for _, c := range []struct {
		name string
		runs []Run
		want []string
	}{
		{"the lowest", []Run{runOf("a", cold(30)), runOf("b", cold(20)), runOf("c", cold(40))}, []string{"b"}},
		{"what looks equal is equal", []Run{runOf("a", cold(20.1)), runOf("b", cold(20.2)), runOf("c", cold(40))}, []string{"a=", "b="}},
		{"what differs as two equal runs do is a tie", []Run{runOf("a", cold(20)), runOf("b", cold(23.9)), runOf("c", cold(24.1))}, []string{"a=", "b="}},
		{"not who bought it with refusals", []Run{runOf("a", with(cold(1), refused(.6))), runOf("b", with(cold(20), refused(.4))), runOf("c", cold(40))}, []string{"b"}},
		{"nobody where all are equal", []Run{runOf("a", cold(20)), runOf("b", cold(20))}, []string{}},
		{"nobody among runs of one strategy", []Run{runOf("a", cold(20)), runOf("a", cold(40))}, []string{}},
		{"nobody who is alone", []Run{runOf("a", cold(20)), runOf("b", unknown)}, []string{}},
		{"not who lost messages", []Run{runOf("a", with(cold(1), lost)), runOf("b", cold(20)), runOf("c", cold(40))}, []string{"b"}},
		{"not who sent what nobody was to get", []Run{runOf("a", with(cold(1), unexpected)), runOf("b", cold(20)), runOf("c", cold(40))}, []string{"b"}},
		{"not who stopped early", []Run{runOf("a", with(cold(1), status(Interrupted))), runOf("b", cold(20)), runOf("c", cold(40))}, []string{"b"}},
		{"not who proves nothing", []Run{runOf("a", with(cold(1), status(Inconclusive))), runOf("b", cold(20)), runOf("c", cold(40))}, []string{"b"}},
		{"not a baseline", []Run{runOf("a", with(cold(1), baseline)), runOf("b", cold(20)), runOf("c", cold(40))}, []string{"b"}},
		{"nobody beside a baseline", []Run{runOf("a", with(cold(1), baseline)), runOf("b", cold(20))}, []string{}},
		{"not who looks like the best but may not win", []Run{runOf("a", with(cold(20), lost)), runOf("b", cold(20)), runOf("c", cold(40))}, []string{"b"}},
		{"unknown is not 0", []Run{runOf("a", unknown), runOf("b", cold(20)), runOf("c", cold(40))}, []string{"b"}},
	} {
		r := &Report{Scenario: "x", Runs: c.runs}
		got := marked(t, r, "cold p99")
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: marked = %q, want %q", c.name, got, c.want)
		}
	}
}

func TestHigherIsBetterForQuota(t *testing.T) {
	t.Parallel()
	quota := func(use, refused float64) func(*Run) {
		return func(r *Run) { r.QuotaUse, r.RefusedPerSent, r.Sent = &use, &refused, new(int64(use*1000)) }
	}
	r := &Report{Runs: []Run{runOf("a", quota(.96, 0)), runOf("b", quota(.981, .01)), runOf("c", quota(1.03, 8.35)), runOf("d", quota(.984, .2))}}
	if got := marked(t, r, "quota used"); !slices.Equal(got, []string{"b=", "d="}) {
		t.Errorf("best quota use = %q, want b and d alike, and not c with its refusals", got)
	}
	if got := marked(t, r, "sent"); len(got) != 0 {
		t.Errorf("best number sent = %q, want none: it says nothing", got)
	}
}

func TestNamesTellRunsApart(t *testing.T) {
	t.Parallel()
	run := func(strategy, label string, replicas int, s Status) Run {
		return Run{Figures: Figures{Strategy: strategy, Replicas: replicas}, Label: label, Status: s}
	}
	got := names([]Run{
		run("a", "", 1, Complete), run("b", "", 1, Complete), run("b", "", 4, Complete), run("a", "", 1, Failed), run("a", "", 1, Complete), run("a", "label", 1, Complete),
	})
	want := []string{"a", "b, 1 replicas", "b, 4 replicas", "a #2 (failed)", "a #3", "label"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// titles are the heads of a table's columns.
func titles(t table) []string {
	out := []string{}
	for _, c := range t.Columns {
		out = append(out, c.title)
	}
	return out
}

func TestColumnsAreThoseThatSomebodyKnows(t *testing.T) {
	t.Parallel()
	r := sampleOverload()
	if got, want := titles(compare(r)), []string{"quota used", "lost", "sent", "ran for", "worst goodput"}; !slices.Equal(got, want) {
		t.Errorf("columns = %q, want %q", got, want)
	}
	r.Runs[1].DrainS = new(20.)
	if got := titles(compare(r)); !slices.Contains(got, "drained in") {
		t.Errorf("columns = %q, want the drain that one run knows", got)
	}
}

// The short table has what the scenario is about: its measures, no count that is
// 0 for all, no figure that is neither good nor bad; of many those that say most.
func TestShortTable(t *testing.T) {
	t.Parallel()
	r := sampleOverload()
	if got, want := titles(compare(r).short()), []string{"quota used", "worst goodput"}; !slices.Equal(got, want) {
		t.Errorf("columns = %q, want %q", got, want)
	}
	r.Runs[0].Lost = new(int64(2))
	if got, want := titles(compare(r).short()), []string{"quota used", "worst goodput", "lost"}; !slices.Equal(got, want) {
		t.Errorf("columns where messages were lost = %q, want %q", got, want)
	}
	r.Runs[1].Lost = new(int64(2))
	r.Runs[0].DrainS, r.Runs[1].DrainS = new(20.), new(20.)
	if got, want := titles(compare(r).short()), []string{"quota used", "worst goodput", "lost"}; !slices.Equal(got, want) {
		t.Errorf("columns where all lost as many and took as long = %q, want %q", got, want)
	}
	many := compare(sampleSaturate()).short()
	if got, want := titles(many), []string{"quota used", "refused per sent", "lost", "duplicated", "cold p99", "hot p99", "inversions", "broker operations per sent"}; !slices.Equal(got, want) {
		t.Errorf("columns of many = %q, want %q", got, want)
	}
	if got, want := titles(many.narrower()), []string{"quota used", "refused per sent", "lost", "duplicated", "cold p99", "hot p99", "inversions"}; !slices.Equal(got, want) {
		t.Errorf("narrower = %q, want %q", got, want)
	}
}

// One column has one unit.
func TestColumnsHaveOneUnit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		unit unit
		all  []float64
		want string
	}{
		{latencies, []float64{9937, 18_200}, "9.9 s, 18.2 s"},
		{latencies, []float64{.7, 458, 1935}, "0.7 ms, 458 ms, 1,935 ms"},
		{latencies, []float64{7676, 9937}, "7.7 s, 9.9 s"},
		{latencies, []float64{2.4, 49_000}, "2.4 ms, 49,000 ms"},
		{latencies, []float64{150, 49_000}, "0.15 s, 49.00 s"},
		{sizes, []float64{512 << 10, 49 << 20}, "0.50 MiB, 49.0 MiB"},
		{sizes, []float64{3, 512}, "3.00 B, 512 B"},
		{fixed(percent), []float64{.5, 8}, "50.00 %, 800 %"},
	} {
		format := c.unit(c.all)
		var got []string
		for _, v := range c.all {
			got = append(got, format(v))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%v = %s, want %s", c.all, got, c.want)
		}
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want string
	}{
		{percent(0), "0.00 %"},
		{percent(.00001), "<0.01 %"},
		{percent(.0012), "0.12 %"},
		{percent(.9801), "98.01 %"},
		{percent(.99999), ">99.99 %"},
		{percent(1), "100 %"},
		{percent(35.34), "3,534 %"},
		{whole(1234567), "1,234,567"},
		{whole(999), "999"},
		{number(0), "0"},
		{number(.00012), "0.00012"},
		{number(3.046), "3.05"},
		{number(47.23), "47.2"},
		{number(1234.4), "1,234"},
		{number(-47.23), "-47.2"},
		{milliseconds(4.16), "4.2 ms"},
		{milliseconds(151.6), "152 ms"},
		{milliseconds(9999), "9,999 ms"},
		{seconds(1234), "1,234 s"},
		{bytesize(512), "512 B"},
		{bytesize(49 << 20), "49.0 MiB"},
		{bytesize(3 << 42), "12,288 GiB"},
	} {
		if c.got != c.want {
			t.Errorf("formatted = %s, want %s", c.got, c.want)
		}
	}
}
