package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chatclub/loadtest/faults"
)

// Every wrong flag of faults is named at once, before anything starts.
func TestFaultsRefusesWrongUsage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"-for 0 -steps -1 -pages 0 -members 1 -events 0 -nodes 2 -patience 1ms", []string{"-for", "-steps", "-pages", "-members", "-events", "-nodes", "-patience"}},
		{"-faults kill-cor", []string{`"kill-cor"`}},
		{"-broker amqp://127.0.0.1/ -rabbitmq /x", []string{"-broker, -rabbitmq"}},
		{"-broker amqp://127.0.0.1/ -faults kill-node", []string{"kill-node"}},
		{"-unknown", []string{"-unknown"}},
		{"extra", []string{`"extra"`}},
		{"-out " + filepath.Join(t.TempDir(), "none", "out"), []string{"-out"}},
	} {
		r := loadtest(t.Context(), append([]string{"faults"}, strings.Fields(tc.args)...)...)
		for _, want := range tc.want {
			if r.code != 2 || !strings.Contains(r.err, want) {
				t.Errorf("faults %s = %d, %q, want 2 and %s named", tc.args, r.code, r.err, want)
			}
		}
	}
}

// The table of faults can be read without making any.
func TestFaultsList(t *testing.T) {
	t.Parallel()
	r := loadtest(t.Context(), "faults", "-list")
	for _, f := range faults.Table() {
		if !strings.Contains(r.out, "| "+f.Name+" |") {
			t.Errorf("faults -list lacks %s", f.Name)
		}
	}
	if r.code != 0 {
		t.Errorf("faults -list = %d, want 0", r.code)
	}
}

// Ctrl-C before the first fault is no verdict.
func TestFaultsInterruptedAtItsStart(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := loadtest(ctx, "faults", "-broker", "amqp://127.0.0.1:1/")
	if r.code != 3 || !strings.Contains(r.err, "NO VERDICT: stopped before the first fault") {
		t.Errorf("faults, stopped at once = %d, %q, want 3 and no verdict", r.code, r.err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v, want nothing", left, err)
	}
}
