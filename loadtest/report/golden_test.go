package report

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checkGolden compares with a file in testdata; with UPDATE_GOLDEN set it
// writes the file instead.
func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not what was written; UPDATE_GOLDEN=1 go test ./report writes it (-want +got):\n%s", path, diff)
	}
}

// written is what a writer of reports writes.
func written(t *testing.T, write func(io.Writer, *Report) error, r *Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, r := range []*Report{sampleSaturate(), sampleOverload(), sampleHostile()} {
		for ending, write := range map[string]func(io.Writer, *Report) error{
			".json": Write, ".compact.json": WriteCompact, ".txt": WriteTable, ".md": WriteMarkdown,
		} {
			checkGolden(t, "sample-"+r.Scenario+ending, written(t, write, r))
		}
	}
}
