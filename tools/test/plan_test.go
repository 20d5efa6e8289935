package main

import (
	"io"
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

// TestPlan: the short form has no race detector, the long form has it for all but the
// drivers and the simulations, and nothing is tested twice.
func TestPlan(t *testing.T) {
	t.Parallel()
	const driver, other, simulation = "chatclub/internal/e2e", "chatclub/internal/rooms", "chatclub/internal/dispatch"
	short, err := plan([]string{other, driver}, io.Discard)
	if err != nil || len(short) != 1 || !slices.Contains(short[0].args, "-short") || slices.Contains(short[0].args, "-race") {
		t.Fatalf("plan() = %+v, %v, want one command in the short form", short, err)
	}
	if !strings.HasSuffix(strings.Join(short[0].args, " "), driver+" "+other) {
		t.Errorf("plan() = %q, want the driver first", short[0].args)
	}
	long, err := plan([]string{"-long", other, simulation, driver}, io.Discard)
	if err != nil || slices.Contains(long[0].args, "-short") {
		t.Errorf("plan(-long) = %+v, %v, want no -short", long, err)
	}
	if hasCompiler() && (len(long) != 2 || !slices.Contains(long[0].args, "-race") || long[0].args[len(long[0].args)-1] != other ||
		slices.Contains(long[1].args, "-race") || !strings.HasSuffix(strings.Join(long[1].args, " "), " 50m "+driver+" "+simulation)) {
		t.Errorf("plan(-long) = %+v, want rooms alone under the race detector, and the others without, e2e first", long)
	}
}
