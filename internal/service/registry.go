package service

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry returns a registry with the metrics of the Go runtime and of the
// process, and chatclub_build_info.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	version, revision := BuildVersion()
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "chatclub_build_info",
		Help: "Always 1; the labels say what this program was built from.",
	}, []string{"version", "revision", "go_version"})
	info.WithLabelValues(version, revision, runtime.Version()).Set(1)
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		info,
	)
	return reg
}

// Version is the line that says which program this is, and what it was built from.
func Version(program string) string {
	version, revision := BuildVersion()
	return fmt.Sprintf("%s %s, revision %s, %s", program, version, revision, runtime.Version())
}

// What a build without Git's folder says it was built from, as in a container:
// go build -ldflags "-X chatclub/internal/service.linkedVersion=v1.2.3 -X …". Only
// the linker sets them, which can set nothing but variables of a package.
var linkedVersion, linkedRevision string

// BuildVersion returns the version and the source revision that the linker was
// given, and otherwise those that Go recorded; "unknown" where neither has them.
func BuildVersion() (version, revision string) {
	version, revision = recordedVersion()
	if linkedVersion != "" {
		version = linkedVersion
	}
	if linkedRevision != "" {
		revision = linkedRevision
	}
	return version, revision
}

// recordedVersion returns the version that go build found in Git.
func recordedVersion() (version, revision string) {
	version, revision = "unknown", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, revision
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return version, revision
}
