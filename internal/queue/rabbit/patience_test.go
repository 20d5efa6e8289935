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
		err             error
		lasted          time.Duration
		silent, refusal time.Duration
	}{
		{nil, 0, 8 * time.Second, 2 * time.Second},
		{errStalled, 9 * time.Second, 16 * time.Second, 2 * time.Second},
		{errStalled, 17 * time.Second, 32 * time.Second, 2 * time.Second},
		{errRefusing, 3 * time.Second, 32 * time.Second, 4 * time.Second}, // and the other stays
		{errStalled, 50 * time.Second, time.Minute, 4 * time.Second},
		{errStalled, 70 * time.Second, time.Minute, 4 * time.Second},
		{errRefusing, 9 * time.Second, time.Minute, 8 * time.Second},
		{errRefusing, 9 * time.Second, time.Minute, 15 * time.Second},
		{errRefusing, 9 * time.Second, time.Minute, 15 * time.Second},
		{errStalled, time.Hour, 16 * time.Second, 2 * time.Second}, // it was well for long
		{errRefusing, time.Hour, 8 * time.Second, 4 * time.Second},
		{errStalled, 12 * time.Second, 16 * time.Second, 4 * time.Second},
		{errors.New("another"), time.Second, 8 * time.Second, 2 * time.Second},
	} {
		if c.err != nil {
			now = now.after(fmt.Errorf("give up: %w", c.err), c.lasted)
		}
		if want := (patience{least: least, tries: 1, silent: c.silent, refusal: c.refusal, stalls: now.stalls}); now != want {
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

// A session's progress is told of answers, each with the time for which it was waited for. The
// broker may be silent for 20 s, and take 5 s to refuse.
func TestProgressStalled(t *testing.T) {
	t.Parallel()
	const ago = 10 * time.Minute // when the session began
	var p *progress
	confirmed := func(before time.Duration) { // the confirm came so long ago
		p.confirmed()
		p.last.Store(int64(ago - before))
	}
	refused := func(took time.Duration) { p.refused(time.Now().Add(-took)) }
	for _, c := range []struct {
		name string
		do   func()
		owes bool
		want error
	}{
		{"nothing is owed", func() {}, false, nil},
		{"silent", func() { confirmed(30 * time.Second) }, true, errStalled},
		{"not for long", func() { confirmed(10 * time.Second) }, true, nil},
		{"refused at once, as where a queue is full", func() { confirmed(30 * time.Second); refused(time.Second) }, true, nil},
		{"refused late", func() { refused(7 * time.Second) }, false, errRefusing},
		{"refused late, and others move", func() { refused(7 * time.Second); confirmed(0) }, true, errRefusing},
		{"refused late, then at once", func() { refused(7 * time.Second); refused(0) }, true, errRefusing},
		{"silent after a refusal", func() {
			refused(0)
			p.last.Store(int64(ago - 7*time.Second))
		}, true, errRefusing},
		{"the same, and nothing is owed", func() {
			refused(0)
			p.last.Store(int64(ago - 7*time.Second))
		}, false, nil},
		{"the same, and then a confirm", func() { refused(0); confirmed(7 * time.Second) }, true, nil},
		{"a refusal is no progress since it was written", func() {
			confirmed(30 * time.Second)
			refused(4 * time.Second)
		}, true, nil},
		{"the process was paused before it saw the refusal", func() { p.excuse(); refused(7 * time.Second) }, true, nil},
		{"the process was paused after it saw the refusal", func() { refused(7 * time.Second); p.excuse() }, true, nil},
	} {
		p = &progress{began: time.Now().Add(-ago)}
		c.do()
		err := p.stalled(patience{silent: 20 * time.Second, refusal: 5 * time.Second}, c.owes)
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: stalled() = %v, want %v", c.name, err, c.want)
		}
	}
}

// A refusal says that the broker was not to blame when the message was written, and
// takes back nothing that is known since.
func TestRefusalTakesNothingBack(t *testing.T) {
	t.Parallel()
	p := &progress{began: time.Now().Add(-time.Minute)}
	p.confirmed()
	before := p.last.Load()
	if p.refused(time.Now().Add(-4 * time.Second)); p.last.Load() != before {
		t.Errorf("a refusal of what was written 4s ago moves progress by %s, want 0s", time.Duration(p.last.Load()-before))
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
