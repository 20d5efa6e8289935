package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// parts returns the number of messages in each call.
func parts(calls []made) (n []int) {
	for _, c := range calls {
		n = append(n, len(strings.Fields(c.out.ID)))
	}
	return n
}

// Texts that had to wait for the same recipient go out in one message, in order.
// None waits to be joined.
func TestWaitingTextsAreJoined(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		most int
		want []int
	}{
		{"at most eight, which is the default", 0, []int{1, 8, 8, 4}},
		{"at most three", 3, []int{1, 3, 3, 3, 3, 3, 3, 2}},
		{"none", 1, slices.Repeat([]int{1}, 21)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(c *Config) { c.JoinTexts = row.most }, func(t *testing.T, r *rig) {
				r.know("page0")
				r.latency = func(message.Outbound) time.Duration { return time.Second }
				ids := r.text("page0", slices.Repeat([]string{"ann"}, 21)...)
				r.text("page0", "bob") // waits for nobody
				r.sleep(time.Minute)
				r.checkSentOnce()
				var calls []made
				for _, c := range r.callsOf("page0") {
					if c.out.To == "ann" {
						calls = append(calls, c)
					}
				}
				if diff := cmp.Diff(row.want, parts(calls)); diff != "" {
					t.Errorf("messages in each call (-want +got):\n%s", diff)
				}
				if row.most == 0 {
					if want := strings.Join(ids[1:9], " "); calls[1].out.ID != want || calls[1].out.Text != strings.Repeat("hello\n", 7)+"hello" {
						t.Errorf("second call has id %q and text %q, want id %q", calls[1].out.ID, calls[1].out.Text, want)
					}
				}
			})
		})
	}
}

// What is never joined is sent by itself, at its place.
func TestWhatIsNotJoined(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.know("page0")
		r.latency = func(message.Outbound) time.Duration { return time.Second }
		for i := range 10 {
			o := r.copyOf("page0", message.ClassText, "ann")
			switch i {
			case 3: // an answer to a command
				o.Joins = false
			case 5:
				o.Replies = []message.QuickReply{{Title: "t", Payload: "p"}}
			case 7:
				o.Text, o.Attachment = "", &message.Attachment{Type: "image", URL: "https://x/y"}
			}
			r.publish(o)
		}
		r.sleep(time.Minute)
		r.checkSentOnce()
		if diff := cmp.Diff([]int{1, 2, 1, 1, 1, 1, 1, 2}, parts(r.callsOf("page0"))); diff != "" {
			t.Errorf("messages in each call (-want +got):\n%s", diff)
		}
	})
}

// After a permanent error of a joined message its texts go singly, and only the
// one at fault is dead. Where the error is about the recipient, or the message
// was delivered all the same, none is sent again.
func TestPermanentErrorOfAJoinedMessage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		outcome sender.Outcome
		bad     int // of this text; 0: of all that is joined
		calls   int
		sent    int
		dead    message.Reason
	}{
		{sender.BadMessage, 4, 6, 4, message.ReasonBadMessage},
		{sender.Ambiguous, 0, 2, 1, message.ReasonAmbiguous},
		{sender.RecipientGone, 0, 2, 1, message.ReasonGone},
		{sender.WindowClosed, 0, 2, 1, message.ReasonWindowClosed},
	} {
		t.Run(row.outcome.String(), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, nil, func(t *testing.T, r *rig) {
				r.know("page0")
				r.latency = func(message.Outbound) time.Duration { return time.Second }
				var bad string
				r.script(func(m message.Outbound, _ int) sender.Result {
					ids := strings.Fields(m.ID)
					if row.bad > 0 && slices.Contains(ids, bad) || row.bad == 0 && len(ids) > 1 {
						return fail(row.outcome)
					}
					return sender.Result{}
				})
				ids := r.text("page0", slices.Repeat([]string{"ann"}, 5)...)
				r.with(func() { bad = ids[max(0, row.bad-1)] })
				r.sleep(time.Minute)
				if n := len(r.callsOf("page0")); n != row.calls {
					t.Errorf("calls = %d, want %d", n, row.calls)
				}
				if n := len(r.ids()); n != row.sent || !slices.IsSorted(r.ids()) {
					t.Errorf("accepted = %v, want %d in order", r.ids(), row.sent)
				}
				dead := r.dead()
				if len(dead) != 5-row.sent {
					t.Errorf("dead = %v, want %d", dead, 5-row.sent)
				}
				for id, d := range dead {
					if d.Reason != row.dead || row.bad > 0 && id != bad {
						t.Errorf("%s is dead for %v", id, d.Reason)
					}
				}
			})
		})
	}
}

// A text that is at fault in a way that nobody knows is dead in the end, and those alone that
// were joined with it are not.
func TestUnknownErrorOfAJoinedMessage(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{2, 3, 4, 5, 8} {
		t.Run(fmt.Sprint(attempts, " attempts"), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(c *Config) { c.MaxAttempts = attempts }, func(t *testing.T, r *rig) {
				r.know("page0")
				r.latency = func(message.Outbound) time.Duration { return time.Second }
				var bad string
				r.script(func(m message.Outbound, _ int) sender.Result {
					if slices.Contains(strings.Fields(m.ID), bad) {
						return fail(sender.Transient)
					}
					return sender.Result{}
				})
				ids := r.text("page0", slices.Repeat([]string{"ann"}, 9)...)
				r.with(func() { bad = ids[6] })
				r.sleep(10 * time.Minute)
				if dead := r.dead(); len(dead) != 1 || dead[bad].Reason != message.ReasonExhausted {
					t.Errorf("dead = %v, want %s alone", dead, bad)
				}
				if n := len(r.ids()); n != len(ids)-1 {
					t.Errorf("accepted = %d, want %d", n, len(ids)-1)
				}
			})
		})
	}
}
