package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// evidence runs docs/evidence/make.sh with a Go command that builds a program
// which notes what it was told, and ends with an exit code for the scenario given.
func evidence(t *testing.T, scenario string, ends int, folders ...string) (code int, told []string, said string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	program := "#!/bin/bash\necho \"$@\" >> " + log + "\n[ \"$2\" != \"" + scenario + "\" ] || exit " + strconv.Itoa(ends) + "\n"
	stub := "#!/bin/bash\n[ \"$1\" = build ] || exit 1\necho \"$@\" >> " + log + "\nwhile [ \"$1\" != -o ]; do shift; done\ncat > \"$2\" <<'END'\n" + program + "END\nchmod +x \"$2\"\n"
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{"../../docs/evidence/make.sh"}, folders...)...)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "AMQP_URL=")
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatalf("nothing was run: %v; the script said %s", err, out)
	}
	return cmd.ProcessState.ExitCode(), strings.Split(strings.TrimSpace(string(raw)), "\n"), string(out)
}

// Whatever does not end as expected is told in the exit code, after all others
// ran; so is a folder that needs a broker where none is named. One without a
// verdict is told.
func TestEvidenceTellsWhatWentWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		scenario string
		ends     int
		folders  []string
		code     int
		ran      []string
		last     string
	}{
		{"", 0, []string{"saturate", "zipf"}, 0, []string{"compare saturate", "compare zipf"}, "== zipf"},
		{"saturate", 1, []string{"saturate", "zipf"}, 1, []string{"compare saturate", "compare zipf"}, "not as expected: saturate"},
		{"zipf", 1, []string{"saturate", "zipf"}, 1, []string{"compare saturate", "compare zipf"}, "not as expected: zipf"},
		{"zipf", 3, []string{"saturate", "zipf"}, 0, []string{"compare saturate", "compare zipf"}, "no verdict: zipf"},
		{"", 0, []string{"zipf", "scale-rabbitmq"}, 1, []string{"compare zipf"}, "not as expected: scale-rabbitmq"},
	} {
		code, told, said := evidence(t, tc.scenario, tc.ends, tc.folders...)
		if code != tc.code || !strings.HasSuffix(said, tc.last+"\n") {
			t.Errorf("make.sh %s, of which %q ends with %d = %d, %s; want %d, %s", tc.folders, tc.scenario, tc.ends, code, said, tc.code, tc.last)
		}
		if !strings.Contains(told[0], "-X chatclub/internal/loadtest/report.revision=") {
			t.Errorf("built by %q, want the revision in it", told[0])
		}
		if len(told) != 1+len(tc.ran) {
			t.Fatalf("make.sh %s ran %q, want %q", tc.folders, told[1:], tc.ran)
		}
		for i, want := range tc.ran {
			if !strings.HasPrefix(told[1+i], want) {
				t.Errorf("run %d = %q, want %q", i, told[1+i], want)
			}
		}
	}
}

// The rows are commands that the program takes, as they stand in the script.
func TestEvidenceRowsAreCommands(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/evidence/make.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(string(raw), "rows='")
	rows, _, _ = strings.Cut(rows, "'")
	n := 0
	for row := range strings.Lines(strings.TrimSpace(strings.ReplaceAll(rows, "AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/"))) {
		words := strings.Fields(row)
		names, flags := splitScenarios(words[2:])
		x, err := findScenario(names[0])
		if err != nil || len(names) != 1 {
			t.Errorf("%s: scenarios %q: %v", words[0], names, err)
			continue
		}
		if _, err := parse(x, flags, map[string]string{"run": "chatclub", "compare": "all"}[words[1]], nil); err != nil {
			t.Errorf("%s: %v", words[0], err)
		}
		n++
	}
	if n < 15 {
		t.Errorf("rows = %d, want all of them: the test has gone blind", n)
	}
}
