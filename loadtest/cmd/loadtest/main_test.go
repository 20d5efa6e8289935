package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/report"
	"chatclub/loadtest/scenario"
	"chatclub/loadtest/strategy"
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
	for _, want := range []string{"start with: loadtest run saturate", "run: about 0:24, compare: about 3:36"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("list lacks %q", want)
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
	r := virtual(t, time.Hour, "compare", "saturate", "-replicas", "2", "-duration", "6s", "-limit", "100", "-strategies", "chatclub,naive", "-json", "-")
	if r.code != 0 || !strings.Contains(r.err, "saturate: PASS: 6 of 6 expectations met") {
		t.Fatalf("compare = %d, %s, want 0 and the verdict", r.code, r.err)
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
		if run["strategy"] != name || run["replicas"] != 2.0 || run["lost"] != 0.0 || run["sent"].(float64) < 350 {
			t.Errorf("run %d = %v, want %s with 2 replicas, 0 lost, 350 sent at least", i, run, name)
		}
	}
	if ours, naive := got.Runs[0]["refused_per_sent"].(float64), got.Runs[1]["refused_per_sent"].(float64); ours > .01 || naive < .1 {
		t.Errorf("refused per sent = %g of ours, %g of naive, want at most 0.01, at least 0.1", ours, naive)
	}
}

