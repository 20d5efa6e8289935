package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/loadtest/report"
	"chatclub/internal/loadtest/trial"
)

// Each row is a command that the program takes, has a folder of its own, and all
// take three hours at most.
func TestEvidenceRowsAreCommands(t *testing.T) {
	t.Chdir("../..") // where the peers are found
	var all time.Duration
	seen := make(map[string]bool)
	for _, r := range evidenceRows() {
		if seen[r.folder] {
			t.Errorf("folder %s is there twice", r.folder)
		}
		seen[r.folder] = true
		takes, err := r.takes()
		if err != nil {
			t.Errorf("%s: %v", r.folder, err)
		}
		all += takes
	}
	if all < 2*time.Hour || all > 3*time.Hour {
		t.Errorf("all rows take %v, want two to three hours", all)
	}
}

// Where people wait, the platform's own latency is what is measured first.
func TestEvidenceIsAtThePlatformsLatency(t *testing.T) {
	t.Chdir("../..") // where the peers are found
	for _, r := range evidenceRows() {
		p, err := r.parsed()
		if err != nil {
			t.Fatal(err)
		}
		want := "lognormal:700ms,1.9s"
		switch {
		case strings.HasSuffix(r.folder, "-40ms"):
			want = "lognormal:40ms,150ms"
		case p.scenario.Name == "ceiling":
			want = "none" // what a message costs
		}
		if p.common.Latency != want {
			t.Errorf("%s runs at %s, want %s", r.folder, p.common.Latency, want)
		}
	}
}

// measured is a folder for evidence, and what is run for it: a report of a
// revision for each row, or an exit code.
type measured struct {
	evidence
	ran      []string
	out, err bytes.Buffer
}

func newMeasured(t *testing.T, broker string, ends map[string]int, folders ...string) *measured {
	t.Helper()
	root := t.TempDir()
	m := &measured{}
	m.evidence = evidence{dir: filepath.Join(root, "docs", "evidence"), broker: broker, s: streams{nil, &m.out, &m.err}}
	m.stands = func(_ context.Context, revision, _ string) error {
		if revision != "now" {
			return errors.New("it is old")
		}
		return nil
	}
	m.measure = func(_ context.Context, args []string) (int, error) {
		dir := args[len(args)-1]
		folder := filepath.Base(dir)
		m.ran = append(m.ran, folder)
		r := &report.Report{
			Scenario: args[1], Command: "go run ./cmd/loadtest " + strings.Join(args, " "), Versions: report.Versions{Chatclub: "now"},
			Runs: []report.Run{{Figures: report.Figures{Strategy: report.Own, Lost: new(int64(0))}, Series: []report.Series{{Name: "page 1", StepMS: 1000, Sent: []int64{1}}}}},
		}
		if ends[folder] == exitNoVerdict {
			r.Runs[0].Status, r.Runs[0].Reason = report.Inconclusive, "a busy machine"
		}
		return ends[folder], report.Save(dir, r)
	}
	for _, r := range evidenceRows() {
		if slices.Contains(folders, r.folder) {
			m.rows = append(m.rows, r)
		}
	}
	for _, file := range []string{filepath.Join(root, "README.md"), filepath.Join(m.dir, "README.md")} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("# Evidence\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// Whatever does not end as expected is told in the exit code, after all others
// ran; so is a folder that needs a broker where there is none.
func TestEvidenceTellsWhatWentWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ends    map[string]int
		folders []string
		code    int
		ran     string
		said    string
	}{
		{nil, []string{"saturate", "zipf"}, 0, "saturate zipf", ""},
		{map[string]int{"saturate": 1}, []string{"saturate", "zipf"}, 1, "saturate zipf", "not as expected: saturate"},
		{map[string]int{"zipf": 3}, []string{"saturate", "zipf"}, 1, "saturate zipf", "no verdict: zipf"},
		{nil, []string{"saturate", "scale-rabbitmq"}, 1, "saturate", "not as expected: scale-rabbitmq"},
	} {
		m := newMeasured(t, "", tc.ends, tc.folders...)
		code, err := m.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if code != tc.code || strings.Join(m.ran, " ") != tc.ran || !strings.Contains(m.err.String(), tc.said) {
			t.Errorf("%v ending with %v = %d after %q, %s; want %d after %q, %q", tc.folders, tc.ends, code, m.ran, m.err.String(), tc.code, tc.ran, tc.said)
		}
		if _, err := os.Stat(filepath.Join(m.dir, "sends.png")); err != nil {
			t.Error(err)
		}
	}
}

