package fleet_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/loadtest/fleet"
	"chatclub/loadtest/load"
	"chatclub/loadtest/peer"
	"chatclub/loadtest/report"
	"chatclub/loadtest/trial"
)

// announced is how many messages a run has, which is fifteen seconds' worth.
const announced = 300

// judged runs two workers of a fake peer for two seconds, kills one of them after
// one, and returns what the judge found.
func judged(t *testing.T, mode string) report.Run {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := peer.Peer{Name: "fake", Dir: t.TempDir(), Feed: []string{self, "fake-peer", mode, "feed"}, Work: []string{self, "fake-peer", mode, "work"}}
	const limit, length = 20, 2 * time.Second
	run, err := trial.Run(t.Context(), trial.Config{
		Plan: trial.Plan{
			Limit: limit, Length: length, Replicas: 2,
			Platform: map[string]any{"text": map[string]any{"algorithm": "fixed-window", "per_second": limit}, "latency": "fixed:5ms"},
			Streams: []trial.Stream{{
				Group: trial.Hot, Pages: trial.Pages(1, 1), Segments: []load.Segment{{Burst: announced, For: length}},
			}},
			Script: []trial.Step{{At: length / 2, Name: "one is killed", Do: func(ctx context.Context, s *trial.Controls) error {
				if mode == "dies" { // it has ended by itself
					return nil
				}
				return s.Kill(ctx, 1)
			}}},
		},
		Strategy: p.Name, Seed: 1, Log: slog.New(slog.DiscardHandler),
		Open: func(ctx context.Context, cfg fleet.Config) (fleet.Fleet, error) {
			return fleet.OpenPeers(ctx, cfg, p, peer.Addresses{})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// The judge finds out what a peer's workers do with messages, as he does for ours:
// what was announced was sent, is left with the peer, was given up, or is lost.
func TestPeersAreJudged(t *testing.T) {
	t.Parallel()
	for mode, cheats := range map[string]bool{"cheats": true, "dies": false} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			run := judged(t, mode)
			i := slices.IndexFunc(run.Measures, func(m report.Measure) bool { return m.Name == "left on queues" })
			left := int64(*run.Measures[i].Value)
			// A message that a killed worker had sent and still had in hand is one of
			// the duplicates: it would be sent again.
			if sum := *run.Sent - *run.Duplicated + *run.Lost + *run.Dead + left; sum != announced && sum != announced-1 {
				t.Errorf("sent %d - duplicated %d + lost %d + dead %d + left %d = %d, want the %d announced",
					*run.Sent, *run.Duplicated, *run.Lost, *run.Dead, left, sum, announced)
			}
			enough := run.Seconds > 10 // a starved machine may take so long that all is sent
			if *run.Sent < 20 || left == 0 && !enough || *run.Unexpected != 0 {
				t.Errorf("sent %d left %d unexpected %d, want 20 sent at least, some left, 0", *run.Sent, left, *run.Unexpected)
			}
			// The worker that ended by itself may have sent what it had in hand.
			if (*run.Lost > 0) != cheats || (*run.Dead > 0) != cheats || cheats && *run.Duplicated == 0 || !cheats && *run.Duplicated > 1 {
				t.Errorf("lost %d dead %d duplicated %d, want some of each where workers cheat, and otherwise 0, 0, 1 at most",
					*run.Lost, *run.Dead, *run.Duplicated)
			}
			ended := slices.ContainsFunc(run.Notes, func(n string) bool { return strings.HasPrefix(n, "fake's worker ended by itself: I had enough") })
			if ended != (mode == "dies") {
				t.Errorf("notes = %q, want that a worker ended by itself only where it did", run.Notes)
			}
			if run.BrokerOpsPerSent != nil || run.RefusedPerSent == nil {
				t.Errorf("operations %v, refused %v, want the first unknown and the second known", run.BrokerOpsPerSent, run.RefusedPerSent)
			}
		})
	}
}
