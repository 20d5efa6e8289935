package scenario_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// situations are the scenarios with a form of a few hundred to a few thousand
// messages, which asks the same.
func situations() map[string][]string {
	return map[string][]string{
		"lively-room":     {"-events", "5", "-room", "20", "-duration", "8s"},
		"ten-rooms":       {"-limit", "60", "-room", "20", "-duration", "10s"},
		"voice":           {"-room", "25", "-every", "2s", "-duration", "12s"},
		"sick-member":     {"-room", "20", "-duration", "12s"},
		"sick-page":       {"-cold-pages", "10", "-duration", "8s"},
		"small-limits":    {"-pages", "4", "-duration", "8s"},
		"lane-neighbour":  {"-limit", "60", "-room", "25", "-duration", "60s"},
		"rolling-restart": {"-limit", "60", "-replicas", "2", "-duration", "16s", "-cold-rate", "20"},
	}
}

// shortForms are their names.
func shortForms() []string { return slices.Sorted(maps.Keys(situations())) }

// An honest dispatcher does as is expected in each situation.
func TestSituations(t *testing.T) {
	t.Parallel()
	for _, name := range shortForms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, unmet := play(t, name, honest, situations()[name]...)
			if len(unmet) > 0 {
				t.Errorf("not met: %q", unmet)
			}
			if *run.Sent == 0 {
				t.Error("nothing was sent")
			}
		})
	}
}

// slowed is a dispatcher that lets some of its calls wait before they are made.
func slowed(by time.Duration, which func(message.Outbound) bool) func(dispatch.Caller) dispatch.Caller {
	return func(c dispatch.Caller) dispatch.Caller {
		return caller(func(ctx context.Context, out message.Outbound) sender.Result {
			if which(out) {
				time.Sleep(by)
			}
			return c.Send(ctx, out)
		})
	}
}

// upset are dispatchers that make calls otherwise for some time after one that
// gives them reason to.
func upset(reason func(message.Outbound, sender.Result) bool, forSo time.Duration, otherwise func(context.Context, dispatch.Caller, message.Outbound) sender.Result) func(dispatch.Caller) dispatch.Caller {
	var until atomic.Int64 // by all of them
	return func(c dispatch.Caller) dispatch.Caller {
		return caller(func(ctx context.Context, out message.Outbound) sender.Result {
			if time.Now().UnixNano() < until.Load() {
				return otherwise(ctx, c, out)
			}
			r := c.Send(ctx, out)
			if reason(out, r) {
				until.Store(time.Now().Add(forSo).UnixNano())
			}
			return r
		})
	}
}

func hasFailed(_ message.Outbound, r sender.Result) bool  { return r.Outcome == sender.Transient }
func hasVoice(out message.Outbound, _ sender.Result) bool { return out.Class == message.ClassMedia }

// late makes a call after two seconds.
func late(ctx context.Context, c dispatch.Caller, out message.Outbound) sender.Result {
	time.Sleep(2 * time.Second)
	return c.Send(ctx, out)
}

// buries puts a message away.
func buries(context.Context, dispatch.Caller, message.Outbound) sender.Result {
	return sender.Result{Outcome: sender.BadMessage}
}

// oneAfterAnother is a dispatcher that makes a call when the one before is answered.
func oneAfterAnother(c dispatch.Caller) dispatch.Caller {
	turn := make(chan struct{}, 1) // no mutex: virtual time would stand still
	return caller(func(ctx context.Context, out message.Outbound) sender.Result {
		turn <- struct{}{}
		defer func() { <-turn }()
		return c.Send(ctx, out)
	})
}

// paced are dispatchers that make so many calls a second together, and no more.
func paced(perSecond int) func(dispatch.Caller) dispatch.Caller {
	var mu sync.Mutex
	var next time.Time
	return func(c dispatch.Caller) dispatch.Caller {
		return caller(func(ctx context.Context, out message.Outbound) sender.Result {
			mu.Lock()
			next = later(next, time.Now()).Add(time.Second / time.Duration(perSecond))
			pause := time.Until(next)
			mu.Unlock()
			time.Sleep(pause)
			return c.Send(ctx, out)
		})
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Each situation has an expectation that finds a dispatcher which fails in it.
func TestSituationsAreJudged(t *testing.T) {
	t.Parallel()
	neighbour := built(t, "lane-neighbour").Parts[0].Plan.Streams[0].Pages[0].ID
	ofPageInExcess := func(out message.Outbound, _ sender.Result) bool { return out.Page != neighbour }
	for _, tc := range []struct {
		scenario, cheat string
		wrap            func(dispatch.Caller) dispatch.Caller
		want            string
	}{
		{"lively-room", "waits before each call", slowed(3*time.Second, func(message.Outbound) bool { return true }), "5 events/s: hot p50"},
		{"ten-rooms", "one call at a time", oneAfterAnother, "quota used"},
		{"voice", "texts wait for voices", upset(hasVoice, time.Second, late), "cold p99"},
		{"voice", "one call at a time", oneAfterAnother, "quota used"},
		{"sick-member", "gives up the room", upset(hasFailed, time.Second, buries), "calls are answered 500: others arrived"},
		{"sick-page", "all wait for one", upset(hasFailed, time.Second, late), "calls are answered 500: cold p99"},
		{"small-limits", "half of the limit", paced(60), "cold p99"},
		{"lane-neighbour", "the neighbour waits", upset(ofPageInExcess, time.Second, late), "cold p99"},
		{"rolling-restart", "silent in between", slowed(3*time.Second, func(message.Outbound) bool { return time.Now().Second()%8 < 3 }), "longest silence"},
	} {
		t.Run(tc.scenario+"/"+tc.cheat, func(t *testing.T) {
			t.Parallel()
			_, unmet := play(t, tc.scenario, tc.wrap, situations()[tc.scenario]...)
			wantUnmet(t, unmet, tc.want)
		})
	}
}

// The neighbour is in the partition of the page in excess, whatever the number of
// partitions is.
func TestNeighbourSharesThePartition(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 7, 64, 256} {
		common, build := parsed(t, "lane-neighbour")
		common.Partitions = n
		set, err := build()
		if err != nil {
			t.Fatal(err)
		}
		top := queue.Topology{Prefix: "t", Partitions: n}
		streams := set.Parts[1].Plan.Streams
		if rest, hot := streams[0].Pages[0].ID, streams[1].Pages[0].ID; rest == hot || top.OutboundOf(rest) != top.OutboundOf(hot) {
			t.Errorf("of %d partitions: pages %s and %s are on %s and %s, want two on one", n, rest, hot, top.OutboundOf(rest), top.OutboundOf(hot))
		}
	}
}
