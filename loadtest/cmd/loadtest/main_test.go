package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/loadtest/cases"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/report"
)

// TestMain is a peer's program when the program under test starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "fakepeer-") {
		fakePeer(os.Args[1])
		return
	}
	rabbittest.Main(m)
}

// ran is the outcome of a run of the program.
type ran struct {
	code     int
	out, err string
}

func loadtest(ctx context.Context, args ...string) ran {
	var out, errs bytes.Buffer
	code := run(ctx, args, streams{&out, &errs})
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
	for _, c := range cases.All() {
		if !strings.Contains(r.out, c.Name) || !strings.Contains(r.out, c.Source) {
			t.Errorf("list lacks case %s or its source", c.Name)
		}
	}
	if r.code != 0 || !strings.Contains(r.out, "start with: loadtest run saturate") || !strings.Contains(r.out, "aimd-only") || !strings.Contains(r.out, "azure-leases") {
		t.Errorf("list = %d, %s, want 0, what to start with, and the strategies", r.code, r.out)
	}
}

// The runs alternate and are folded, the verdict is that of ours, and the page is drawn
// again from the report.
func TestCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := virtual(t, time.Hour, "compare", "saturate", "-replicas", "2", "-duration", "6s", "-limit", "100", "-strategies", "chatclub,naive", "-runs", "2", "-out", dir)
	got, err := report.Read(dir)
	if err != nil || r.code != 0 || !strings.HasPrefix(r.out, "PASS: 7 of 7 expectations met\n") {
		t.Fatalf("compare = %d, %v, %s, %s, want 0 and the verdict", r.code, err, r.out, r.err)
	}
	if got.Case != "saturate" || len(got.Runs) != 2 || len(got.Runs[0].Rounds) != 2 {
		t.Fatalf("report = %+v, want saturate with 2 runs of 2 rounds", got)
	}
	for i, name := range []string{"chatclub", "naive"} {
		if run := got.Runs[i]; run.Strategy != name || run.Replicas != 2 || run.Figures[report.Lost] != 0 || run.Figures[report.Sent] < 350 {
			t.Errorf("run %d = %+v, want %s with 2 replicas, 0 lost, 350 sent at least", i, run, name)
		}
	}
	if ours, naive := got.Runs[0].Figures[report.Refused], got.Runs[1].Figures[report.Refused]; ours > .01 || naive < .1 {
		t.Errorf("refused per sent = %g of ours, %g of naive, want at most 0.01, at least 0.1", ours, naive)
	}
	if again := loadtest(t.Context(), "report", dir); again.code != 0 || !strings.HasPrefix(again.out, "PASS: 7 of 7") {
		t.Errorf("report = %d, %s%s, want 0 and the verdict", again.code, again.out, again.err)
	}
}

// The evidence is one document of tables with the columns that it is about, each with its
// verdict and the command that makes it again.
func TestEvidence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := virtual(t, time.Hour, "evidence", "-only", "sick-page,lane-neighbour", "-out", dir)
	doc, err := os.ReadFile(filepath.Join(dir, "evidence.md"))
	if err != nil || r.code != 0 || r.out != string(doc) {
		t.Fatalf("evidence = %d, %v, %s%s, want 0 and the document", r.code, err, r.out, r.err)
	}
	for _, want := range []string{"## sick-page: ", "## lane-neighbour: ", "| quota used |", "PASS", "loadtest run sick-page -"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("evidence lacks %q:\n%s", want, r.out)
		}
	}
	if strings.Contains(r.out, "CPU per sent") {
		t.Errorf("evidence has columns that it is not about:\n%s", r.out)
	}
	if r := loadtest(t.Context(), "evidence", "-only", "saturate,nothing", "-out", dir); r.code != 2 || !strings.Contains(r.err, `there is no table "nothing"`) {
		t.Errorf("evidence of a table that is not there = %d, %s, want 2 and its name", r.code, r.err)
	}
}