// What is of this code and was made by the row's command is not made again; what
// has no verdict is.
func TestEvidenceResumes(t *testing.T) {
	t.Parallel()
	ends := map[string]int{"zipf": exitNoVerdict}
	m := newMeasured(t, "amqp://guest:secret@127.0.0.1:5672/", ends, "saturate", "zipf", "scale-rabbitmq")
	if _, err := m.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := m.out.String(); !strings.Contains(got, "3 folders, about ") {
		t.Errorf("estimate = %q, want that of three folders", got)
	}
	m.ran, ends["zipf"] = nil, 0
	if code, err := m.run(t.Context()); err != nil || code != 0 || !slices.Equal(m.ran, []string{"zipf"}) {
		t.Errorf("the second time = %d, %v after %q, want zipf alone", code, err, m.ran)
	}
	m.ran, m.rows[0].command = nil, m.rows[0].command+" -replicas 5"
	if code, err := m.run(t.Context()); err != nil || code != 0 || !slices.Equal(m.ran, []string{"saturate"}) {
		t.Errorf("with another command = %d, %v after %q, want saturate alone", code, err, m.ran)
	}
	for _, folder := range []string{"saturate", "zipf"} { // five runs of each, and one
		others, err := report.Find(filepath.Join(m.dir, folder, "report.json"))
		if err != nil {
			t.Fatal(err)
		}
		others[0].Runs = append(others[0].Runs, report.Run{Figures: report.Figures{Strategy: "redis"}, Status: report.Inconclusive, Reason: "a busy machine"})
		if err := report.Save(filepath.Join(m.dir, folder), others[0]); err != nil {
			t.Fatal(err)
		}
	}
	m.ran = nil
	m.out.Reset()
	if code, err := m.run(t.Context()); err != nil || code != 0 || !slices.Equal(m.ran, []string{"zipf"}) || !strings.Contains(m.out.String(), "saturate: redis has no verdict") {
		t.Errorf("where another's run has no verdict = %d, %v after %q, %s; want 0, zipf alone, and that it is said", code, err, m.ran, m.out.String())
	}
	m.stands = func(context.Context, string, string) error {
		return errors.New("since its revision has changed something")
	}
	m.out.Reset()
	if code, err := m.check(t.Context()); err != nil || code != 1 || !strings.Contains(m.out.String(), "3 of 3 reports are not of this code") {
		t.Errorf("check = %d, %v, %s; want 1 and three that are not of this code", code, err, m.out.String())
	}
	m.ran = nil
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if code, _ := m.run(stopped); code != exitNoVerdict || m.ran != nil {
		t.Errorf("run that is stopped = %d after %q, want 3 and nothing", code, m.ran)
	}
}

func TestEvidenceFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"evidence nothing": "nothing", "evidence -x": "-x"} {
		if r := loadtest(t.Context(), strings.Fields(args)...); r.code != 2 || !strings.Contains(r.err, want) {
			t.Errorf("%s = %d, %s; want 2 with %q", args, r.code, r.err, want)
		}
	}
	if r := loadtest(t.Context(), "evidence", "-estimate", "zipf"); r.code != 0 || !strings.Contains(r.out, "1 folders, about ") {
		t.Errorf("estimate = %d, %s%s", r.code, r.out, r.err)
	}
}

// repository is one with a file of the code and one of the documents, committed.
func repository(t *testing.T) (h *history, do func(args ...string) string) {
	t.Helper()
	dir := t.TempDir()
	do = func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	do("init", "-q")
	for _, name := range []string{"code/a.go", "code/a_test.go", ingress, "other/b.go", "README.md"} {
		write(t, filepath.Join(dir, name), "1")
	}
	do("add", "-A")
	do("commit", "-qm", "first")
	return &history{dir: dir, paths: []string{":(glob)code/*", ":(top)" + ingress, ":(top,exclude,glob)**/*_test.go"}}, do
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A report stands for the code if its revision is in the history of HEAD and what
// it depends on has not changed since, in a commit or without one.
func TestReportStandsForTheCode(t *testing.T) {
	t.Parallel()
	h, git := repository(t)
	first := git("rev-parse", "--short=12", "HEAD")
	via := trial.ViaWebhook
	stands := func(revision, want string) {
		t.Helper()
		err := h.standsFor(t.Context(), revision, via)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("report of %q: %v, want %q", revision, err, want)
		}
	}
	stands(first, "")
	stands("", "names no revision")
	stands(first+"+dirty", "nobody committed")
	stands("0123456789ab", "is not in the history")
	stands("--help", "is not in the history")
	for _, name := range []string{"code/a_test.go", "other/b.go", "README.md"} {
		write(t, filepath.Join(h.dir, name), "2")
	}
	git("commit", "-qam", "nothing that counts")
	stands(first, "")
	write(t, filepath.Join(h.dir, "code", "a.go"), "2")
	stands(first, "have changed code/a.go")
	git("commit", "-qam", "second")
	stands(first, "have changed code/a.go")
	stands("HEAD", "")
	second := git("rev-parse", "HEAD")
	write(t, filepath.Join(h.dir, ingress), "2")
	stands(second, "have changed "+ingress)
	via = trial.ViaOutbound
	stands(second, "")
	git("commit", "-qam", "third")
	stands(second, "")
	stands(first, "have changed code/a.go")
	via = trial.ViaWebhook
	stands(second, "have changed "+ingress)
	git("checkout", "-q", "-b", "aside", first)
	write(t, filepath.Join(h.dir, "other", "b.go"), "3")
	git("commit", "-qam", "aside")
	aside := git("rev-parse", "HEAD")
	git("checkout", "-q", "-")
	stands(aside, "is no ancestor of HEAD")
}

// What a report depends on is the code of a trial, and not how a report looks.
func TestWhatReportsDependOn(t *testing.T) {
	t.Parallel()
	h, err := openHistory(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(h.paths, "\n") + "\n"
	for _, want := range []string{"/internal/dispatch/*\n", "/internal/excess/*\n", "/fakeapi/*\n", "/internal/loadtest/strategy/*\n", "/internal/loadtest/scenario/*\n", "report/spread.go\n", "go.mod\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("paths lack %q", want)
		}
	}
	if _, err := os.Stat(filepath.Join("../..", ingress)); err != nil {
		t.Errorf("what counts for runs through the webhook alone: %v", err)
	}
	for _, not := range []string{"/internal/loadtest/report/*", "/internal/console/*"} {
		if strings.Contains(all, not) {
			t.Errorf("paths have %q, which changes no figure", not)
		}
	}
}

// The picture shows the peer that did best: not a weaker one, nor one whose run
// proves nothing.
func TestStrongestPeer(t *testing.T) {
	t.Parallel()
	run := func(name string, status report.Status, quota float64) report.Run {
		return report.Run{Figures: report.Figures{Strategy: name, QuotaUse: new(quota)}, Status: status}
	}
	runs := []report.Run{
		run(report.Own, report.Complete, 1), run("asynq", report.Complete, .5), run("bullmq", report.Complete, .99),
		run("river", report.Complete, .98), run("rabbit-redis", report.Inconclusive, 1),
	}
	if got := strongest(runs); got != "bullmq" {
		t.Errorf("strongest = %q, want bullmq", got)
	}
	if got := strongest(runs[:1]); got != "" {
		t.Errorf("strongest of none = %q", got)
	}
}

// documents are those with figures of reports.
var documents = []string{"../../README.md", "../../docs/evidence/README.md"}

// Every table in these documents with figures that were measured is what the
// reports say.
func TestDocumentsAreWhatReportsSay(t *testing.T) {
	t.Parallel()
	for _, name := range documents {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		filled, err := report.Fill(filepath.Dir(name), raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !bytes.Equal(raw, filled) {
			t.Errorf("%s is not what the reports say: go run ./cmd/loadtest report -readme README.md docs/evidence writes it", name)
		}
	}
}

// figure is a percentage or a time with a unit, as tables of measurements have them.
var figure = regexp.MustCompile(`\d (%|ms|µs)`)

// The page of the evidence has figures in those tables alone: what is written by
// hand would be of an older version some day.
func TestNoFigureIsWrittenByHand(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/evidence/README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?s)<!-- begin (table|rows) .*?<!-- end -->`).ReplaceAllString(string(raw), "")
	for line := range strings.Lines(text) {
		if figure.MatchString(line) && !strings.Contains(line, "latency") {
			t.Errorf("%q has a figure and is in no table that is written from a report", strings.TrimSpace(line))
		}
	}
	if n := strings.Count(string(raw), "<!-- begin table "); n < 5 {
		t.Errorf("%d tables, want 5 at least: the test has gone blind", n)
	}
}
