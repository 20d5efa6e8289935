package rabbit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/queue"
)

func TestAdaptPatience(t *testing.T) {
	t.Parallel()
	const least = 5 * time.Second
	now := least
	for i, c := range []struct {
		lasted  time.Duration
		stalled bool
		want    time.Duration
	}{
		{6 * time.Second, true, 10 * time.Second},
		{12 * time.Second, true, 20 * time.Second},
		{22 * time.Second, true, 40 * time.Second},
		{50 * time.Second, true, time.Minute},
		{70 * time.Second, true, time.Minute},
		{time.Hour, true, 10 * time.Second}, // it was well for long
		{12 * time.Second, true, 20 * time.Second},
		{time.Second, false, 5 * time.Second}, // another error
	} {
		if now = adaptPatience(now, least, c.lasted, c.stalled); now != c.want {
			t.Errorf("step %d: patience is %s, want %s", i, now, c.want)
		}
	}
	if got := adaptPatience(2*time.Minute, 2*time.Minute, time.Second, true); got != 2*time.Minute {
		t.Errorf("adaptPatience(2m, a setting of 2m) = %s, want 2m", got)
	}
}

// One question without an answer is its queue's matter, two are the node's.
func TestProberStalled(t *testing.T) {
	t.Parallel()
	p := &prober{began: time.Now().Add(-time.Minute), prompt: make([]time.Duration, 3)}
	answered := func(ago time.Duration) time.Duration { return time.Minute - ago }
	for _, c := range []struct {
		ago  [3]time.Duration
		want bool
	}{
		{[3]time.Duration{0, 0, 0}, false},
		{[3]time.Duration{50 * time.Second, 0, 0}, false},
		{[3]time.Duration{50 * time.Second, 50 * time.Second, 0}, true},
		{[3]time.Duration{0, 50 * time.Second, 3 * time.Second}, false},
		{[3]time.Duration{50 * time.Second, 50 * time.Second, 50 * time.Second}, true},
	} {
		for i, ago := range c.ago {
			p.promptLocked(i, answered(ago))
		}
		if got := p.stalled(4 * time.Second); got != c.want {
			t.Errorf("stalled, last answers %v ago = %t, want %t", c.ago, got, c.want)
		}
	}
}

// A queue's arguments never change: what a deployment declared once it must be
// able to declare again.
func TestArguments(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: "x", Partitions: 1}
	got := make(map[string]map[string]any)
	for _, s := range append(top.Specs(), top.LaneSpec(top.Lane("1", "text"))) {
		args := arguments(s)
		for name, want := range map[string]any{
			"x-queue-type": "quorum", "x-queue-leader-locator": "balanced",
			"x-delivery-limit": int64(1_000_000), "x-consumer-disconnected-timeout": int64(5000),
		} {
			if args[name] != want {
				t.Errorf("%s: %s = %v, want %v", s.Name, name, args[name], want)
			}
			delete(args, name)
		}
		got[s.Name] = args
	}
	delay := func(ms int64) map[string]any {
		return map[string]any{
			"x-message-ttl": ms, "x-overflow": "reject-publish",
			"x-dead-letter-exchange": "", "x-dead-letter-strategy": "at-least-once",
		}
	}
	work := func(single bool) map[string]any {
		args := map[string]any{
			"x-overflow": "reject-publish", "x-dead-letter-exchange": "",
			"x-dead-letter-strategy": "at-least-once", "x-dead-letter-routing-key": "x.dead",
		}
		if single {
			args["x-single-active-consumer"] = true
		}
		return args
	}
	want := map[string]map[string]any{
		"x.dead": {}, "x.dispatchers": {}, "x.probe.0": {}, "x.probe.1": {}, "x.probe.2": {}, "x.inbound": work(false),
		"x.retry.1s": delay(1000), "x.retry.10s": delay(10_000), "x.retry.60s": delay(60_000),
		"x.outbound.00": work(true), "x.lane.text.1": work(true),
		"x.overflow.0": work(true), "x.overflow.1": work(true), "x.overflow.2": work(true), "x.overflow.3": work(true),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("other arguments (-want +got):\n%s", diff)
	}
}
