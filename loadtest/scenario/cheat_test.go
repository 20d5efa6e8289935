package scenario_test

import (
	"cmp"
	"context"
	"log/slog"
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
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/report"
	"chatclub/loadtest/scenario"
	"chatclub/loadtest/trial"
)

// caller is a dispatcher's calls, honest or not.
type caller func(ctx context.Context, out message.Outbound) sender.Result

func (c caller) Send(ctx context.Context, out message.Outbound) sender.Result { return c(ctx, out) }

// play runs a scenario of one part in virtual time, with dispatchers whose calls
// are wrapped, and returns what was found and what was expected of it.
func play(t *testing.T, name string, wrap func(dispatch.Caller) dispatch.Caller, args ...string) (run report.Run, unmet []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		common, build := parsed(t, name, args...)
		set, err := build()
		if err != nil {
			t.Fatal(err)
		}
		var runs []report.Run
		for _, part := range set.Parts {
			run, err = trial.Run(t.Context(), trial.Config{
				Plan: part.Plan, Strategy: cmp.Or(part.Strategy, scenario.Own), Via: common.Via, Seed: common.Seed, Log: slog.New(slog.DiscardHandler),
				Topology: queue.Topology{Prefix: "t", Partitions: 64}, Wrap: wrap,
				Open: fleet.OpenLocal,
			})
			if err != nil {
				t.Fatal(err)
			}
			run.Label = part.Label
			runs = append(runs, run)
		}
		for _, e := range set.Expect(runs) {
			t.Logf("%s (%s)", e.Text, e.Got)
			if e.Met == nil || !*e.Met {
				unmet = append(unmet, e.Text+": "+e.Got)
			}
		}
	})
	return run, unmet
}

func honest(c dispatch.Caller) dispatch.Caller { return c }

// short is a run in which every cheat has its chance.
var short = []string{"-duration", "8s", "-replicas", "2"}

func TestHonestRunIsAsExpected(t *testing.T) {
	t.Parallel()
	run, unmet := play(t, "saturate", honest, short...)
	if len(unmet) > 0 {
		t.Errorf("not met: %q, want all met", unmet)
	}
	if *run.Sent < 2000 || *run.Lost != 0 || *run.Dead != 0 {
		t.Errorf("sent %d lost %d dead %d, want 2000 at least, 0, 0", *run.Sent, *run.Lost, *run.Dead)
	}
	// Published and delivered at least, for all; acknowledged for those sent.
	if *run.BrokerOpsPerSent < 3 {
		t.Errorf("broker operations per sent = %g, want 3 at least", *run.BrokerOpsPerSent)
	}
}

// every n-th call is done otherwise.
func every(n int64, otherwise func(dispatch.Caller, context.Context, message.Outbound) sender.Result) func(dispatch.Caller) dispatch.Caller {
	var calls atomic.Int64
	return func(c dispatch.Caller) dispatch.Caller {
		return caller(func(ctx context.Context, out message.Outbound) sender.Result {
			if calls.Add(1)%n == 0 {
				return otherwise(c, ctx, out)
			}
			return c.Send(ctx, out)
		})
	}
}

// wantUnmet checks that an expectation about what is not met.
func wantUnmet(t *testing.T, unmet []string, what string) {
	t.Helper()
	for _, u := range unmet {
		if strings.HasPrefix(u, what) {
			return
		}
	}
	t.Errorf("not met: %q, want one about %q among them", unmet, what)
}

// messages is how many a call is made of.
func messages(out message.Outbound) int64 { return int64(len(strings.Fields(out.ID))) }

func TestDroppingIsCaught(t *testing.T) {
	t.Parallel()
	var dropped atomic.Int64
	run, unmet := play(t, "saturate", every(100, func(_ dispatch.Caller, _ context.Context, out message.Outbound) sender.Result {
		dropped.Add(messages(out))
		return sender.Result{Outcome: sender.Sent}
	}), short...)
	if *run.Lost != dropped.Load() || *run.Lost == 0 {
		t.Errorf("lost = %d, want the %d dropped", *run.Lost, dropped.Load())
	}
	wantUnmet(t, unmet, "nothing lost")
}

func TestSendingTwiceIsCaught(t *testing.T) {
	t.Parallel()
	var twice atomic.Int64
	run, unmet := play(t, "saturate", every(100, func(c dispatch.Caller, ctx context.Context, out message.Outbound) sender.Result {
		first := c.Send(ctx, out)
		if second := c.Send(ctx, out); first.Outcome == sender.Sent && second.Outcome == sender.Sent {
			twice.Add(messages(out))
		}
		return first
	}), short...)
	if *run.Duplicated != twice.Load() || twice.Load() == 0 {
		t.Errorf("duplicated = %d, want the %d sent twice", *run.Duplicated, twice.Load())
	}
	wantUnmet(t, unmet, "nothing duplicated")
}

// A message that a recipient should have got is held back until the next one to
// the same recipient is out: nothing is lost, and the quota is used. The honest
// run of one dispatcher has no inversions to speak of.
func TestSendingOutOfOrderIsCaught(t *testing.T) {
	t.Parallel()
	args := []string{"-duration", "8s", "-replicas", "1", "-times", "1.2", "-drain", "60s"}
	fair, _ := play(t, "saturate", honest, args...)
	var mu sync.Mutex
	held := make(map[string]message.Outbound)
	swapped := int64(0)
	run, _ := play(t, "saturate", func(c dispatch.Caller) dispatch.Caller {
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
				if r.Outcome == sender.Sent {
					mu.Lock()
					swapped++
					mu.Unlock()
				}
			}
			return r
		})
	}, args...)
	if swapped < 50 || *run.Inversions < swapped*9/10 {
		t.Errorf("inversions = %d, want about the %d swapped, 50 at least", *run.Inversions, swapped)
	}
	if *fair.Inversions > swapped/10 {
		t.Errorf("inversions of the honest run = %d, want hardly any against %d", *fair.Inversions, swapped)
	}
}

// A dispatcher that stops early loses nothing. What it leaves gives it away.
func TestStoppingEarlyIsCaught(t *testing.T) {
	t.Parallel()
	run, unmet := play(t, "saturate", func(c dispatch.Caller) dispatch.Caller {
		end := time.Now().Add(5 * time.Second)
		return caller(func(ctx context.Context, out message.Outbound) sender.Result {
			if time.Now().After(end) {
				<-ctx.Done()
				return sender.Result{Outcome: sender.Transient, Err: ctx.Err()}
			}
			return c.Send(ctx, out)
		})
	}, short...)
	wantUnmet(t, unmet, "quota used")
	if *run.Lost != 0 {
		t.Errorf("lost = %d, want 0: what was not sent is on the queues", *run.Lost)
	}
}

// A dispatcher that puts messages away as dead, with a reason, neither loses nor
// sends any.
func TestBuryingIsCaught(t *testing.T) {
	t.Parallel()
	run, unmet := play(t, "saturate", every(100, func(dispatch.Caller, context.Context, message.Outbound) sender.Result {
		return sender.Result{Outcome: sender.BadMessage}
	}), short...)
	if *run.Dead == 0 {
		t.Error("dead = 0, want those put away")
	}
	wantUnmet(t, unmet, "nothing dead-lettered")
}

// A dispatcher that sends more than it was asked to is found by the messages
// without an id of ours.
func TestSendingMoreIsCaught(t *testing.T) {
	t.Parallel()
	run, unmet := play(t, "saturate", every(100, func(c dispatch.Caller, ctx context.Context, out message.Outbound) sender.Result {
		other := out
		other.ID = strings.ReplaceAll(other.ID, " ", "/9 ") + "/9"
		c.Send(ctx, other)
		return c.Send(ctx, out)
	}), short...)
	if *run.Unexpected == 0 {
		t.Error("unexpected = 0, want those that nobody announced")
	}
	wantUnmet(t, unmet, "nothing sent that nobody")
}

// A dispatcher that sends a message to another recipient loses it, whatever id it
// carries.
func TestSendingToSomebodyElseIsCaught(t *testing.T) {
	t.Parallel()
	var astray atomic.Int64
	run, unmet := play(t, "saturate", every(100, func(c dispatch.Caller, ctx context.Context, out message.Outbound) sender.Result {
		out.To += "0"
		r := c.Send(ctx, out)
		if r.Outcome == sender.Sent {
			astray.Add(messages(out))
		}
		return r
	}), short...)
	if n := astray.Load(); n == 0 || *run.Unexpected != n || *run.Lost != n {
		t.Errorf("unexpected %d, lost %d, want each the %d sent to somebody else", *run.Unexpected, *run.Lost, n)
	}
	wantUnmet(t, unmet, "nothing lost")
	wantUnmet(t, unmet, "nothing sent that nobody")
}
