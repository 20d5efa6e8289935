package dispatch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/circuit"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// Every outcome has a row, and what the row says fits together.
func TestDispositions(t *testing.T) {
	t.Parallel()
	want := map[sender.Outcome]disposition{
		sender.Sent:                {do: acknowledge, limit: excess.Accepted, says: circuit.Accepted, sample: true},
		sender.PageThrottled:       {do: keep, limit: excess.Refused, says: circuit.Works},
		sender.AppThrottled:        {do: keep, limit: excess.Other, says: circuit.Throttled},
		sender.RecipientThrottled:  {do: slowDown, limit: excess.Other, says: circuit.Works},
		sender.Transient:           {do: tryAgain, reason: message.ReasonExhausted, limit: excess.Other, says: circuit.Failed, sample: true},
		sender.Ambiguous:           {do: discard, reason: message.ReasonAmbiguous, limit: excess.Accepted, says: circuit.Answered, sample: true},
		sender.RecipientGone:       {do: discard, reason: message.ReasonGone, tell: true, limit: excess.Other, says: circuit.Works, sample: true},
		sender.WindowClosed:        {do: discard, reason: message.ReasonWindowClosed, tell: true, limit: excess.Other, says: circuit.Works, sample: true},
		sender.NotOurs:             {do: discard, reason: message.ReasonNotOurs, tell: true, limit: excess.Other, says: circuit.Works, sample: true},
		sender.BadMessage:          {do: discard, reason: message.ReasonBadMessage, single: true, limit: excess.Other, says: circuit.Bad, sample: true},
		sender.PageStopped:         {do: tryAgain, reason: message.ReasonExhausted, limit: excess.Other, says: circuit.Refused, sample: true},
		sender.PageStoppedForATime: {do: tryAgain, reason: message.ReasonExhausted, limit: excess.Other, says: circuit.Blocked, sample: true},
		sender.NotAllowed:          {do: tryAgain, reason: message.ReasonExhausted, limit: excess.Other, says: circuit.Denied, sample: true},
		sender.NoToken:             {do: keep, limit: excess.Other, says: circuit.NoCall},
		sender.Canceled:            {do: giveBack, limit: excess.Other, says: circuit.NoCall},
	}
	never := func() bool { return false }
	m := newMetrics(prometheus.NewRegistry(), never, never)
	for _, o := range sender.Outcomes() {
		w, ok := want[o]
		if !ok {
			t.Errorf("outcome %v has no row here", o)
		}
		if got := dispositionOf(fail(o)); got != w {
			t.Errorf("dispositionOf(%v) = %+v, want %+v", o, got, w)
		}
		if (w.do == tryAgain || w.do == slowDown) && m.retries[o] == nil {
			t.Errorf("nothing counts %v, whose messages are tried again", o)
		}
	}
	if got := dispositionOf(unreached()); got.do != tryAgain || got.says != circuit.Unreached {
		t.Errorf("dispositionOf(no connection) = %+v, want that it is tried again, unreached", got)
	}
	if got := dispositionOf(timeout()); got.do != tryAgain || got.says != circuit.Failed {
		t.Errorf("dispositionOf(no answer in time) = %+v, want that it is tried again, failed", got)
	}
	if got := dispositionOf(sender.Result{}); got.do != giveBack {
		t.Errorf("dispositionOf(no outcome) = %+v, want giveBack", got)
	}
	found := sender.Result{Outcome: sender.BadMessage} // by the sender itself
	if got := dispositionOf(found); got.do != discard || got.says != circuit.NoCall || got.sample {
		t.Errorf("dispositionOf(a bad message without a call) = %+v, want discard, nothing learned", got)
	}
}

