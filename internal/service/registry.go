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
	version, revision := buildVersion()
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
	version, revision := buildVersion()
	return fmt.Sprintf("%s %s, revision %s, %s", program, version, revision, runtime.Version())
}

// buildVersion is the module's version and its source revision, "unknown"
// where the build did not record them.
func buildVersion() (version, revision string) {
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
