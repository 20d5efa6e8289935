package report

import (
	"strings"
	"testing"
)

func TestThisMachine(t *testing.T) {
	t.Parallel()
	m := ThisMachine()
	if m.CPUs < 1 || m.OS == "" || m.Arch == "" {
		t.Errorf("ThisMachine() = %+v, want its system and its CPUs", m)
	}
	if m.OS == "linux" && (m.MemoryBytes < 1<<24 || m.Kernel == "") {
		t.Errorf("ThisMachine() = %+v, want its memory and its kernel on Linux", m)
	}
	if v := ThisBuild(); !strings.HasPrefix(v.Go, "go") && !strings.HasPrefix(v.Go, "devel") {
		t.Errorf("ThisBuild() = %+v, want the version of Go", v)
	}
	if got := procField([]byte("MemTotal:  16 kB\nmodel name\t: A CPU: fast\n"), "model name"); got != "A CPU: fast" {
		t.Errorf("procField = %q, want A CPU: fast", got)
	}
	if !strings.Contains(m.String(), m.OS) {
		t.Errorf("String() = %q, want the system in it", m)
	}
}
