package private

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where another apt-get runs it is waited for, and other faults are told. A script
// stands in for it.
func TestApt(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
case "$*" in
*update) mkdir "$0.held" 2>/dev/null && echo "E: Could not get lock /var/lib/apt/lists/lock" && exit 100 ;;
*) echo "E: Unable to locate package" && exit 100 ;;
esac
exit 0
`
	if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	if err := Apt(t.Context(), "update"); err != nil {
		t.Errorf("Apt(update) beside another = %v, want nil once that has ended", err)
	}
	if err := Apt(t.Context(), "install", "none"); err == nil || !strings.Contains(err.Error(), "install: apt-get: exit status 100: E: Unable to locate") {
		t.Errorf("Apt(install none) = %v, want its words", err)
	}
}
