package main

import (
	"bytes"
	"io"
	"os"
	"testing"

	"chatclub/fakeapi/limit"
)

// TestPictureIsCurrent: the file beside the package is what the command draws.
func TestPictureIsCurrent(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	if code := run(&got, io.Discard); code != 0 {
		t.Fatalf("run = %d, want 0", code)
	}
	want, err := os.ReadFile("../algorithms.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("algorithms.svg is not what the command draws: go run ./fakeapi/limit/picture > fakeapi/limit/algorithms.svg")
	}
}

// TestShapes holds what README.md says of each algorithm.
func TestShapes(t *testing.T) {
	t.Parallel()
	type shape struct {
		total     int // admitted of 10,000
		first     int // in the first 100 ms
		perSecond int // most in any ten bins
	}
	for a, want := range map[limit.Algorithm]shape{
		limit.FixedWindow:   {3750, 100, 550}, // ten whole windows, and the remains of those that the pauses and the ends cut
		limit.SlidingWindow: {3216, 100, 374},
		limit.SlidingLog:    {3000, 100, 300}, // 300 in each of ten seconds of calling
		limit.TokenBucket:   {3897, 100, 599}, // a burst of 300, 300/s for ten seconds, and what two pauses saved up
		limit.LeakyBucket:   {3087, 59, 329},  // the same with a bucket of 30
	} {
		counts, err := admitted(a)
		if err != nil {
			t.Fatal(err)
		}
		got := shape{first: counts[0]}
		for i, c := range counts {
			got.total += c
			second := 0
			for _, d := range counts[i:min(i+10, len(counts))] {
				second += d
			}
			got.perSecond = max(got.perSecond, second)
		}
		if got != want {
			t.Errorf("%s: shape = %+v, want %+v", a, got, want)
		}
	}
}
