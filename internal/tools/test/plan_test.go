package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	long, timeout, flags, patterns, err := parse([]string{"-long", "-run=X", "./internal/a", "--timeout", "3m", "-v", "./b/..."})
	if !long || timeout != "3m" || err != nil {
		t.Errorf("parse() = long %v, timeout %s, %v", long, timeout, err)
	}
	if diff := cmp.Diff([][]string{{"-run=X", "-v"}, {"./internal/a", "./b/..."}}, [][]string{flags, patterns}); diff != "" {
		t.Errorf("parse(): -want +got\n%s", diff)
	}
	if long, timeout, _, patterns, _ := parse(nil); long || timeout != "10m" || len(patterns) != 2 {
		t.Errorf("parse(nothing) = long %v, timeout %s, %q, want all in the short form", long, timeout, patterns)
	}
}

// TestPlan checks that what has SQLite in it, and simulations, run without the race
// detector in the short form, and nothing twice.
func TestPlan(t *testing.T) {
	t.Parallel()
	list, err := plan([]string{"chatclub/internal/queue", "chatclub/internal/rooms", "chatclub/internal/aimd", "chatclub/cmd/core"}, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	var raced, plain string
	for _, s := range list {
		if text := strings.Join(s.args, " "); slices.Contains(s.args, "-race") {
			raced += text
		} else {
			plain += text
		}
	}
	if !hasCompiler() {
		raced = plain
	}
	for _, p := range []string{"internal/rooms", "internal/aimd", "cmd/core"} {
		if !strings.Contains(plain, p) {
			t.Errorf("%s is not tested without the race detector: %q", p, plain)
		}
	}
	if !strings.Contains(raced, "internal/queue") || strings.Count(raced, "chatclub/") == 0 {
		t.Errorf("internal/queue is not tested under the race detector: %q", raced)
	}
	list, err = plan([]string{"-long", "chatclub/internal/rooms", "chatclub/internal/e2e"}, new(bytes.Buffer))
	if err != nil || slices.Contains(list[0].args, "-short") {
		t.Errorf("plan(-long) = %+v, %v, want no -short", list, err)
	}
	if hasCompiler() && (len(list) != 2 || !slices.Contains(list[0].args, "chatclub/internal/rooms") || !slices.Contains(list[0].args, "-race")) {
		t.Errorf("plan(-long) = %+v, want rooms under the race detector, and e2e without", list)
	}
}

func TestTreeMemory(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	for pid, p := range map[string]struct{ stat, pss string }{
		"7":  {"7 (test) S 1 7", "10"},
		"8":  {"8 (a) b) R 7 7", "200"},
		"9":  {"9 (c) S 8 7", "3000"},
		"10": {"10 (other) S 1 1", "50000"},
	} {
		if err := os.MkdirAll(filepath.Join(proc, pid), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"stat": p.stat, "smaps_rollup": "00-ff ---p\nRss: 99 kB\nPss:   " + p.pss + " kB\n"} {
			if err := os.WriteFile(filepath.Join(proc, pid, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := treeMemory(proc, 7); got != 3210<<10 {
		t.Errorf("treeMemory() = %d kB, want 3210: its own, a child's and a grandchild's", got>>10)
	}
}
