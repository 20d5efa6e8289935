package main

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is the server process when cost starts itself.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-serve") {
		main()
	}
	goleak.VerifyTestMain(m)
}

// TestMeasure has a small load answered by both servers. Its cost is not judged.
func TestMeasure(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-pairs", "3", "-sends", "50"}, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("run = %d %s, want 0", code, &errs)
	}
	want := regexp.MustCompile(`^(pair \d: bare [\d.]+ µs, fakeapi [\d.]+ µs of CPU a send: \S+\n){3}median of 3 pairs: bare [\d.]+ µs, fakeapi [\d.]+ µs, ratio \S+ \(lowest \S+, highest \S+\)\n$`)
	if !want.Match(out.Bytes()) {
		t.Errorf("printed %q, want three pairs and their median", &out)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-pairs", "0"}, {"-sends", "-1"}, {"-pairs", "x"}, {"more"}, {"-serve", "nothing"}} {
		if code := run(t.Context(), args, strings.NewReader(""), io.Discard, io.Discard); code == 0 {
			t.Errorf("run %v = 0, want an error", args)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		list []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(tc.list); got != tc.want {
			t.Errorf("median(%v) = %g, want %g", tc.list, got, tc.want)
		}
	}
}
