package app

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"chatclub/tools/program"
)

// The units start programs that there are, with settings that these have, and wait
// for their end.
func TestUnits(t *testing.T) {
	t.Parallel()
	units, err := filepath.Glob(filepath.Join(root, "deploy/systemd/*.service"))
	if err != nil || len(units) != 3 {
		t.Fatalf("found the units %v, %v, want three", units, err)
	}
	programs := knownPrograms(t)
	for _, file := range units {
		file = "deploy/systemd/" + filepath.Base(file)
		text := document(t, file)
		is := started{place: file, program: one(t, file, text, `(?m)^ExecStart=/usr/local/bin/(\w+)$`), settings: make(map[string]string)}
		for _, line := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllStringSubmatch(text, -1) {
			for assignment := range strings.FieldsSeq(line[1]) {
				if name, value, _ := strings.Cut(assignment, "="); name != "GOMEMLIMIT" {
					is.settings[name] = value
				}
			}
		}
		// What files of variables are to hold stands in a comment before them.
		for _, line := range regexp.MustCompile(`(?m)^#(.*)\nEnvironmentFile=`).FindAllStringSubmatch(text, -1) {
			for _, name := range regexp.MustCompile(`[A-Z]+_[A-Z_]+`).FindAllString(line[1], -1) {
				is.settings[name] = ""
			}
		}
		report(t, is.faults(programs))
		stop, err := time.ParseDuration(one(t, file, text, `(?m)^TimeoutStopSec=(\d+)$`) + "s")
		if err != nil || stop < leastStop {
			t.Errorf("%s: TimeoutStopSec %v, want at least %v", file, stop, leastStop)
		}
	}
}

// one returns the only match of the pattern's group.
func one(t *testing.T, place, text, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	if len(found) != 1 {
		t.Fatalf("%s: %d matches of %s, want 1", place, len(found), pattern)
	}
	return found[0][1]
}

// systemd itself reads the units, where it is installed. It says nothing of what it
// takes.
func TestUnitsVerify(t *testing.T) {
	t.Parallel()
	analyze, err := program.Find("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed, so systemd does not check the units")
	}
	units, err := filepath.Glob(filepath.Join(root, "deploy/systemd/*.service"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"verify", "--man=no"}
	for _, file := range units {
		// The programs need not be installed here.
		text := regexp.MustCompile(`/usr/local/bin/\w+`).ReplaceAllString(document(t, "deploy/systemd/"+filepath.Base(file)), "/bin/true")
		file = filepath.Join(dir, strings.Replace(filepath.Base(file), "@", "@9101", 1))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	r, err := program.Run(t.Context(), program.Command{Path: analyze, Args: args})
	if out := r.Stdout + r.Stderr; err != nil || out != "" {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
