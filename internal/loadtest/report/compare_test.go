package report

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// marked returns the names of the runs that are marked in a column.
func marked(t *testing.T, r *Report, title string) []string {
	t.Helper()
	cols, rows := compare(r)
	j := slices.IndexFunc(cols, func(c column) bool { return c.title == title })
	if j < 0 {
		t.Fatalf("no column %q", title)
	}
	out := []string{}
	for _, row := range rows {
		if row.Cells[j].Best {
			out = append(out, row.Name)
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
	baseline := func(r *Run) { r.Baseline = true }
	unknown := func(*Run) {}
	for _, c := range []struct {
		name string
		runs []Run
		want []string
	}{
		{"the lowest", []Run{runOf("a", cold(30)), runOf("b", cold(20)), runOf("c", cold(40))}, []string{"b"}},
		{"what looks equal is equal", []Run{runOf("a", cold(20.1)), runOf("b", cold(20.2)), runOf("c", cold(40))}, []string{"a", "b"}},
		{"nobody where all are equal", []Run{runOf("a", cold(20)), runOf("b", cold(20))}, []string{}},
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
		for i := range got {
			got[i] = got[i][:1]
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: marked = %q, want %q", c.name, got, c.want)
		}
	}
}

func TestHigherIsBetterForQuota(t *testing.T) {
	t.Parallel()
	if got := marked(t, sampleSaturate(), "quota used"); !slices.Equal(got, []string{"chatclub"}) {
		t.Errorf("best quota use = %q, want chatclub's 98.01 %% before 98.00 %%", got)
	}
	if got := marked(t, sampleSaturate(), "sent"); len(got) != 0 {
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

func TestColumnsAreThoseThatSomebodyKnows(t *testing.T) {
	t.Parallel()
	titles := func(r *Report) []string {
		cols, _ := compare(r)
		var out []string
		for _, c := range cols {
			out = append(out, c.title)
		}
		return out
	}
	r := sampleOverload()
	if got := titles(r); slices.Contains(got, "drained in") || !slices.Contains(got, "worst goodput") || !slices.Contains(got, "hot p99") {
		t.Errorf("columns = %q, want those of every report and the measure, no drain", got)
	}
	r.Runs[1].DrainS = new(20.)
	if got := titles(r); !slices.Contains(got, "drained in") {
		t.Errorf("columns = %q, want the drain that one run knows", got)
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
		{milliseconds(49000), "49.0 s"},
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