// A user who stops a run gets the report of what ran.
func TestInterruptWritesTheReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := virtual(t, 7*time.Second, "compare", "saturate", "-replicas", "2", "-duration", "1h", "-limit", "100", "-strategies", "chatclub,naive", "-out", dir)
	found, err := report.Find(dir)
	if err != nil {
		t.Fatalf("no report: %v; the program said %s", err, r.err)
	}
	if verdict := "NO VERDICT: stopped after 1 of 2 runs"; r.code != 3 || !strings.HasPrefix(r.out, verdict+"\n") || found[0].Verdict().String() != verdict {
		t.Errorf("compare = %d, %q, and the report %q, want 3 and %q", r.code, r.out, found[0].Verdict(), verdict)
	}
	if want := "report: " + filepath.Join(dir, "report.html") + "\n"; !strings.HasSuffix(r.out, "\n"+want) {
		t.Errorf("compare ends with %q, want %q", r.out, want)
	}
	runs := found[0].Runs
	if len(runs) != 1 || runs[0].Status != report.Interrupted || *runs[0].Sent < 200 || *runs[0].Lost != 0 {
		t.Errorf("runs = %+v, want one, interrupted, with 200 sent at least and none lost", runs)
	}
	for _, name := range []string{"report.md", "report.html", "sends.png"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// A platform that answers after 9 s leaves too few calls to use the quota: the
// expectation is not met, and the exit code tells.
func TestUnmetExpectationIsExitCode1(t *testing.T) {
	t.Parallel()
	r := virtual(t, time.Hour, "run", "saturate", "-duration", "4s", "-latency", "fixed:9s", "-quiet")
	if r.code != 1 || !strings.HasPrefix(r.out, "FAIL: chatclub: quota used at least 97.5 %") || !strings.Contains(r.out, "NOT MET") || r.err != "" {
		t.Errorf("run = %d, %q, %q, want 1 and the expectation", r.code, r.out, r.err)
	}
}

// A broker that cannot be reached is the only line, and its exit code is neither
// that of success nor that of a failure of chatclub.
func TestNoBrokerIsNoVerdict(t *testing.T) {
	t.Parallel()
	r := loadtest(t.Context(), "run", "saturate", "-broker", "amqp://127.0.0.1:1/")
	line, rest, _ := strings.Cut(r.out, "\n")
	if r.code != 3 || !strings.HasPrefix(line, "NO VERDICT: chatclub: ") || !strings.Contains(line, "127.0.0.1:1") || rest != "" || r.err != "" {
		t.Errorf("run = %d, %q, %q, want 3 and one line", r.code, r.out, r.err)
	}
}

// Of several scenarios the worst verdict is the exit code's, a failure before none.
func TestWorstVerdictIsTheExitCode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		outcomes []report.Outcome
		want     int
	}{
		{[]report.Outcome{report.Pass, report.Pass}, 0},
		{[]report.Outcome{report.Pass, report.NoVerdict, report.Pass}, 3},
		{[]report.Outcome{report.NoVerdict, report.Fail, report.NoVerdict}, 1},
	} {
		code := 0
		for _, o := range tc.outcomes {
			code = worse(code, exitCode(o))
		}
		if code != tc.want {
			t.Errorf("exit code of %q = %d, want %d", tc.outcomes, code, tc.want)
		}
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
		{"compare saturate -partitions 0", "-partitions"},
		{"compare saturate -rest 61s", "-rest"},
		{"compare saturate -target http://127.0.0.1:1/webhook", "-ledger"},
		{"compare saturate -target http://127.0.0.1:1/webhook -ledger http://127.0.0.1:2", "-pages-file"},
		{"compare saturate -target x -ledger http://127.0.0.1:2 -pages-file none", "-target"},
		{"run saturate scale -json -", "-json"},
		{"run saturate scale -json x.json", "-json"},
		{"run saturate -json no/such/folder/x.json", "-json"},
		{"run saturate -json .", "-json"},
		{"run saturate -out main_test.go/x", "-out"},
		{"compare saturate -out /proc/x", "-out"},
		{"run azure-10000 -duration 5s", "-duration: this scenario does not use it"},
		{"run azure-10000 -duration=5s", "-duration: this scenario does not use it"},
		{"run pushwoosh-sendrate -algorithm token-bucket", "-algorithm"},
		{"run ceiling -duration 5s", "-duration"},
		{"run mindbox-latency -replicas 2", "-replicas"},
		{"run mindbox-latency -latency none", "-latency"},
		{"compare ceiling -strategies naive", "-strategies"},
		{"run ceiling -strategies all", "-strategies"},
		{"compare saturate -strategies naive -target http://127.0.0.1:1/webhook -ledger http://127.0.0.1:2 -pages-file testdata/none", "testdata/none"},
		{"run saturate -partitions 3 -target http://127.0.0.1:1/webhook -ledger http://127.0.0.1:2 -pages-file x", "-partitions"},
		{"run saturate -rest 1s -target http://127.0.0.1:1/webhook -ledger http://127.0.0.1:2 -pages-file x", "-rest"},
		{"run saturate -pages-file x", "-pages-file"},
		{"run limit-change -limit 1", "-to"},
		{"run -quiet", "which scenario"},
		{"run satrate", "is none of chatclub-room, saturate"},
		{"rum saturate", "is none of list, run"},
		{"compare saturate -strategies nave", "-strategies"},
		{"run saturate -duration 20", "-duration: 20 has no unit; want 20s?"},
		{"run saturate -warm=1.5", "want 1.5s?"},
		{"run saturate -duration soon", "-duration"},
		{"run saturate -wings 2", "-wings: there is no such flag; loadtest run saturate -h lists them"},
		{"compare saturate -peers none", "-peers: read peer"},
		{"compare saturate -peers testdata/taken", "-peers: naive is the name of a strategy"},
		{"run ceiling -peers testdata/needy", "-peers: only chatclub runs"},
	} {
		if r := loadtest(t.Context(), strings.Fields(tc.args)...); r.code != 2 || !strings.Contains(r.err, tc.want) {
			t.Errorf("loadtest %s = %d, %q, want 2 and %q", tc.args, r.code, r.err, tc.want)
		}
	}
}