// Every outcome once, and for ever: what is left on which queue, and how many
// calls it cost.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		outcome  sender.Outcome
		times    int // 0: always
		calls    int // 0: not asked
		sent     int
		dead     message.Reason
		attempts int
		told     string
	}{
		{name: "sent", outcome: sender.Sent, calls: 1, sent: 1},
		{name: "page throttled once", outcome: sender.PageThrottled, times: 1, calls: 2, sent: 1},
		{name: "page throttled thirty times", outcome: sender.PageThrottled, times: 30, calls: 31, sent: 1},
		{name: "app throttled once", outcome: sender.AppThrottled, times: 1, calls: 2, sent: 1},
		{name: "app throttled ten times", outcome: sender.AppThrottled, times: 10, calls: 11, sent: 1},
		{name: "recipient throttled once", outcome: sender.RecipientThrottled, times: 1, calls: 2, sent: 1},
		{name: "recipient throttled twenty times", outcome: sender.RecipientThrottled, times: 20, calls: 21, sent: 1},
		{name: "transient once", outcome: sender.Transient, times: 1, calls: 2, sent: 1},
		{name: "transient seven times", outcome: sender.Transient, times: 7, calls: 8, sent: 1},
		{name: "transient always", outcome: sender.Transient, calls: 8, dead: message.ReasonExhausted, attempts: 8, told: message.FeedbackFailing},
		{name: "ambiguous", outcome: sender.Ambiguous, calls: 1, dead: message.ReasonAmbiguous, attempts: 1},
		{name: "gone", outcome: sender.RecipientGone, calls: 1, dead: message.ReasonGone, attempts: 1, told: string(message.ReasonGone)},
		{name: "window closed", outcome: sender.WindowClosed, calls: 1, dead: message.ReasonWindowClosed, attempts: 1, told: string(message.ReasonWindowClosed)},
		{name: "not ours", outcome: sender.NotOurs, calls: 1, dead: message.ReasonNotOurs, attempts: 1, told: string(message.ReasonNotOurs)},
		{name: "bad message", outcome: sender.BadMessage, calls: 1, dead: message.ReasonBadMessage, attempts: 1},
		{name: "page stopped", outcome: sender.PageStopped, calls: 12, dead: message.ReasonPageStopped, attempts: 4, told: string(message.ReasonPageStopped)},
		{name: "not allowed", outcome: sender.NotAllowed, calls: 8, dead: message.ReasonExhausted, attempts: 8, told: message.FeedbackFailing},
		{name: "page stopped for a time, by one event", outcome: sender.PageStoppedForATime, calls: 8, dead: message.ReasonExhausted, attempts: 8},
		{name: "no token once", outcome: sender.NoToken, times: 1, calls: 2, sent: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, nil, func(t *testing.T, r *rig) {
				calls := 0
				r.script(func(message.Outbound, int) sender.Result {
					if calls++; row.times > 0 && calls > row.times {
						return sender.Result{}
					}
					return fail(row.outcome)
				})
				o := r.copyOf("page0", message.ClassText, "someone")
				o.ID = "page0/" + strings.Repeat("m", 248) // the longest that AMQP takes
				r.publish(o)
				r.sleep(20 * time.Minute)
				made := r.callsOf("page0")
				if len(made) != row.calls {
					t.Errorf("calls = %d, want %d", len(made), row.calls)
				}
				if got := len(r.ids()); got != row.sent && row.outcome != sender.Sent {
					t.Errorf("accepted = %d, want %d", got, row.sent)
				}
				checkDead(t, r, o.ID, row.dead, row.attempts)
				checkTold(t, r, o, row.told, made[len(made)-1].at)
			})
		})
	}
}

func checkDead(t *testing.T, r *rig, id string, reason message.Reason, attempts int) {
	t.Helper()
	got := r.dead()
	want := map[string]message.Death{}
	if reason != "" {
		want[id] = message.Death{Reason: reason, Queue: r.top.OutboundOf("page0"), Attempts: attempts}
	}
	for _, d := range got {
		if codes := []string{"7", "http 500", ""}; !slices.Contains(codes, d.FirstCode) || d.LastCode != d.FirstCode || d.FirstCode == "" && attempts > 0 {
			t.Errorf("codes = %q, %q after %d attempts", d.FirstCode, d.LastCode, attempts)
		}
		d.FirstCode, d.LastCode = "", ""
		got[id] = d
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dead (-want +got):\n%s", diff)
	}
}

// checkTold: core is told once, as of the time of the last call, and until when
// where that is known.
func checkTold(t *testing.T, r *rig, o message.Outbound, reason string, called time.Time) {
	t.Helper()
	events := r.told()
	if reason == "" {
		if len(events) != 0 {
			t.Errorf("told %+v, want nothing", events)
		}
		return
	}
	if len(events) != 1 {
		t.Fatalf("told %d events, want 1", len(events))
	}
	want := message.Event{Kind: message.KindFeedback, Page: o.Page, ID: events[0].ID, User: o.To, Reason: reason, Time: called.UnixMilli()}
	answered := called.Add(40 * time.Millisecond)
	switch reason {
	case string(message.ReasonPageStopped): // as of when it is dead, until the next probe
		want.Time, want.Until = events[0].Time, events[0].Until
		const pause = 256 * time.Second // twice the one before, by which there were five minutes
		if d := time.UnixMilli(want.Until).Sub(answered); d > pause || d < pause-40*time.Millisecond || want.Time >= want.Until {
			t.Errorf("told as of %d until %v after the answer, want %v", want.Time, d, pause)
		}
	case message.FeedbackFailing:
		want.Until = answered.Add(5 * time.Minute).UnixMilli()
	}
	if diff := cmp.Diff(want, events[0]); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
