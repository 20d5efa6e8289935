package report

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	for _, r := range []*Report{sampleSaturate(), sampleOverload(), sampleHostile()} {
		raw := written(t, Write, r)
		got, err := Read(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("Read(%s) = %v", r.Scenario, err)
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("Read(Write(%s)) differs (-want +got):\n%s", r.Scenario, diff)
		}
		if again := written(t, Write, got); !bytes.Equal(raw, again) {
			t.Errorf("Write(Read(%s)) are other bytes", r.Scenario)
		}
	}
}

// The compact form is a promise to other programs, so its fields stand here
// once more.
func TestCompactHasExactlyTheseFields(t *testing.T) {
	t.Parallel()
	want := []string{
		"strategy", "replicas", "quota_use", "refused_per_sent", "lost", "duplicated", "unexpected", "inversions",
		"cold_p50_ms", "cold_p99_ms", "hot_p99_ms", "broker_ops_per_sent", "cpu_us_per_sent", "sent", "dead", "seconds",
	}
	raw := written(t, WriteCompact, sampleOverload())
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil {
		t.Fatal(err)
	}
	if len(top) != 3 || string(top["schema"]) != "1" || string(top["scenario"]) != `"aws-overload"` {
		t.Errorf("compact form = %s, want schema, scenario and runs", raw)
	}
	var runs []map[string]json.RawMessage
	if err := json.Unmarshal(top["runs"], &runs); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 {
		t.Fatalf("runs = %d, want 2", len(runs))
	}
	for _, run := range runs {
		if len(run) != len(want) {
			t.Errorf("a run has %d fields, want %d", len(run), len(want))
		}
		for _, field := range want {
			if _, ok := run[field]; !ok {
				t.Errorf("a run lacks %q", field)
			}
		}
		if got := string(run["lost"]) + string(run["hot_p99_ms"]); got != "0null" {
			t.Errorf("lost and hot_p99_ms = %s, want 0 and null: nothing lost, nothing known", got)
		}
	}
	if n := bytes.Count(raw, []byte("\n")); n != 1 {
		t.Errorf("lines = %d, want 1", n)
	}
}

// Runs of one strategy are told apart as in the tables; one that ran once is
// called as it is, whatever became of it.
func TestCompactTellsRunsApart(t *testing.T) {
	t.Parallel()
	run := func(strategy, label string, replicas int, s Status) Run {
		return Run{Figures: Figures{Strategy: strategy, Replicas: replicas}, Label: label, Status: s}
	}
	raw := written(t, WriteCompact, &Report{Scenario: "x", Runs: []Run{
		run("chatclub", "chatclub, without backlog", 4, Complete), run("chatclub", "", 4, Complete), run("chatclub", "", 4, Complete),
		run("naive", "", 4, Interrupted), run("static", "static, 3 dispatchers", 3, Complete),
	}})
	var got struct{ Runs []struct{ Strategy string } }
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, r := range got.Runs {
		have = append(have, r.Strategy)
	}
	if diff := cmp.Diff([]string{"chatclub, without backlog", "chatclub", "chatclub #2", "naive", "static"}, have); diff != "" {
		t.Errorf("strategies (-want +got):\n%s", diff)
	}
}

