package trial

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/fakeapi"
	"chatclub/internal/queue"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/judge"
	"chatclub/loadtest/report"
)

// Each thing that cannot be done is named.
func TestUndeployablePlanIsNamed(t *testing.T) {
	t.Parallel()
	step := func(do func(s *Controls) error) []Step {
		return []Step{{Name: "it happens", Do: func(_ context.Context, s *Controls) error { return do(s) }}}
	}
	for _, tc := range []struct {
		name     string
		plan     Plan
		strategy string
		want     string // "": nothing
	}{
		{"plain", Plan{}, report.Own, ""},
		{"the limit changes", Plan{Script: step(func(s *Controls) error { return s.SetLimit(t.Context(), 1) })}, report.Own, ""},
		{"another strategy", Plan{}, "naive", `strategy "naive"`},
		{"a limiter", Plan{Algorithm: "gcra"}, report.Own, `limiter "gcra"`},
		{"options", Plan{Options: fleet.Options{MessageTTL: time.Second}}, report.Own, "message TTL"},
		{"join", Plan{Script: step(func(s *Controls) error { return s.Join(t.Context(), 1) })}, report.Own, "it happens"},
		{"leave", Plan{Script: step(func(s *Controls) error { return s.Leave(t.Context(), 1) })}, report.Own, "it happens"},
		{"kill", Plan{Script: step(func(s *Controls) error { return s.Kill(t.Context(), 1) })}, report.Own, "it happens"},
	} {
		switch err := tc.plan.Deployable(t.Context(), tc.strategy); {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v, want nil", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want an error about %s", tc.name, err, tc.want)
		}
	}
}

// A platform that is not as the flags say is refused, with the flags that would
// say it; what no flag says is noted, and what changes nothing is not.
func TestPlatformIsCompared(t *testing.T) {
	t.Parallel()
	assumed := Plan{Limit: 300, Platform: map[string]any{
		"text": map[string]any{"algorithm": "fixed-window", "per_second": 300, "count_refused": false, "phase": "317ms"}, "latency": "lognormal:700ms,1.9s",
	}}
	for _, tc := range []struct {
		name, settings string
		refused, noted []string
	}{
		{"the same", `{"audience":5,"media":{"per_second":3},"block":{"window":"5s"}}`, nil, nil},
		{
			"flags", `{"text":{"algorithm":"token-bucket","per_second":1000000,"count_refused":true},"latency":"fixed:40ms"}`,
			[]string{"-limit", "1000000", "-algorithm", "token-bucket", "-count-refused"},
			[]string{"latency is fixed:40ms"},
		},
		{
			"more", `{"faults":{"server_error":0.01},"pages":{"7":{"text":9}},"inject":[{"code":"613","probability":0.5}]}`,
			nil,
			[]string{"faults.server_error is 0.01", "pages.7.text is 9", "inject[0].probability is 0.5", "inject[0].code is 613"},
		},
	} {
		tr, api := deployed(t, assumed, nil)
		if err := api.Patch([]byte(tc.settings)); err != nil {
			t.Fatal(err)
		}
		err := tr.checkRunning(t.Context())
		if (err != nil) != (tc.refused != nil) {
			t.Errorf("%s: %v, want refused: %v", tc.name, err, tc.refused != nil)
		}
		for _, part := range tc.refused {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %s in it", tc.name, err, part)
			}
		}
		if notes := strings.Join(tr.notes, "; "); len(tr.notes) != len(tc.noted) {
			t.Errorf("%s: notes %q, want %q", tc.name, notes, tc.noted)
		} else {
			for _, part := range tc.noted {
				if !strings.Contains(notes, part) {
					t.Errorf("%s: notes %q, want %s in them", tc.name, notes, part)
				}
			}
		}
	}
}

// deployed is a trial on a platform that runs, by its clock.
func deployed(t *testing.T, plan Plan, now func() time.Time) (*trial, *fakeapi.API) {
	t.Helper()
	api, err := fakeapi.New(fakeapi.Config{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	j, err := judge.New("http://fakeapi", api.Transport())
	if err != nil {
		t.Fatal(err)
	}
	return &trial{Config: Config{Plan: plan, Running: true}, judge: j}, api
}

func TestAnotherClockIsNoted(t *testing.T) {
	t.Parallel()
	for apart, want := range map[time.Duration]int{0: 0, 19 * time.Millisecond: 0, 21 * time.Millisecond: 1, -time.Hour: 1} {
		synctest.Test(t, func(t *testing.T) {
			tr, _ := deployed(t, Plan{Limit: 300}, func() time.Time { return time.Now().Add(apart) })
			if err := tr.checkClock(t.Context()); err != nil || len(tr.notes) != want {
				t.Errorf("clocks %v apart: %v, notes %q, want %d", apart, err, tr.notes, want)
			}
		})
	}
}

// deployment is a system that was there before, and goes on.
type deployment struct{ fleet.Fleet }

func (deployment) Ingress(context.Context, fleet.Ingress) (string, error) {
	return "http://webhook", nil
}

// However a trial ends, a deployment's limit is afterwards what it was.
func TestLimitIsPutBack(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tc := range []struct {
		name string
		stop time.Duration // 0: never
		fail error
	}{{"to its end", 0, nil}, {"stopped", 3 * time.Second, nil}, {"failed", 0, broken}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.stop > 0 {
					time.AfterFunc(tc.stop+2*time.Second, cancel)
				}
				local, err := fleet.OpenLocal(t.Context(), fleet.Config{Topology: queue.Topology{Prefix: "t", Partitions: 4}, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				p := local.Platform()
				j, err := judge.New(p.URL, p.Transport)
				if err != nil {
					t.Fatal(err)
				}
				limit := func() any {
					s, err := j.Settings(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					return s["text"].(map[string]any)["per_second"]
				}
				var during any
				plan := Plan{Limit: 300, Length: 5 * time.Second, Room: 2, Script: []Step{
					{At: time.Second, Name: "lowered", Do: func(ctx context.Context, s *Controls) error { return s.SetLimit(ctx, 100) }},
					{At: 2 * time.Second, Name: "looked at", Do: func(context.Context, *Controls) error {
						if s := limit(); s != 300.0 { // not in the rehearsal
							during = s
							return tc.fail
						}
						return nil
					}},
				}}
				_, err = Run(ctx, Config{
					Plan: plan, Strategy: report.Own, Via: ViaWebhook, Secret: "s", Running: true, Log: slog.New(slog.DiscardHandler),
					Open: func(context.Context, fleet.Config) (fleet.Fleet, error) { return deployment{local}, nil },
				})
				if !errors.Is(err, tc.fail) {
					t.Fatalf("Run() = %v, want %v", err, tc.fail)
				}
				if after := limit(); during != 100.0 || after != 300.0 {
					t.Errorf("limit during the run %v and after it %v, want 100 and 300", during, after)
				}
			})
		})
	}
}
