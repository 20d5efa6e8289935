package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"chatclub/fakeapi/limit"
)

const picture = "../../../docs/limits.svg"

// TestPictureIsCurrent: the file in docs/ is what the command draws.
func TestPictureIsCurrent(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	if code := run(&got, io.Discard); code != 0 {
		t.Fatalf("run = %d, want 0", code)
	}
	want, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("docs/limits.svg is not what the command draws: make pictures")
	}
}

// TestOutcomes: each algorithm admits as many calls as docs/limits.md says.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	type numbers struct{ total, first, busiest int }
	for a, want := range map[limit.Algorithm]numbers{
		limit.FixedWindow:   {3750, 100, 550}, // ten whole windows, and the remains of those that the pauses and the ends cut
		limit.SlidingWindow: {3216, 100, 374},
		limit.SlidingLog:    {3000, 100, 300}, // 300 in each of ten seconds of calling
		limit.TokenBucket:   {3897, 100, 599}, // a burst of 300, 300/s for ten seconds, and what two pauses saved up
		limit.LeakyBucket:   {3087, 59, 329},  // the same with a bucket of 30
	} {
		o, err := try(a)
		if err != nil {
			t.Fatal(err)
		}
		if got := (numbers{o.total, o.counts[0], o.busiest}); got != want {
			t.Errorf("try(%s) = %+v, want %+v", a, got, want)
		}
		row := fmt.Sprintf("| %s | %s | %d |", a, thousands(want.total), want.busiest)
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/limits.md has no row %q", row)
		}
	}
}

func TestRunReportsErrors(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	if code := run(broken{}, &stderr); code != 1 || stderr.String() != "the disk is full\n" {
		t.Errorf("run to a full disk = %d %q, want 1 and the error", code, stderr.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }
