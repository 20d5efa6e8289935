package trial_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
	"chatclub/loadtest/cases"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/report"
	"chatclub/loadtest/trial"
)

// caller is a dispatcher's calls, honest or not.
type caller func(ctx context.Context, out message.Outbound) sender.Result

func (c caller) Send(ctx context.Context, out message.Outbound) sender.Result { return c(ctx, out) }

func (c caller) Ask(ctx context.Context, page string) sender.Result {
	return c(ctx, message.Outbound{Page: page})
}

func (caller) Reach(context.Context) error { return nil }

// wrap is around a dispatcher's calls.
type wrap func(dispatch.Caller) dispatch.Caller

func honest(c dispatch.Caller) dispatch.Caller { return c }

// local opens a system in this process.
func local(ctx context.Context, cfg fleet.Config) (fleet.Fleet, error) {
	return fleet.NewLocal(ctx, cfg)
}

// play plays a case in virtual time, with dispatchers whose calls are wrapped, and
// returns the last part's figures and all that was not met.
func play(t *testing.T, name string, set cases.Setting, w wrap) (last report.Figures, unmet []string) {
	t.Helper()
	c, ok := cases.Find(name)
	if !ok {
		t.Fatalf("there is no case %s", name)
	}
	c, err := c.With(set)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var runs []report.Run
		for _, p := range c.Parts {
			run, err := trial.Run(t.Context(), trial.Config{
				Part: p, Strategy: report.Own, Seed: 1, Log: slog.New(slog.DiscardHandler), Partitions: cases.Partitions, Wrap: w, Open: local,
			})
			if err != nil {
				t.Fatal(err)
			}
			run.Label, last = p.Label, run.Figures
			runs = append(runs, run)
		}
		for _, e := range c.Expect(runs) {
			t.Log(e)
			if e.Met == nil || !*e.Met {
				unmet = append(unmet, e.Text)
			}
		}
	})
	return last, unmet
}

// Every case is played in virtual time, and this project's dispatcher does all that is
// expected of it. The short form has those that ask different parts of it.
func TestEveryCaseIsAsExpected(t *testing.T) {
	t.Parallel()
	shorter := map[string]cases.Setting{
		"saturate": {Length: 8 * time.Second}, "scale": {Length: 24 * time.Second}, "zipf": {Length: 8 * time.Second}, "neighbour": {Length: 10 * time.Second},
		"rolling-restart": {Length: 20 * time.Second, Limit: 60, Replicas: 2},
	}
	short := []string{"saturate", "small-limits", "sick-page", "rolling-restart"}
	for _, c := range cases.All() {
		t.Run(c.Name, func(t *testing.T) {
			if testing.Short() && !slices.Contains(short, c.Name) {
				t.Skip("make test-long runs it")
			}
			if !testing.Short() { // each holds 200 MB under the race detector
				t.Parallel()
			}
			run, unmet := play(t, c.Name, shorter[c.Name], honest)
			for _, u := range unmet {
				t.Errorf("not met: %s", u)
			}
			if run[report.Sent] == 0 {
				t.Error("nothing was sent")
			}
		})
	}
}

// otherwise does every n-th call otherwise.
func otherwise(n int64, do func(context.Context, dispatch.Caller, message.Outbound) sender.Result) wrap {
	var calls atomic.Int64
	return func(c dispatch.Caller) dispatch.Caller {
		return caller(func(ctx context.Context, out message.Outbound) sender.Result {
			if calls.Add(1)%n == 0 {
				return do(ctx, c, out)
			}
			return c.Send(ctx, out)
		})
	}
}

// messages returns the number of messages in a call.
func messages(out message.Outbound) int64 { return int64(len(strings.Fields(out.ID))) }

