package scenario_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"chatclub/loadtest/scenario"
)

// Every scenario runs in virtual time, with its own defaults or something
// shorter, and this project's dispatcher does as is expected of it.
func TestEveryScenarioIsAsExpected(t *testing.T) {
	t.Parallel()
	shorter := map[string][]string{
		"chatclub-room":      {"-via", "outbound"}, // a webhook needs sockets, which virtual time has not
		"neighbour":          {"-duration", "10s", "-backlog", "10000"},
		"pushwoosh-sendrate": {"-rate", "500"},
		"saturate":           {"-duration", "10s"},
		"scale":              {"-duration", "24s"},
		"zipf":               {"-duration", "8s"},
		"mindbox-latency":    {"-times", "4", "-duration", "45s", "-warm", "25s"},
		"ceiling":            {"-pairs", "2", "-messages", "500"},
	}
	if testing.Short() {
		maps.Copy(shorter, map[string][]string{
			"chatclub-room": {"-via", "outbound", "-duration", "6s"},
			"neighbour":     {"-duration", "6s", "-backlog", "2000"},
			"saturate":      {"-duration", "6s", "-replicas", "2"},
			"scale":         {"-duration", "16s", "-replicas", "2"},
			"azure-10000":   {"-records", "4000"},
		})
	}
	// These take minutes of virtual time with thousands of calls a second.
	long := append(shortForms(), "limit-change", "shared-limit", "zipf", "pushwoosh-sendrate", "mindbox-latency", "aws-overload")
	for _, s := range scenario.All() {
		t.Run(s.Name, func(t *testing.T) {
			if testing.Short() && slices.Contains(long, s.Name) {
				t.Skip("make test-long runs it")
			}
			if !testing.Short() { // each holds 200 MB under the race detector
				t.Parallel()
			}
			run, unmet := play(t, s.Name, honest, shorter[s.Name]...)
			if s.Name == "ceiling" { // processor time is not virtual
				return
			}
			for _, u := range unmet {
				t.Errorf("not met: %s", u)
			}
			if *run.Sent == 0 {
				t.Error("nothing was sent")
			}
		})
	}
}

// Wrong parameters are named by their flags.
func TestFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ scenario, args, want string }{
		{"saturate", "-replicas 0", "-replicas"},
		{"saturate", "-duration 1ms", "-duration"},
		{"saturate", "-warm 1h", "-warm"},
		{"saturate", "-limit 0", "-limit"},
		{"saturate", "-algorithm none", "-algorithm"},
		{"saturate", "-latency soon", "-latency"},
		{"saturate", "-via mail", "-via"},
		{"saturate", "-room 1", "-room"},
		{"saturate", "-drain -1s", "-drain"},
		{"saturate", "-times .5", "-times"},
		{"saturate", "-hot-pages 0", "-hot-pages"},
		{"limit-change", "-to 1", "-to"},
		{"limit-change", "-limit 1", "-to"},
		{"shared-limit", "-foreign 2", "-foreign"},
		{"neighbour", "-backlog 0", "-backlog"},
		{"zipf", "-rate 1", "-rate"},
		{"bursts", "-room 0", "-room"},
		{"bursts", "-every 1h", "-every"},
		{"chatclub-room", "-rate 0", "-rate"},
		{"azure-10000", "-records 0", "-records"},
		{"pushwoosh-sendrate", "-rate 1", "-rate"},
		{"mindbox-latency", "-in-flight 0", "-in-flight"},
		{"aws-overload", "-in-time 0s", "-in-time"},
		{"ceiling", "-pairs 1", "-pairs"},
		{"lively-room", "-events -1", "-events"},
		{"lively-room", "-room 0", "-room"},
		{"ten-rooms", "-rooms 0", "-rooms"},
		{"ten-rooms", "-times 1", "-times"},
		{"voice", "-media-limit 0", "-media-limit"},
		{"voice", "-every 20s", "-every"},
		{"voice", "-every 0s", "-every"},
		{"sick-member", "-sick 0", "-sick"},
		{"sick-member", "-sick 100", "-sick"},
		{"sick-page", "-cold-pages 0", "-cold-pages"},
		{"small-limits", "-pages 0", "-pages"},
		{"small-limits", "-used 1", "-used"},
		{"lane-neighbour", "-times 1", "-times"},
		{"rolling-restart", "-cold-rate 0", "-cold-rate"},
	} {
		_, build := parsed(t, tc.scenario, strings.Fields(tc.args)...)
		if _, err := build(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s = %v, want an error that names %s", tc.scenario, tc.args, err, tc.want)
		}
	}
}