// The articles' experiments are found by the begin of their names, and have one report.
func TestArticles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := loadtest(t.Context(), "articles", "azure", "-seed", "2", "-out", dir)
	got, err := report.Read(dir)
	if err != nil || r.code != 0 || !strings.HasPrefix(r.out, "PASS: ") || !strings.Contains(r.out, "30,000 | 30,000") || len(got.Charts) != 2 {
		t.Errorf("articles = %d, %v, %s, %s, want 0, the article's 30,000 calls beside ours, and two charts", r.code, err, r.out, r.err)
	}
	if got.Command != "go run ./cmd/loadtest articles azure -out="+dir+" -seed=2" {
		t.Errorf("command = %q, want what was typed", got.Command)
	}
}

// A user who stops a run gets the report of the part that ran.
func TestInterruptWritesTheReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := virtual(t, 13*time.Second, "compare", "saturate", "-replicas", "2", "-duration", "1h", "-limit", "100", "-strategies", "chatclub,naive", "-out", dir)
	found, err := report.Read(dir)
	if err != nil {
		t.Fatalf("no report: %v; the program said %s", err, r.err)
	}
	if run := found.Runs[0]; run.Status != report.Interrupted || run.Figures[report.Sent] == 0 || run.Figures[report.Lost] != 0 {
		t.Errorf("the run that was stopped = %+v, want some sent, and none lost", run)
	}
	if verdict := "NO VERDICT: stopped after 1 of 2 runs"; r.code != 3 || !strings.HasPrefix(r.out, verdict+"\n") || found.Verdict().String() != verdict {
		t.Errorf("compare = %d, %q, and the report %q, want 3 and %q", r.code, r.out, found.Verdict(), verdict)
	}
}

// Wrong usage is told by the flag's name, before anything runs.
func TestUsage(t *testing.T) {
	t.Parallel()
	const deployed = " -target http://127.0.0.1:1/webhook -ledger http://127.0.0.1:2 -pages-file "
	for args, want := range map[string]string{
		"":                                                   "no command",
		"rum saturate":                                       "is none of list, run",
		"run satrate":                                        "is none of chatclub-room, saturate",
		"run saturate scale":                                 "unexpected argument",
		"run saturate -wings 2":                              "-wings",
		"run saturate -duration 20":                          "-duration",
		"run saturate -duration 2h":                          "-duration",
		"run saturate -replicas 300":                         "-replicas",
		"run saturate -limit -1":                             "-limit",
		"run saturate -latency soon":                         "-latency",
		"run saturate -room 1":                               "-room",
		"compare saturate -strategies nave":                  "-strategies",
		"compare saturate -peers none":                       "-peers",
		"compare saturate -broker rabbit":                    "-broker",
		"compare saturate -partitions 3":                     "-partitions",
		"compare saturate -runs 0":                           "-runs",
		"run saturate -out main_test.go/x":                   "-out",
		"run saturate -pages-file x":                         "-pages-file",
		"run saturate -target x":                             "-ledger",
		"run saturate -runs 2" + deployed + "x":              "-runs",
		"run saturate" + deployed + "none":                   "-pages-file",
		"run saturate -limit 50" + deployed + "main_test.go": "-limit: with -target",
		"run scale" + deployed + "testdata/pages.json":       "only their operator can make",
		"articles asure":                                     "no experiment's name begins with",
		"articles azure x":                                   "unexpected argument",
		"report none":                                        "read report",
		"faults -faults kill-*,x*":                           `"x*"`,
	} {
		if r := loadtest(t.Context(), strings.Fields(args)...); r.code != 2 || !strings.Contains(r.err, want) {
			t.Errorf("loadtest %s = %d, %q, want 2 and %q", args, r.code, r.err, want)
		}
	}
	var o options
	fs := o.flags("run", report.Own)
	if err := fs.Parse([]string{"-secret", "x", "-broker=amqp://u:p@h/", "-room", "9"}); err != nil {
		t.Fatal(err)
	}
	if got, want := commandLine(fs, "saturate"), "go run ./cmd/loadtest run saturate -broker=… -room=9 -secret=…"; got != want {
		t.Errorf("commandLine = %q, want %q", got, want)
	}
}