// Each cheat of a dispatcher is found, to the message where it can be counted.
func TestCheatsAreCaught(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		figure report.Figure // counts the messages that the cheat is about; empty: it cannot be counted
		want   []string      // begins of the expectations that are not met
		do     func(count *atomic.Int64) wrap
	}{
		{"drops", report.Lost, []string{"lost"}, func(count *atomic.Int64) wrap {
			return otherwise(100, func(_ context.Context, _ dispatch.Caller, out message.Outbound) sender.Result {
				count.Add(messages(out))
				return sender.Result{Outcome: sender.Sent}
			})
		}},
		{"sends twice", report.Duplicated, []string{"duplicated"}, func(count *atomic.Int64) wrap {
			return otherwise(100, func(ctx context.Context, c dispatch.Caller, out message.Outbound) sender.Result {
				first := c.Send(ctx, out)
				if second := c.Send(ctx, out); first.Outcome == sender.Sent && second.Outcome == sender.Sent {
					count.Add(messages(out))
				}
				return first
			})
		}},
		{"sends to somebody else", report.Unexpected, []string{"lost", "unexpected"}, func(count *atomic.Int64) wrap {
			return otherwise(100, func(ctx context.Context, c dispatch.Caller, out message.Outbound) sender.Result {
				out.To += "0"
				r := c.Send(ctx, out)
				if r.Outcome == sender.Sent {
					count.Add(messages(out))
				}
				return r
			})
		}},
		{"sends more than it was given", "", []string{"unexpected"}, func(*atomic.Int64) wrap {
			return otherwise(100, func(ctx context.Context, c dispatch.Caller, out message.Outbound) sender.Result {
				other := out
				other.ID = strings.ReplaceAll(other.ID, " ", "/9 ") + "/9"
				c.Send(ctx, other)
				return c.Send(ctx, out)
			})
		}},
		{"buries", "", []string{"dead"}, func(*atomic.Int64) wrap { return otherwise(100, buries) }},
		{"stops early", "", []string{"quota used"}, func(*atomic.Int64) wrap {
			return func(c dispatch.Caller) dispatch.Caller {
				end := time.Now().Add(11 * time.Second)
				return caller(func(ctx context.Context, out message.Outbound) sender.Result {
					if time.Now().After(end) {
						<-ctx.Done()
						return sender.Result{Outcome: sender.Transient, Err: ctx.Err()}
					}
					return c.Send(ctx, out)
				})
			}
		}},
		{"sends at another rate", "", []string{"refused per sent"}, func(*atomic.Int64) wrap { // all of two seconds at once
			return otherwise(1, func(ctx context.Context, c dispatch.Caller, out message.Outbound) sender.Result {
				time.Sleep(time.Until(time.Now().Truncate(2 * time.Second).Add(2 * time.Second)))
				return c.Send(ctx, out)
			})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var count atomic.Int64
			set := cases.Setting{Length: 8 * time.Second, Replicas: 2}
			run, unmet := play(t, "saturate", set, tc.do(&count))
			if tc.figure != "" && (count.Load() == 0 || run[tc.figure] != float64(count.Load())) {
				t.Errorf("%s = %g, want the %d of the cheat", tc.figure, run[tc.figure], count.Load())
			}
			for _, want := range tc.want {
				if !slices.ContainsFunc(unmet, func(u string) bool { return strings.HasPrefix(u, want) }) {
					t.Errorf("not met: %q, want %q among them", unmet, want)
				}
			}
			if run[report.Lost] != 0 && !slices.Contains(tc.want, "lost") {
				t.Errorf("lost = %g, want 0", run[report.Lost])
			}
		})
	}
}

// A message is held back until the next one to the same recipient is out: nothing is
// lost, and the inversions tell.
func TestSendingOutOfOrderIsCaught(t *testing.T) {
	t.Parallel()
	set := cases.Setting{Length: 8 * time.Second, Replicas: 1, Drain: time.Minute}
	fair, _ := play(t, "saturate", set, honest)
	var mu sync.Mutex
	held := make(map[string]message.Outbound)
	swapped := 0.
	run, _ := play(t, "saturate", set, func(c dispatch.Caller) dispatch.Caller {
		return caller(func(ctx context.Context, out message.Outbound) sender.Result {
			mu.Lock()
			first, waits := held[out.To]
			if !waits && len(held) < 50 {
				held[out.To] = out
				mu.Unlock()
				return sender.Result{Outcome: sender.Sent}
			}
			delete(held, out.To)
			mu.Unlock()
			r := c.Send(ctx, out)
			if waits {
				for c.Send(ctx, first).Outcome != sender.Sent {
					time.Sleep(100 * time.Millisecond)
				}
				mu.Lock()
				swapped++
				mu.Unlock()
			}
			return r
		})
	})
	if got := run[report.Inversions] * run[report.Sent]; swapped < 50 || got < swapped/2 || fair[report.Inversions] != 0 {
		t.Errorf("inversions = %g of %g calls that were swapped, and %g of an honest run; want half of them at least, and none", got, swapped, fair[report.Inversions])
	}
}

// upset are dispatchers that make calls otherwise for a second after one that gives
// them reason to.
func upset(reason func(message.Outbound, sender.Result) bool, do func(context.Context, dispatch.Caller, message.Outbound) sender.Result) wrap {
	var until atomic.Int64 // by all of them
	return func(c dispatch.Caller) dispatch.Caller {
		return caller(func(ctx context.Context, out message.Outbound) sender.Result {
			if time.Now().UnixNano() < until.Load() {
				return do(ctx, c, out)
			}
			r := c.Send(ctx, out)
			if reason(out, r) {
				until.Store(time.Now().Add(time.Second).UnixNano())
			}
			return r
		})
	}
}

func hasFailed(_ message.Outbound, r sender.Result) bool  { return r.Outcome == sender.Transient }
func hasVoice(out message.Outbound, _ sender.Result) bool { return out.Class == message.ClassMedia }
func isHot(out message.Outbound, _ sender.Result) bool    { return out.Page == "1" }

// late makes a call after two seconds.
func late(ctx context.Context, c dispatch.Caller, out message.Outbound) sender.Result {
	time.Sleep(2 * time.Second)
	return c.Send(ctx, out)
}

// buries puts a message away, with a reason.
func buries(context.Context, dispatch.Caller, message.Outbound) sender.Result {
	return sender.Result{Outcome: sender.BadMessage}
}

// silentHalf makes no call in four of eight seconds.
func silentHalf(ctx context.Context, c dispatch.Caller, out message.Outbound) sender.Result {
	if time.Now().Second()%8 < 4 {
		time.Sleep(4 * time.Second)
	}
	return c.Send(ctx, out)
}

// paced is a dispatcher that makes 15 calls a second, and no more.
func paced(c dispatch.Caller) dispatch.Caller {
	turn := make(chan struct{}, 1) // no mutex: virtual time would stand still
	return caller(func(ctx context.Context, out message.Outbound) sender.Result {
		turn <- struct{}{}
		time.Sleep(time.Second / 15)
		<-turn
		return c.Send(ctx, out)
	})
}

// Each situation has an expectation that finds a dispatcher which fails in it.
func TestSituationsAreJudged(t *testing.T) {
	t.Parallel()
	eight := cases.Setting{Length: 8 * time.Second}
	for _, tc := range []struct {
		name, cheat string
		set         cases.Setting
		do          wrap
		want        string
	}{
		{"lively-room", "waits before each call", eight, otherwise(1, late), "5 events/s: hot p50"},
		{"ten-rooms", "too few calls", eight, paced, "quota used"},
		{"voice", "texts wait for voices", cases.Setting{Length: 24 * time.Second}, upset(hasVoice, late), "cold p99"},
		{"voice", "too few calls", cases.Setting{Length: 24 * time.Second}, paced, "quota used"},
		{"sick-member", "gives up the room", eight, upset(hasFailed, buries), "calls are answered 500: others arrived"},
		{"sick-page", "all wait for one", eight, upset(hasFailed, late), "calls are answered 500: cold p99"},
		{"small-limits", "too few calls", eight, paced, "cold p99"},
		{"lane-neighbour", "the neighbour waits", eight, upset(isHot, late), "cold p99"},
		{"rolling-restart", "silent in between", cases.Setting{Length: 16 * time.Second, Limit: 60}, otherwise(1, silentHalf), "longest silence"},
	} {
		t.Run(tc.name+"/"+tc.cheat, func(t *testing.T) {
			if testing.Short() && tc.name != "sick-page" {
				t.Skip("make test-long runs it")
			}
			t.Parallel()
			_, unmet := play(t, tc.name, tc.set, tc.do)
			if !slices.ContainsFunc(unmet, func(u string) bool { return strings.HasPrefix(u, tc.want) }) {
				t.Errorf("not met: %q, want %q among them", unmet, tc.want)
			}
		})
	}
}

// However a trial ends, a deployment's limit is afterwards what it was.
func TestLimitIsPutBack(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]time.Duration{"to its end": time.Hour, "stopped": 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), stop)
			defer cancel()
			c, _ := cases.Find("limit-change")
			c, err := c.With(cases.Setting{})
			if err != nil {
				t.Fatal(err)
			}
			l, err := fleet.NewLocal(t.Context(), fleet.Config{Log: slog.New(slog.DiscardHandler), Options: fleet.Options{Strategy: report.Own, Limit: 300}, Topology: queue.Topology{Prefix: "t", Partitions: 8}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}()
			var during atomic.Int64
			time.AfterFunc(19*time.Second, func() { during.Store(int64(l.API().Settings().Text.PerSecond)) })
			part := c.Parts[0]
			part.Streams = nil // nobody sends: there is no webhook in virtual time
			if _, err = trial.Run(ctx, trial.Config{
				Part: part, Strategy: report.Own, Log: slog.New(slog.DiscardHandler), Partitions: 8,
				Deployed: &trial.Deployed{Platform: l.Platform()},
			}); err != nil {
				t.Fatal(err)
			}
			if after := l.API().Settings().Text.PerSecond; during.Load() != 150 || after != 300 {
				t.Errorf("%s: limit during the run %d and after it %d, want 150 and 300", name, during.Load(), after)
			}
		})
	}
}
