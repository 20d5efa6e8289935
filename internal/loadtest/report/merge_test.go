package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	first, second, other := sampleSaturate(), sampleSaturate(), sampleOverload()
	first.Runs, second.Runs = first.Runs[:2], second.Runs[7:]
	second.Seed, second.Command, second.Machine.CPUs = 8, "another command", 64
	second.Expectations = append(second.Expectations, Expectation{Text: "one more"})
	got := Merge(first, other, second)
	if len(got) != 2 || got[0].Scenario != "saturate" || got[1].Scenario != "aws-overload" {
		t.Fatalf("Merge = %d reports, want saturate and aws-overload", len(got))
	}
	m := got[0]
	if n := names(m.Runs); strings.Join(n, ",") != "naive (interrupted),article,aimd-only,chatclub" {
		t.Errorf("runs = %q", n)
	}
	if len(m.Expectations) != 4 {
		t.Errorf("expectations = %d, want 4: each once", len(m.Expectations))
	}
	const want = "from another report: seed 8; machine linux/amd64, 64 CPUs, Sample CPU, 8.00 GiB of memory, kernel 6.1.0; command another command"
	if diff := cmp.Diff([]string{want}, m.Runs[3].Notes); diff != "" {
		t.Errorf("note of a run made in another way (-want +got):\n%s", diff)
	}
	if len(m.Runs[1].Notes) != 0 {
		t.Errorf("notes of the first report's run = %q, want none", m.Runs[1].Notes)
	}
	if len(first.Runs) != 2 || len(second.Runs[1].Notes) != 0 {
		t.Error("Merge has changed the reports it was given")
	}
	if again := Merge(append([]*Report{m}, first, second)...); len(again) != 1 || len(again[0].Runs) != 4 {
		t.Errorf("merged again: %d runs, want the same 4", len(again[0].Runs))
	}
}

func TestSavedIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	saturate := sampleSaturate()
	saturate.Runs = saturate.Runs[8:] // drawing takes its time
	if err := Save(dir, saturate, sampleOverload()); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		"report.html", "saturate/report.json", "saturate/report.md", "saturate/sends.png", "saturate/refusals.png", "saturate/latency.png",
		"saturate/comparison.png", "aws-overload/curve.png", "aws-overload/report.json",
	} {
		if found, err := filepath.Glob(filepath.Join(dir, file)); err != nil || len(found) != 1 {
			t.Errorf("%s was not written", file)
		}
	}
	got, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*Report{sampleOverload(), saturate}, got); diff != "" {
		t.Errorf("Find (-want +got):\n%s", diff)
	}
	if _, err := Find(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no report.json in") {
		t.Errorf("Find of an empty folder = %v, want an error", err)
	}
	if _, err := Find(filepath.Join(dir, "report.html")); err == nil || !strings.Contains(err.Error(), "report.html") {
		t.Errorf("Find of something else = %v, want an error that names it", err)
	}
	if err := Save(dir, sampleSaturate(), sampleSaturate()); err == nil || !strings.Contains(err.Error(), "merge them first") {
		t.Errorf("Save of two of one scenario = %v, want an error", err)
	}
	if err := Save(dir); err == nil {
		t.Error("Save of nothing = nil, want an error")
	}
}

// Beside each report.json comes all that shows it, and the report stays.
func TestSavedBeside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} { // of one scenario, which Save would refuse
		if err := saveParts(filepath.Join(dir, name), sampleOverload()); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, name, "curve.png")); err != nil {
			t.Fatal(err)
		}
	}
	before, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := SaveBeside(dir); n != 2 || err != nil {
		t.Fatalf("SaveBeside() = %d, %v, want 2 reports", n, err)
	}
	for _, file := range []string{"a/report.html", "a/curve.png", "b/report.html", "b/curve.png"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Errorf("%s was not written: %v", file, err)
		}
	}
	after, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the reports changed (-before +after):\n%s", diff)
	}
	if _, err := SaveBeside(t.TempDir()); err == nil {
		t.Error("SaveBeside of an empty folder = nil, want an error")
	}
}

// A picture of an earlier report beside a later report.md would be believed.
func TestSaveRemovesOldPictures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	with, without := sampleOverload(), sampleOverload()
	for i := range without.Runs {
		without.Runs[i].Curve = nil
	}
	for _, r := range []*Report{with, without} {
		if err := Save(dir, r); err != nil {
			t.Fatal(err)
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.png"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "comparison.png")}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("pictures after the second report (-want +got):\n%s", diff)
	}
}
