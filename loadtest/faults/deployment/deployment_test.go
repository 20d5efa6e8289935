package deployment

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/tools/private"
	"chatclub/loadtest/faults"
)

func TestMain(m *testing.M) { rabbittest.Main(m) }

// patience bounds what must happen; a busy machine may take long.
const patience = time.Minute

// The whole harness, on one node: a program is killed and links are cut, nothing is
// lost, and nothing of it is left.
func TestWholeDeployment(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long; the tests of package faults have its parts")
	}
	cfg := Config{Nodes: 1, Load: faults.Load{Pages: 2, Members: 5, Events: 4}, Say: func(line string) { t.Log(line) }}
	names := "kill-dispatcher,half-open-dispatcher-broker,kill-broker"
	if _, err := private.RabbitMQ(); err != nil { // a broker in a container
		cfg.Nodes, cfg.Broker, names = 0, rabbittest.URL(t), "kill-dispatcher,half-open-dispatcher-broker"
	}
	can, _, err := faults.Select(names, cfg.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range can {
		can[i].Length = time.Second
	}
	d, err := Start(t.Context(), cfg)
	if d != nil {
		defer func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(d.dir); !os.IsNotExist(err) {
				t.Errorf("the run's folder is still there: %v", err)
			}
		}()
	}
	if err != nil {
		t.Fatal(err)
	}
	rep, err := faults.Run(t.Context(), faults.Config{
		System: d, Ledger: d.Judge(), Faults: can, Seed: 1, For: 10 * time.Minute, Steps: len(can), Patience: patience, Load: cfg.Load, Say: cfg.Say,
	})
	if err != nil {
		t.Fatal(err)
	}
	// A busy machine makes times doubtful, which is no failure.
	if rep.Outcome == faults.Fail || len(rep.Rows) != len(can) || rep.Totals.Accepted == 0 || len(rep.Samples) == 0 || len(rep.Samples[0].Usage) < 7 {
		t.Errorf("outcome = %s %q, %d rows, %+v, samples %v; want no failure and a row for each of %d faults",
			rep.Outcome, rep.Reasons, len(rep.Rows), rep.Totals, rep.Samples, len(can))
	}
}

// The metrics of a program are read as it writes them.
func TestParseUsage(t *testing.T) {
	t.Parallel()
	got := parseUsage([]byte("# HELP go_goroutines x\ngo_goroutines 143\nprocess_open_fds 44\nprocess_resident_memory_bytes 1.6777216e+07\nother{a=\"b\"} 3\n"))
	if want := (faults.Usage{Goroutines: 143, Files: 44, Memory: 16 << 20}); got != want {
		t.Errorf("parseUsage = %+v, want %+v", got, want)
	}
}

// The platform's last line is understood as the ledger writes it; no line is an
// error.
func TestParseBalance(t *testing.T) {
	t.Parallel()
	want := ledger.Counts{
		Events: 1, Expected: 2, Accepted: 3, Refused: 4, Pending: 5, Lost: 5, Duplicated: 6, Unexpected: 7, Unidentified: 8, Excused: 9, Inversions: 10,
	}
	for _, pending := range []string{"lost", "awaited"} {
		got, err := parseBalance(ledger.Counts{Inversions: 10, Pending: 99}, want.Line(pending))
		if err != nil || got != want {
			t.Errorf("parseBalance(%q) = %+v, %v, want %+v", want.Line(pending), got, err, want)
		}
	}
	if _, err := parseBalance(ledger.Counts{}, ""); err == nil {
		t.Error("parseBalance of nothing = nil, want an error")
	}
}

// What is left when this program has gone is killed, and the folder removed; what
// has ended is not touched.
func TestGuard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inside := filepath.Join(dir, "run")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	g, err := newGuard(inside)
	if err != nil {
		t.Fatal(err)
	}
	start := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		g.began(cmd.Process.Pid)
		return cmd
	}
	left, other := start(), start()
	g.ended(other.Process.Pid) // as if it had
	if err := g.close(); err != nil {
		t.Error(err)
	}
	if err := left.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process that was left = %v, want it killed", err)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process that is not the guard's any more: %v, want it alive", err)
	}
	_ = other.Process.Kill()
	_ = other.Wait()
	if _, err := os.Stat(inside); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// A program that ends by itself is a failure, once; one that is killed or stopped
// is not.
func TestProgramEnds(t *testing.T) {
	t.Parallel()
	g, err := newGuard(filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.close() }()
	run := func(script string) *program {
		dir := t.TempDir()
		path := filepath.Join(dir, "program")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		p := &program{name: "core-1", path: path, admin: "127.0.0.1:1", log: filepath.Join(dir, "log"), guard: g, env: []string{"PATH=" + os.Getenv("PATH")}}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it has no admin port to wait for
		_ = p.start(ctx)
		return p
	}
	p := run("echo its last word; exit 3")
	_, done := p.life()
	<-done
	if got := p.takeFailures(); len(got) != 1 || !strings.Contains(got[0], "exit status 3") || !strings.Contains(got[0], "its last word") {
		t.Errorf("failures of a program that ended by itself = %q, want one with its exit code and last word", got)
	}
	if got := p.takeFailures(); len(got) != 0 {
		t.Errorf("failures, asked again = %q, want none", got)
	}
	p = run("exec sleep 600")
	if err := p.kill(); err != nil || len(p.takeFailures()) != 0 {
		t.Errorf("kill = %v, want no failure", err)
	}
	p = run("trap 'exit 5' TERM; echo; while :; do sleep 0.01; done")
	for b, _ := os.ReadFile(p.log); len(b) == 0; b, _ = os.ReadFile(p.log) { // until its trap is set
		time.Sleep(time.Millisecond)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if got := p.takeFailures(); len(got) != 1 || !strings.Contains(got[0], "ended with 5 after SIGTERM") {
		t.Errorf("failures of a stop with exit code 5 = %q, want it named", got)
	}
}
