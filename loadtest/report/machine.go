package report

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Versions are those of the software that was measured.
type Versions struct {
	Go       string `json:"go,omitempty"`
	Chatclub string `json:"chatclub,omitempty"` // revision of this project, "+dirty" if changed since
	Broker   string `json:"broker,omitempty"`   // as in "memory" or "RabbitMQ 4.0.5"
}

// Machine is the one that it was measured on.
type Machine struct {
	OS          string `json:"os,omitempty"`
	Arch        string `json:"arch,omitempty"`
	CPUs        int    `json:"cpus,omitempty"` // that may be used
	CPU         string `json:"cpu,omitempty"`  // the model
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	Kernel      string `json:"kernel,omitempty"`
}

// ThisMachine describes the machine that the program runs on. Only Linux tells all of it;
// the rest is empty.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0)}
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = procField(raw, "model name")
	}
	if raw, err := os.ReadFile("/proc/meminfo"); err == nil {
		kib, _, _ := strings.Cut(procField(raw, "MemTotal"), " ")
		n, _ := strconv.ParseInt(kib, 10, 64) // 0 is "unknown"
		m.MemoryBytes = n << 10
	}
	if raw, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(raw))
	}
	return m
}

// procField finds "name : value" in a file of /proc.
func procField(raw []byte, name string) string {
	s := bufio.NewScanner(bytes.NewReader(raw))
	for s.Scan() {
		key, value, ok := strings.Cut(s.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// revision is this project's, where the linker was told:
// -ldflags "-X chatclub/loadtest/report.revision=…". Go itself records none in
// a linked worktree, nor with -buildvcs=false.
var revision string

// ThisBuild returns the Go version and, where the build recorded it, this
// project's revision; go run and go test do not record one.
func ThisBuild() Versions {
	v := Versions{Go: runtime.Version(), Chatclub: revision}
	if revision != "" {
		return v
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.Chatclub = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+dirty"
		}
	}
	if v.Chatclub != "" {
		v.Chatclub += changed
	}
	return v
}