// sound fails the test unless our run has lost and doubled nothing, whatever the machine
// did to its times. A dispatcher that the machine stopped for seconds drops what it held,
// and makes its calls again.
func sound(t *testing.T, dir string, r ran) (*report.Report, report.Run) {
	t.Helper()
	found, err := report.Read(dir)
	if err != nil || len(found.Runs) == 0 {
		t.Fatalf("no report: %v; the program said %s%s", err, r.out, r.err)
	}
	run := found.Runs[0]
	f := run.Figures
	if f[report.Sent] == 0 || f[report.Lost] != 0 || f[report.Duplicated] != 0 && run.Status == report.Complete || f[report.Unexpected] != 0 || f[report.Dead] != 0 {
		t.Errorf("%s %q %s: %v, want some sent, and none lost, doubled, unexpected or dead; the program said %s", run.Name(), run.Status, run.Reason, f, r.err)
	}
	return found, run
}

// The whole system on RabbitMQ: signed events in, dispatchers, and how much it cost; then
// a strategy's workers that join, leave and are killed.
func TestOnRabbitMQ(t *testing.T) {
	t.Parallel()
	flags := []string{"-broker", rabbittest.URL(t), "-partitions", "8", "-replicas", "2", "-duration", "4s", "-out"}
	dir := t.TempDir()
	r := loadtest(t.Context(), append([]string{"run", "chatclub-room"}, append(flags, dir)...)...)
	found, run := sound(t, dir, r)
	for _, name := range []report.Figure{report.Operations, report.CPU} {
		if run.Figures[name] <= 0 {
			t.Errorf("%s = %g, want it known", name, run.Figures[name])
		}
	}
	if !slices.ContainsFunc(found.Parameters, func(p report.Parameter) bool { return strings.HasPrefix(p.Value, "RabbitMQ 4") }) {
		t.Errorf("parameters = %v, want the broker's version", found.Parameters)
	}
	if testing.Short() {
		return
	}
	r = loadtest(t.Context(), append([]string{"compare", "scale", "-strategies", "static"}, append(flags, dir)...)...)
	if found, err := report.Read(dir); err != nil || found.Runs[0].Status == report.Failed || found.Runs[0].Figures[report.Lost] != 0 || found.Runs[0].Figures[report.Sent] == 0 {
		t.Errorf("static: %v, %s%s, want a run that lost nothing", err, r.out, r.err)
	}
}

// The recipe of docs/operate.md for a deployment of one's own says PASS of one that works,
// also where texts are joined so that the page has less to send than its limit.
func TestDeploymentOfOnesOwn(t *testing.T) {
	t.Parallel()
	ids := make([]string, 4)
	tokens := make(map[string]string)
	for i := range ids {
		ids[i] = fmt.Sprint(100 + i)
		tokens[ids[i]] = "token-" + ids[i]
	}
	f, err := fleet.NewLocal(t.Context(), fleet.Config{
		Options:  fleet.Options{Strategy: report.Own, Replicas: 2, Limit: 300},
		Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 8}, AMQP: rabbittest.URL(t), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	for range 2 {
		if err := f.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	url, err := f.Ingress(t.Context(), fleet.Ingress{Secret: "s", Capacity: 20})
	if err != nil {
		t.Fatal(err)
	}
	ledger := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "fakeapi" }, Transport: f.Platform().Transport})
	defer ledger.Close()
	b, err := json.Marshal(tokens)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pages := filepath.Join(dir, "pages.json")
	if err := os.WriteFile(pages, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for try := 1; ; try++ { // a busy machine may cost a call a second too late, but not each time
		r := loadtest(t.Context(), "run", "saturate", "-target", url, "-ledger", ledger.URL, "-secret", "s", "-pages-file", pages, "-room", "20", "-duration", "5s", "-out", dir)
		_, run := sound(t, dir, r)
		if r.code == 0 || run.Status != report.Complete {
			return
		}
		if try == 3 {
			t.Fatalf("run = %d, %s%s, want PASS", r.code, r.out, r.err)
		}
	}
}
