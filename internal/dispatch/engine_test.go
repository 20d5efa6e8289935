package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// A timer of a line that is forgotten touches no line of the same page that was
// made since.
func TestTimerOfAForgottenLine(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		o := r.copyOf("page0", message.ClassText, "someone")
		o.Broadcast, o.Joins = "b", false
		r.publish(o)                    // sent at once, but for its timer of asideTime
		r.sleep(100 * time.Millisecond) // the line is forgotten
		r.with(func() { r.latency = func(message.Outbound) time.Duration { return time.Second } })
		r.text("page0", "ann")
		r.sleep(200 * time.Millisecond) // the timer fired
		r.only().inspect(func(e *engine) {
			if n := len(e.pages.lines); n != 1 {
				t.Errorf("%d lines while a call is in flight, want 1", n)
			}
		})
		r.sleep(2 * time.Second)
		r.checkSentOnce()
	})
}

// A broadcast's message that waits for its page's pace does not keep the page
// from its lane, nor the engine from all else.
func TestBroadcastInFrontOfABurst(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) {
		c.Prefetch = 64
		c.Limits = func(string) message.Limits { return message.Limits{Text: 5, Media: 1} }
	}, func(t *testing.T, r *rig) {
		for i := range 10 {
			o := r.copyOf("page0", message.ClassText, fmt.Sprint("b", i))
			o.Broadcast, o.Joins = "b", false
			r.publish(o)
		}
		r.sleep(100 * time.Millisecond)
		r.text("page0", guests("p", 200)...)
		r.sleep(2 * time.Minute)
		r.checkSentOnce()
	})
}

// A page that was shut goes on as soon as a probe is answered, not when the next
// probe would have been due.
func TestProbeThatPassesWakesItsPage(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		var opened, passed time.Time
		r.script(func(message.Outbound, int) sender.Result {
			switch now := time.Now(); {
			case opened.IsZero() || now.Before(opened):
				return fail(sender.PageThrottled)
			case passed.IsZero():
				passed = now
			}
			return sender.Result{Outcome: sender.Sent, Status: 200}
		})
		r.text("page0", guests("p", 40)...)
		r.sleep(3 * time.Second) // by now one message at a time probes
		r.with(func() { opened = time.Now() })
		r.sleep(5 * time.Second)
		calls := r.callsOf("page0")
		i := slices.IndexFunc(calls, func(c made) bool { return c.result.Outcome == sender.Sent })
		if gap := calls[i+1].at.Sub(passed); i < 0 || gap > 100*time.Millisecond {
			t.Errorf("the call after the probe that passed came %v after it, want its answer's 20 ms and the pace's pause", gap)
		}
		r.checkSentOnce()
	})
}