// -target runs what is deployed, whatever else is asked for.
func TestStrategiesAreNotForADeployment(t *testing.T) {
	t.Parallel()
	pages := filepath.Join(t.TempDir(), "pages.json")
	if err := os.WriteFile(pages, []byte(`{"1":"token-1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := loadtest(t.Context(), "compare", "saturate", "-strategies", "naive", "-target", "http://127.0.0.1:1/webhook", "-ledger", "http://127.0.0.1:2", "-pages-file", pages)
	if r.code != 2 || !strings.Contains(r.err, "-strategies: only chatclub runs, because -target") {
		t.Errorf("compare -strategies naive -target … = %d, %q, want 2 and why", r.code, r.err)
	}
}

// Help is no fault, wherever it is asked for.
func TestHelp(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		"-h": {"loadtest list"}, "list -h": {"loadtest list"},
		"run -h": {"loadtest run", "-duration", "-broker", "(default \"chatclub\")"}, "compare --help": {"-duration", "-broker", "(default \"all\")"},
		"run -quiet -h": {"-duration"}, "run saturate -h": {"saturate: ", "-times", "-duration", "-broker"}, "compare -h saturate": {"saturate: ", "-times"},
	} {
		r := loadtest(t.Context(), strings.Fields(args)...)
		if r.code != 0 || r.err != "" {
			t.Errorf("loadtest %s = %d, %q, want 0 and no fault", args, r.code, r.err)
		}
		for _, w := range want {
			if !strings.Contains(r.out, w) {
				t.Errorf("loadtest %s lacks %q: %s", args, w, r.out)
			}
		}
	}
	if r := loadtest(t.Context(), "run", "azure-10000", "-h"); strings.Contains(r.out, "-duration") {
		t.Errorf("help of azure-10000 has -duration, which it does not use: %s", r.out)
	}
}

// Flags may stand anywhere; a switch takes no word with it, any other does.
func TestNamesAndFlagsInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ args, names, flags string }{
		{"saturate zipf", "saturate zipf", ""},
		{"saturate -quiet -duration 5s", "saturate", "-quiet -duration 5s"},
		{"-quiet saturate", "saturate", "-quiet"},
		{"-count-refused saturate --verbose zipf", "saturate zipf", "-count-refused --verbose"},
		{"-duration 5s saturate -json -", "saturate", "-duration 5s -json -"},
		{"-duration=5s saturate", "saturate", "-duration=5s"},
		{"-quiet=false saturate", "saturate", "-quiet=false"},
		{"-drain -1s saturate", "saturate", "-drain -1s"},
		{"-pairs 2 -- ceiling -x", "ceiling -x", "-pairs 2"},
	} {
		names, flags := splitScenarios(strings.Fields(tc.args))
		if strings.Join(names, " ") != tc.names || strings.Join(flags, " ") != tc.flags {
			t.Errorf("split(%s) = %q, %q, want %q, %q", tc.args, names, flags, tc.names, tc.flags)
		}
	}
}

// Each strategy is in the files before the next one runs. The report says that it is
// not all.
func TestEachStrategyIsSaved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	compact := filepath.Join(dir, "x.json")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			loadtest(ctx, "compare", "saturate", "-replicas", "1", "-duration", "4s", "-limit", "30", "-latency", "fixed:40ms", "-strategies", "chatclub,naive", "-quiet", "-out", dir, "-json", compact)
		})
		time.Sleep(11 * time.Second) // the first has ended, the second has not
		found, err := report.Find(dir + "/report.json")
		if err != nil {
			t.Fatalf("no report after the first strategy: %v", err)
		}
		if r := found[0]; len(r.Runs) != 1 || r.Runs[0].Status != report.Complete || r.Unfinished != "1 of 2 runs have ended so far" {
			t.Errorf("report after the first strategy: %d runs, unfinished %q, want one complete and a word on the rest", len(r.Runs), r.Unfinished)
		}
		if raw, err := os.ReadFile(compact); err != nil || !strings.Contains(string(raw), `"strategy":"chatclub"`) {
			t.Errorf("compact file after the first strategy = %q, %v, want the run", raw, err)
		}
		cancel()
		wg.Wait()
	})
	found, err := report.Find(dir + "/report.json")
	if err != nil {
		t.Fatal(err)
	}
	if r := found[0]; len(r.Runs) != 2 || r.Unfinished != "" {
		t.Errorf("report in the end: %d runs, unfinished %q, want 2 and no word on a rest", len(r.Runs), r.Unfinished)
	}
}

// The run that others are measured against is marked in the report.
func TestBaselineIsInTheReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := virtual(t, time.Hour, "compare", "neighbour", "-replicas", "1", "-duration", "2s", "-limit", "30", "-backlog", "10", "-strategies", "chatclub,static", "-quiet", "-out", dir)
	found, err := report.Find(dir)
	if err != nil {
		t.Fatalf("no report: %v; the program said %s", err, r.err)
	}
	var got []string
	for _, run := range found[0].Runs {
		got = append(got, fmt.Sprint(run.Name(), " ", run.Baseline))
	}
	want := []string{"chatclub, without backlog true", "chatclub false", "static false"}
	if !slices.Equal(got, want) {
		t.Errorf("runs = %q, want %q", got, want)
	}
}

// A strategy that needs Redis says so where there is none, and the rest runs.
func TestNoRedisIsTold(t *testing.T) {
	t.Parallel()
	r := loadtest(t.Context(), "compare", "saturate", "-duration", "1s", "-strategies", "naive,redis", "-redis", "redis://127.0.0.1:1/0", "-quiet")
	if r.code != 3 || !strings.Contains(r.err, "redis is left out: it needs a Redis server") || !strings.Contains(r.out, "naive") {
		t.Errorf("compare = %d, %q, %q, want no verdict on chatclub, a word on Redis, and naive's run", r.code, r.out, r.err)
	}
}

// A peer that cannot run says why, and the rest runs.
func TestMissingPeerIsTold(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"needy is left out: it needs RabbitMQ (-broker amqp://…)":                 {"-peers", "testdata/needy"},
		"needy is left out: its only entry is its feeder (-via outbound)":         {"-peers", "testdata/needy", "-via", "webhook", "-room", "2"},
		"unbuilt is left out: it cannot be built: /bin/false: exit status 1":      {"-peers", "testdata/unbuilt"},
		"unbuilt is left out: it needs no-such-program, which is not on the PATH": {"-peers", "testdata/unbuilt-too"},
	} {
		p, err := parse(mustFind(t, "saturate"), append(args, "-strategies", "naive"), everyStrategy, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.leftOut, "; "); got != want {
			t.Errorf("left out with %q: %q, want %q", args, got, want)
		}
		if len(p.list) != 1 || p.list[0].Name != "naive" || len(p.ranOn) != 0 {
			t.Errorf("with %q there run %v, want naive alone", args, p.list)
		}
	}
}

func mustFind(t *testing.T, name string) scenario.Scenario {
	t.Helper()
	s, err := findScenario(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCommandLineHidesPasswords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ args, want string }{
		{"saturate -broker amqp://me:pass@host:1/v", "saturate -broker amqp://me:$PASSWORD@host:1/v"},
		{"saturate -broker=amqp://me:pass@host/", "saturate -broker=amqp://me:$PASSWORD@host/"},
		{"saturate --broker=amqp://me:pass@host/", "saturate --broker=amqp://me:$PASSWORD@host/"},
		{"-redis redis://:pass@host/0", "-redis redis://:$PASSWORD@host/0"},
		{"--redis redis://:pass@host/0", "--redis redis://:$PASSWORD@host/0"},
		{"-redis=redis://:pass@h", "-redis=redis://:$PASSWORD@h"},
		{"-target https://me:pa@ss/w:ord@host/webhook", "-target https://me:$PASSWORD@host/webhook"},
		{"-secret pass saturate", "-secret $SECRET saturate"},
		{"-secret=pass saturate", "-secret=$SECRET saturate"},
		{"--secret=pass=word", "--secret=$SECRET"},
		{"--secret -secret pass", "--secret $SECRET pass"}, // the first flag's value is "-secret"
		{"-broker memory -redis redis://host:6379/0 -ledger http://127.0.0.1:1", "-broker memory -redis redis://host:6379/0 -ledger http://127.0.0.1:1"},
	} {
		if got, want := commandLine("compare", strings.Fields(tc.args)), "go run ./cmd/loadtest compare "+tc.want; got != want {
			t.Errorf("commandLine(%s) = %q, want %q", tc.args, got, want)
		}
	}
}

// onlyRun is the run in a folder's report.
func onlyRun(t *testing.T, dir, said string) report.Run {
	t.Helper()
	found, err := report.Find(dir)
	if err != nil {
		t.Fatalf("no report: %v; the program said %s", err, said)
	}
	return found[0].Runs[0]
}

// machine says whether a run that was not as it should be says anything about
// the programs: a run that is starved of the machine knows it.
func machine(run report.Run) string {
	if run.Status == report.Inconclusive {
		return fmt.Sprintf("STARVED MACHINE, this says nothing about the programs: %s", run.Reason)
	}
	return fmt.Sprintf("the machine is not starved; notes %q", run.Notes)
}

// A page with three times its limit to send, through dispatcher processes. The
// bounds only tell one that uses more than its own share from one that does not;
// make flow-rabbit judges a minute on a quiet machine by the project's own.
func TestSaturatedPageOnRabbitMQ(t *testing.T) {
	t.Parallel()
	length, replicas := "12s", "4"
	if testing.Short() {
		length, replicas = "6s", "2"
	}
	dir := t.TempDir()
	r := loadtest(t.Context(), "run", "saturate", "-broker", rabbittest.URL(t), "-prefix", rabbittest.Prefix(t), "-partitions", "8", "-rest", "0s",
		"-replicas", replicas, "-duration", length, "-warm", "3s", "-out", dir, "-quiet", "-verbose")
	run := onlyRun(t, dir, r.err)
	switch outside := *run.QuotaUse < .6 || *run.RefusedPerSent > .05; {
	case outside && run.Status == report.Inconclusive: // the machine gave the dispatchers too little time to use it
		t.Logf("no verdict on quota used %.3f, refused per sent %.3f: %s", *run.QuotaUse, *run.RefusedPerSent, machine(run))
	case outside:
		t.Errorf("quota used %.3f, refused per sent %.3f, want .6 at least and .05 at most: %s", *run.QuotaUse, *run.RefusedPerSent, machine(run))
	}
	// A dispatcher that the machine stopped for seconds drops what it held, and each
	// call that was on its way is made again.
	doubled := int64(0)
	if run.Status == report.Inconclusive {
		doubled = mostInCalls
		t.Logf("duplicated %d on a starved machine; the dispatchers said:\n%s", *run.Duplicated, r.err)
	}
	if *run.Lost != 0 || *run.Duplicated > doubled || *run.Unexpected != 0 || *run.Dead != 0 {
		t.Errorf("lost %d, duplicated %d (%d at most), unexpected %d, dead %d, want none: %s; the dispatchers said:\n%s",
			*run.Lost, *run.Duplicated, doubled, *run.Unexpected, *run.Dead, machine(run), r.err)
	}
}

// A message costs something in the dispatcher and in the bare loop. How much is
// judged by make bench-dispatch.
func TestCeilingOnRabbitMQ(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"-rate", "200"}} {
		dir := t.TempDir()
		r := loadtest(t.Context(), append([]string{
			"run", "ceiling", "-broker", rabbittest.URL(t), "-prefix", rabbittest.Prefix(t), "-partitions", "8", "-rest", "0s",
			"-pairs", "2", "-messages", "100", "-pages", "4", "-out", dir, "-quiet",
		}, args...)...)
		found, err := report.Find(dir)
		if err != nil || len(found[0].Runs) != 4 {
			t.Fatalf("ceiling %q: no report of 4 runs: %v; the program said %s", args, err, r.err)
		}
		for _, run := range found[0].Runs {
			// A publish, a delivery and an acknowledgement. The count is read when the
			// judge has seen the last message: acknowledgements of the last calls may
			// follow.
			if *run.Sent != 100 || *run.Lost != 0 || *run.Duplicated != 0 || run.CPU == nil || run.CPU.Dispatchers == nil || *run.BrokerOpsPerSent <= 2 {
				t.Errorf("ceiling %q, %s: sent %d, lost %d, duplicated %d, CPU %+v, %.2f operations a message, want 100, 0, 0, known, and more than 2",
					args, run.Name(), *run.Sent, *run.Lost, *run.Duplicated, run.CPU, *run.BrokerOpsPerSent)
			}
		}
		if testing.Short() {
			t.Log("a rate was left out: make test-long runs it")
			return
		}
	}
}

// mostInCalls is how many texts a dispatcher has in calls at most: eight in each.
const mostInCalls = int64(fleet.MaxInFlight) * 8

// The whole system as processes on RabbitMQ: signed events in, dispatchers that
// join, leave and are killed, nothing lost, and what it cost.
func TestProcessesOnRabbitMQ(t *testing.T) {
	t.Parallel()
	url := rabbittest.URL(t)
	dir := t.TempDir()
	r := loadtest(t.Context(), "run", "scale", "-broker", url, "-prefix", rabbittest.Prefix(t), "-partitions", "8", "-rest", "0s", "-via", "webhook", "-room", "50",
		"-replicas", "2", "-duration", "6s", "-out", dir, "-quiet")
	found, err := report.Find(dir)
	if err != nil {
		t.Fatalf("no report: %v; the program said %s", err, r.err)
	}
	run := found[0].Runs[0]
	if run.Status == report.Failed {
		t.Fatalf("the run failed: %s", run.Reason)
	}
	if *run.Lost != 0 || *run.Unexpected != 0 || *run.Sent < 300 {
		t.Errorf("lost %d, unexpected %d, sent %d, want 0, 0, 300 at least: %v", *run.Lost, *run.Unexpected, *run.Sent, run.Notes)
	}
	if *run.Duplicated > mostInCalls {
		t.Errorf("duplicated = %d, want at most %d, what the calls in flight of the one killed can hold", *run.Duplicated, mostInCalls)
	}
	// A delivery and an acknowledgement at least: what was published may have been so
	// before the measurement.
	if run.CPU == nil || *run.CPU.Dispatchers <= 0 || *run.CPU.Fake <= 0 || *run.PeakMemoryBytes <= 0 || *run.BrokerOpsPerSent < 2 {
		t.Errorf("costs = %+v, %d bytes, %.2f operations a message, want all known, and 2 at least", run.CPU, *run.PeakMemoryBytes, *run.BrokerOpsPerSent)
	}
	if !strings.HasPrefix(found[0].Versions.Broker, "RabbitMQ ") {
		t.Errorf("broker = %q, want RabbitMQ and its version", found[0].Versions.Broker)
	}
}

// Several runs of a strategy become one of medians, each with the next seed, and
// the user sees how many there are to be.
func TestRunsBecomeMedians(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := virtual(t, time.Hour, "compare", "saturate", "-replicas", "1", "-limit", "50", "-duration", "3s", "-runs", "3", "-strategies", "chatclub,static", "-seed", "7", "-out", dir)
	if r.code != 0 || !strings.Contains(r.err, "6 runs, about 0:42") || !strings.Contains(r.out, "median of 3 runs") {
		t.Fatalf("compare = %d, %s%s; want 0, six runs and their medians", r.code, r.out, r.err)
	}
	found, err := report.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"chatclub", "static"} {
		run := found[0].Runs[i]
		var seeds []uint64
		var sent []int64
		for _, o := range run.Rounds {
			seeds, sent = append(seeds, o.Seed), append(sent, *o.Sent)
		}
		slices.Sort(sent)
		if run.Strategy != name || !slices.Equal(seeds, []uint64{7, 8, 9}) || *run.Sent != sent[1] {
			t.Errorf("run %d = %s with seeds %d, sent %d of %d; want %s with 7, 8 and 9, and the median", i, run.Strategy, seeds, *run.Sent, sent, name)
		}
	}
	if found[0].Seed != 7 {
		t.Errorf("seed = %d, want the first, 7", found[0].Seed)
	}
}

// A user who stops it has the rounds that ran.
func TestInterruptKeepsTheRounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := virtual(t, 10*time.Second, "run", "saturate", "-replicas", "1", "-limit", "50", "-duration", "3s", "-runs", "50", "-out", dir)
	found, err := report.Find(dir)
	if err != nil {
		t.Fatalf("no report: %v; the program said %s", err, r.err)
	}
	run := found[0].Runs[0]
	if r.code != 3 || len(run.Rounds) != 1 || run.Status != report.Interrupted || !strings.Contains(found[0].Unfinished, "stopped after 2 of 50 runs") {
		t.Errorf("run = %d, %d rounds, %q, %q; want 3, one round, interrupted, stopped after 2 of 50", r.code, len(run.Rounds), run.Status, found[0].Unfinished)
	}
}

// Where runs cannot be repeated, or mean nothing, the flag is named.
func TestRunsAreChecked(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"saturate -runs 0", "saturate -runs 101", "ceiling -runs 2", "saturate -runs 2 -target http://127.0.0.1:1/w -ledger http://127.0.0.1:1 -pages-file none"} {
		if r := loadtest(t.Context(), append([]string{"run"}, strings.Fields(args)...)...); r.code != 2 || !strings.Contains(r.err, "-runs") {
			t.Errorf("run %s = %d, %s; want 2 and -runs named", args, r.code, r.err)
		}
	}
}
