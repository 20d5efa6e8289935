package rabbit

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/queue"
)

func TestPatience(t *testing.T) {
	t.Parallel()
	const least = 8 * time.Second
	now := newPatience(least, 1)
	for i, c := range []struct {
		err            error
		lasted, silent time.Duration
	}{
		{nil, 0, 8 * time.Second},
		{errStalled, 9 * time.Second, 16 * time.Second},
		{errSilent, 4 * time.Second, 16 * time.Second}, // the other link waits for longer, too
		{errStalled, 17 * time.Second, 32 * time.Second},
		{errStalled, 50 * time.Second, time.Minute},
		{errStalled, 70 * time.Second, time.Minute},
		{errStalled, time.Hour, 16 * time.Second}, // it was well for long
		{errors.New("another"), time.Second, 8 * time.Second},
	} {
		if c.err != nil {
			now = now.after(fmt.Errorf("give up: %w", c.err), c.lasted)
		}
		if want := (patience{least: least, tries: 1, silent: c.silent, stalls: now.stalls}); now != want {
			t.Errorf("step %d: patience is %v, want %v", i, now, want)
		}
	}
	if got := newPatience(2*time.Minute, 1).after(errStalled, time.Second).silent; got != 2*time.Minute {
		t.Errorf("a setting of 2m is %s after a stall, want 2m", got)
	}
}

// A silent broker has the same patience at each of three addresses, then twice that.
func TestPatienceWithSeveralAddresses(t *testing.T) {
	t.Parallel()
	now := newPatience(4*time.Second, 3)
	for i, want := range []float64{4, 4, 8, 8, 8, 16} {
		if now = now.after(errStalled, 9*time.Second); now.silent.Seconds() != want {
			t.Errorf("after stall %d: %v, want %v s", i+1, now.silent, want)
		}
	}
	if now = now.after(errors.New("another"), time.Second); now != newPatience(4*time.Second, 3) {
		t.Errorf("after another error: %v, want it as it began", now)
	}
}

// A session on which something is unconfirmed may be silent for 20 s after the last
// answer.
func TestProgressStalled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answered time.Duration // ago
		owes     bool
		want     error
	}{
		{30 * time.Second, false, nil},
		{30 * time.Second, true, errStalled},
		{10 * time.Second, true, nil},
	} {
		p := &progress{began: time.Now().Add(-time.Minute)}
		p.last.Store(int64(time.Minute - c.answered))
		if err := p.stalled(patience{silent: 20 * time.Second}, c.owes); !errors.Is(err, c.want) {
			t.Errorf("answered %v ago, owes %t: stalled() = %v, want %v", c.answered, c.owes, err, c.want)
		}
		if p.touch(); p.isQuiet(20 * time.Second) {
			t.Error("it is quiet after an answer, want it not")
		}
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
	for _, s := range top.Specs() {
		args := arguments(s)
		if got[s.Name] = args; s.Stream {
			continue
		}
		for name, want := range map[string]any{
			"x-queue-type": "quorum", "x-queue-leader-locator": "balanced",
			"x-delivery-limit": int64(1_000_000), "x-consumer-disconnected-timeout": int64(5000),
		} {
			if args[name] != want {
				t.Errorf("%s: %s = %v, want %v", s.Name, name, args[name], want)
			}
			delete(args, name)
		}
	}
	delay := func(ms int64) map[string]any {
		return map[string]any{
			"x-message-ttl": ms, "x-overflow": "reject-publish",
			"x-dead-letter-exchange": "", "x-dead-letter-strategy": "at-least-once",
		}
	}
	work := map[string]any{
		"x-overflow": "reject-publish", "x-dead-letter-exchange": "", "x-single-active-consumer": true,
		"x-dead-letter-strategy": "at-least-once", "x-dead-letter-routing-key": "x.dead",
	}
	want := map[string]map[string]any{
		"x.dead": {}, "x.partitions": {"x-max-length": int64(1)}, "x.probe.0": {}, "x.probe.1": {}, "x.probe.2": {},
		"x.retry.1s": delay(1000), "x.retry.10s": delay(10_000), "x.retry.60s": delay(60_000),
		"x.retry.600s": delay(600_000), "x.retry.7200s": delay(7_200_000), "x.retry.86400s": delay(86_400_000),
		"x.orders":      {"x-queue-type": "stream", "x-queue-leader-locator": "balanced"},
		"x.outbound.00": work,
		"x.lane.00.0":   work, "x.lane.00.1": work, "x.lane.00.2": work, "x.lane.00.3": work,
		"x.inbound.00": work, "x.outbound": work,
	}
	for _, name := range append(top.Slots(), top.CoreSlots()...) {
		want[name] = map[string]any{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("other arguments (-want +got):\n%s", diff)
	}
}