func TestEmptyReportHasAListOfRuns(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(io.Writer, *Report) error{"Write": Write, "WriteCompact": WriteCompact} {
		if raw := written(t, write, &Report{Scenario: "none"}); strings.Contains(string(raw), "null") {
			t.Errorf("%s = %s, want an empty list of runs", name, raw)
		}
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	run := `{"schema":1,"scenario":"x","seed":0,"runs":[{"strategy":"s",%s}]}`
	for _, c := range []struct{ in, want string }{
		{``, "unexpected end"},
		{`[]`, "cannot unmarshal array"},
		{`{"scenario":"x"}`, `"schema" is missing`},
		{`{"schema":2,"future":true}`, `"schema" is 2, this program knows 1: use a newer one`},
		{`{"schema":0}`, `"schema" is 0, want 1`},
		{`{"schema":1,"scenario":"x","runs":[],"extra":1}`, `unknown field "extra"`},
		{`{"schema":1,"scenario":"x","runs":[]} {}`, "after top-level value"},
		{`{"schema":1,"scenario":"../x","runs":[]}`, `scenario is "../x"`},
		{`{"schema":1,"scenario":"x","runs":[{}]}`, `runs[0].strategy is empty`},
		{strings.Replace(run, "%s", `"lost":-1`, 1), `runs[0].lost is -1`},
		{strings.Replace(run, "%s", `"lost":1.5`, 1), `lost`},
		{strings.Replace(run, "%s", `"quota_use":-0.1`, 1), `runs[0].quota_use is -0.1`},
		{strings.Replace(run, "%s", `"replicas":-1`, 1), `runs[0].replicas is -1`},
		{strings.Replace(run, "%s", `"status":"fine"`, 1), `runs[0].status is "fine"`},
		{strings.Replace(run, "%s", `"rooms":-1`, 1), `runs[0].rooms is -1`},
		{strings.Replace(run, "%s", `"cpu_us_per_sent_of":{"fake":-1}`, 1), `runs[0].cpu_us_per_sent_of.fake is -1`},
		{strings.Replace(run, "%s", `"measures":[{"name":"m","value":1,"better":"more"}]`, 1), `runs[0].measures[0].better is "more"`},
		{strings.Replace(run, "%s", `"measures":[{"name":"m","value":1},{"name":"m","value":2}]`, 1), `runs[0].measures[1].name is "m" again`},
		{strings.Replace(run, "%s", `"series":[{"name":"p","step_ms":0,"sent":[1]}]`, 1), `runs[0].series[0].step_ms is 0`},
		{strings.Replace(run, "%s", `"series":[{"name":"p","step_ms":1000,"sent":[1,2],"limit":[300]}]`, 1), `runs[0].series[0].limit has 1 steps, sent has 2`},
		{strings.Replace(run, "%s", `"latency":[{"class":"c","count":2,"percentiles":[{"percent":50,"ms":4},{"percent":99,"ms":3}]}]`, 1), `runs[0].latency[0].percentiles[1] is below the one before`},
		{strings.Replace(run, "%s", `"latency":[{"class":"c","count":2,"percentiles":[{"percent":101,"ms":4}]}]`, 1), `percentiles[0].percent is 101`},
		{strings.Replace(run, "%s", `"curve":{"points":[{"offered_per_s":1,"goodput_per_s":-1}]}`, 1), `runs[0].curve.points[0].goodput_per_s is -1`},
	} {
		if _, err := Read(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Read(%s) = %v, want an error with %q", c.in, err, c.want)
		}
	}
}

func TestWriteRefusesWhatReadWould(t *testing.T) {
	t.Parallel()
	for _, v := range []float64{math.NaN(), math.Inf(1), -1} {
		r := &Report{Scenario: "x", Runs: []Run{{Figures: Figures{Strategy: "s", ColdP99MS: &v}}}}
		if err := Write(io.Discard, r); err == nil || !strings.Contains(err.Error(), "runs[0].cold_p99_ms") {
			t.Errorf("Write with cold_p99_ms %v = %v, want an error that names it", v, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	// Small seeds: large ones are minimised for most of the time.
	f.Add([]byte(`{"schema":1,"scenario":"x","runs":[{"strategy":"s","lost":0,"quota_use":0.9,"series":[{"name":"p","step_ms":100,"sent":[0,1],"refused":[1,2],"limit":[3,3.5]}]}]}`))
	f.Add([]byte(`{"schema":1,"scenario":"x","runs":[{"strategy":"s","latency":[{"class":"c","count":2,"percentiles":[{"percent":50,"ms":0},{"percent":100,"ms":3}]}]}]}`))
	f.Add([]byte(`{"schema":1,"scenario":"x","runs":[{"strategy":"s","curve":{"capacity_per_s":3,"points":[{"offered_per_s":1,"goodput_per_s":1,"p99_ms":9},{"offered_per_s":1,"goodput_per_s":1,"recovery":true}]}}]}`))
	f.Add([]byte(`{"schema":1,"scenario":"x","expectations":[{"text":"<","met":true}],"runs":[{"strategy":"|","measures":[{"name":"m","value":-1,"better":"lower"}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := Read(bytes.NewReader(raw))
		if err != nil {
			return
		}
		// Every form can show each report that can be read.
		for _, write := range []func(io.Writer, *Report) error{Write, WriteCompact, WriteTable, WriteMarkdown, func(w io.Writer, r *Report) error { return WriteHTML(w, r) }} {
			if err := write(io.Discard, r); err != nil {
				t.Errorf("a report that was read cannot be written: %v", err)
			}
		}
		for _, c := range charts(r) {
			for _, p := range c.Panels {
				checkPanel(t, &p)
				if _, err := newPlot(p); err != nil {
					t.Errorf("a report that was read cannot be drawn: %v", err)
				}
			}
		}
	})
}
