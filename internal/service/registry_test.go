package service

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// The linker's version goes before the one that Go found in Git, and -version, the
// first line of the log and chatclub_build_info say the same.
func TestLinkedVersion(t *testing.T) { // not parallel: it sets what the linker sets
	t.Cleanup(func() { linkedVersion, linkedRevision = "", "" })
	for _, row := range []struct{ version, revision string }{{"v1.2.3", "0123abc"}, {"", ""}, {"v1.2.4", ""}} {
		linkedVersion, linkedRevision = row.version, row.revision
		version, revision := recordedVersion()
		if row.version != "" {
			version = row.version
		}
		if row.revision != "" {
			revision = row.revision
		}
		if got, want := Version("core"), fmt.Sprintf("core %s, revision %s, %s", version, revision, runtime.Version()); got != want {
			t.Errorf("Version = %q, want %q", got, want)
		}
		var log bytes.Buffer
		logger, _ := NewLogger(LogSettings{}, &log)
		LogStart(t.Context(), logger, Defaults[AdminSettings]())
		if want := fmt.Sprintf(" version=%s revision=%s go=%s", version, revision, runtime.Version()); !strings.Contains(log.String(), want) {
			t.Errorf("LogStart logs %q, want %q in it", log.String(), want)
		}
		want := fmt.Sprintf(`# HELP chatclub_build_info Always 1; the labels say what this program was built from.
# TYPE chatclub_build_info gauge
chatclub_build_info{go_version=%q,revision=%q,version=%q} 1
`, runtime.Version(), revision, version)
		if err := testutil.GatherAndCompare(NewRegistry(), strings.NewReader(want), "chatclub_build_info"); err != nil {
			t.Error(err)
		}
	}
}
