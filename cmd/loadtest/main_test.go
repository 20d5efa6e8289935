package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/report"
	"chatclub/internal/scenario"
	"chatclub/internal/strategy"
)

// TestMain is a child process when the program under test starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		if _, ok := children()[os.Args[1]]; ok {
			main()
		}
	}
	rabbittest.Main(m)
}

// ran is what a run of the program came to.
type ran struct {
	code     int
	out, err string
}

func loadtest(ctx context.Context, args ...string) ran {
	var out, errs bytes.Buffer
	code := run(ctx, args, streams{strings.NewReader(""), &out, &errs})
	return ran{code, out.String(), errs.String()}
}

// virtual is loadtest in virtual time.
func virtual(t *testing.T, length time.Duration, args ...string) (r ran) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		r = loadtest(ctx, args...)
	})
	return r
}

func TestListShowsEverything(t *testing.T) {
	t.Parallel()
	r := loadtest(t.Context(), "list")
	for _, s := range scenario.All() {
		if !strings.Contains(r.out, s.Name) || !strings.Contains(r.out, s.Source) {
			t.Errorf("list lacks scenario %s or its source", s.Name)
		}
	}
	for _, s := range strategy.All() {
		if !strings.Contains(r.out, s.Name) {
			t.Errorf("list lacks strategy %s", s.Name)
		}
	}
	if r.code != 0 {
		t.Errorf("list = %d, want 0", r.code)
	}
}

// Standard output is the JSON and nothing else, with exactly the fields that
// are promised.
func TestCompareWritesJSON(t *testing.T) {
	t.Parallel()
	r := virtual(t, time.Hour, "compare", "saturate", "-replicas", "2", "-duration", "6s", "-strategies", "chatclub,naive", "-json", "-")
	if r.code != 0 {
		t.Fatalf("compare = %d, %s, want 0", r.code, r.err)
	}
	var got struct {
		Schema   int
		Scenario string
		Runs     []map[string]any
	}
	d := json.NewDecoder(strings.NewReader(r.out))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatalf("output %q: %v", r.out, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("something follows the JSON: %q", r.out)
	}
	if got.Schema != 1 || got.Scenario != "saturate" || len(got.Runs) != 2 {
		t.Fatalf("output = %+v, want schema 1, saturate, 2 runs", got)
	}
	fields := []string{
		"broker_ops_per_sent", "cold_p50_ms", "cold_p99_ms", "cpu_us_per_sent", "dead", "duplicated", "hot_p99_ms", "inversions",
		"lost", "quota_use", "refused_per_sent", "replicas", "seconds", "sent", "strategy", "unexpected",
	}
	for i, name := range []string{"chatclub", "naive"} {
		run := got.Runs[i]
		var have []string
		for f := range run {
			have = append(have, f)
		}
		if slices.Sort(have); !slices.Equal(have, fields) {
			t.Errorf("fields of %s = %v, want %v", name, have, fields)
		}
		if run["strategy"] != name || run["replicas"] != 2.0 || run["lost"] != 0.0 || run["sent"].(float64) < 1000 {
			t.Errorf("run %d = %v, want %s with 2 replicas, 0 lost, 1000 sent at least", i, run, name)
		}
	}
	if ours, naive := got.Runs[0]["refused_per_sent"].(float64), got.Runs[1]["refused_per_sent"].(float64); ours > .01 || naive < .1 {
		t.Errorf("refused per sent = %g of ours, %g of naive, want at most 0.01, at least 0.1", ours, naive)
	}
}

// Whoever stops a run gets the report of what ran.
func TestInterruptWritesTheReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := virtual(t, 7*time.Second, "compare", "saturate", "-replicas", "2", "-duration", "1h", "-strategies", "chatclub,naive", "-out", dir)
	found, err := report.Find(dir)
	if err != nil {
		t.Fatalf("no report: %v; the program said %s", err, r.err)
	}
	runs := found[0].Runs
	if len(runs) != 1 || runs[0].Status != report.Interrupted || *runs[0].Sent < 500 || *runs[0].Lost != 0 {
		t.Errorf("runs = %+v, want one, interrupted, with 500 sent at least and none lost", runs)
	}
	for _, name := range []string{"report.md", "report.html", "sends.png"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if again := loadtest(t.Context(), "report", dir); again.code != 0 || !strings.Contains(again.out, "saturate") {
		t.Errorf("report = %d %s%s, want 0 and the table", again.code, again.out, again.err)
	}
}

