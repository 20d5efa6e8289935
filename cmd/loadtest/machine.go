package main

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"chatclub/internal/report"
)

// flagFlag keeps the name flag free for variables.
type flagFlag = flag.Flag

// head is the report before anything ran.
func (p *parsed) head(command string, args []string) *report.Report {
	return &report.Report{
		Schema: report.Schema, Scenario: p.scenario.Name, Title: p.scenario.Title, Source: p.scenario.Source,
		Parameters: p.parameters(), Command: commandLine(command, args), Seed: p.common.Seed, Started: time.Now().UTC().Truncate(time.Second),
		Versions: report.Versions{Go: runtime.Version(), Chatclub: revision(), Broker: p.broker},
		Machine:  machine(),
	}
}

// commandLine is what to type to run it again, without passwords.
func commandLine(command string, args []string) string {
	words := []string{"go run ./cmd/loadtest", command}
	hide := false
	for _, a := range args {
		switch {
		case hide && strings.Contains(a, "://"):
			a = "$URL"
		case hide:
			a = "$SECRET"
		case strings.Contains(a, "amqp") && strings.Contains(a, "@"):
			a = "-broker=$URL"
		}
		words = append(words, a)
		hide = a == "-broker" || a == "--broker" || a == "-secret" || a == "--secret" || a == "-redis"
	}
	return strings.ReplaceAll(strings.Join(words, " "), "$URL memory", "memory")
}

// revision is the commit that this program was built from.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	text, dirty := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			text = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		}
	}
	if text == "" {
		return ""
	}
	return text + dirty
}

// machine is what it runs on, as far as the system tells.
func machine() report.Machine {
	m := report.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0)}
	m.CPU = field("/proc/cpuinfo", "model name")
	if kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.MemoryBytes = kib * 1024
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	return m
}

// field reads the first line of a file that begins with name.
func field(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "" // another system
	}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