// A platform that answers after 9 s leaves too few calls to use the quota: the
// expectation is not met, and the exit code tells.
func TestUnmetExpectationIsExitCode1(t *testing.T) {
	t.Parallel()
	r := virtual(t, time.Hour, "run", "saturate", "-duration", "4s", "-latency", "fixed:9s", "-quiet")
	if r.code != 1 || !strings.Contains(r.err, "quota used at least 97 %") || !strings.Contains(r.out, "NOT MET") {
		t.Errorf("run = %d, %q, want 1 and the expectation", r.code, r.err)
	}
}

func TestWrongUsageIsExitCode2(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ args, want string }{
		{"", "no command"},
		{"fly", "fly"},
		{"list all", "all"},
		{"run", "which scenario"},
		{"run nothing", "nothing"},
		{"compare saturate zipf", "one scenario"},
		{"compare saturate -replicas 0", "-replicas"},
		{"compare saturate -replicas many", "-replicas"},
		{"compare saturate -wings 2", "-wings"},
		{"compare saturate -strategies best", "-strategies"},
		{"compare saturate -broker http://x", "-broker"},
		{"compare saturate -lanes 0", "-lanes"},
		{"compare saturate -target http://127.0.0.1:1/webhook", "-ledger"},
		{"compare saturate -target http://127.0.0.1:1/webhook -ledger http://127.0.0.1:2", "-pages-file"},
		{"compare saturate -target x -ledger http://127.0.0.1:2 -pages-file none", "-target"},
		{"run saturate scale -json -", "-json"},
		{"report", "folders"},
		{"report -in x", "-in"},
	} {
		if r := loadtest(t.Context(), strings.Fields(tc.args)...); r.code != 2 || !strings.Contains(r.err, tc.want) {
			t.Errorf("loadtest %s = %d, %q, want 2 and %q", tc.args, r.code, r.err, tc.want)
		}
	}
}

// A strategy that needs Redis says so where there is none, and the rest runs.
func TestNoRedisIsTold(t *testing.T) {
	t.Parallel()
	r := loadtest(t.Context(), "compare", "saturate", "-duration", "1s", "-strategies", "naive,redis", "-redis", "redis://127.0.0.1:1/0", "-quiet")
	if r.code != 0 || !strings.Contains(r.err, "redis is left out: it needs a Redis server") || !strings.Contains(r.out, "naive") {
		t.Errorf("compare = %d, %q, %q, want 0, a word on Redis, and naive's run", r.code, r.out, r.err)
	}
}

func TestCommandLineHidesPasswords(t *testing.T) {
	t.Parallel()
	got := commandLine("compare", []string{"saturate", "-broker", "amqp://me:pass@host/", "-redis", "redis://:pass@host/", "-secret", "pass", "-broker=amqp://me:pass@host/"})
	if strings.Contains(got, "pass") || !strings.Contains(got, "saturate") {
		t.Errorf("commandLine() = %q, want no password", got)
	}
}

// The whole system as processes on RabbitMQ: signed events in, dispatchers that
// join, leave and are killed, nothing lost, and what it cost.
func TestProcessesOnRabbitMQ(t *testing.T) {
	t.Parallel()
	url := rabbittest.URL(t)
	dir := t.TempDir()
	r := loadtest(t.Context(), "run", "scale", "-broker", url, "-prefix", rabbittest.Prefix(t), "-lanes", "4", "-via", "webhook", "-room", "50",
		"-replicas", "2", "-duration", "6s", "-out", dir, "-quiet")
	found, err := report.Find(dir)
	if err != nil {
		t.Fatalf("no report: %v; the program said %s", err, r.err)
	}
	run := found[0].Runs[0]
	if *run.Lost != 0 || *run.Unexpected != 0 || *run.Sent < 300 {
		t.Errorf("lost %d, unexpected %d, sent %d, want 0, 0, 300 at least: %v", *run.Lost, *run.Unexpected, *run.Sent, run.Notes)
	}
	if *run.Duplicated > 512 {
		t.Errorf("duplicated = %d, want at most the calls in flight of the one killed", *run.Duplicated)
	}
	if run.CPU == nil || *run.CPU.Dispatchers <= 0 || *run.CPU.Fake <= 0 || *run.PeakMemoryBytes <= 0 || *run.BrokerOpsPerSent < 3 {
		t.Errorf("costs = %+v, %v, %v, want all known", run.CPU, run.PeakMemoryBytes, run.BrokerOpsPerSent)
	}
	if !strings.HasPrefix(found[0].Versions.Broker, "RabbitMQ ") {
		t.Errorf("broker = %q, want RabbitMQ and its version", found[0].Versions.Broker)
	}
}
