package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chatclub/fakeapi/ledger"
)

// TestJoined checks sends of several messages at once: each is judged as if it had
// come alone, and a call counts once.
func TestJoined(t *testing.T) {
	t.Parallel()
	expect := func(l *ledger.Ledger, ids ...string) {
		for _, id := range ids {
			l.Announce("1", ledger.Expected{ID: id, Recipient: "u"}).Answered()
		}
	}
	send := func(l *ledger.Ledger, c *clock, r ledger.Result, to, ids string) {
		l.Page("1").Record(c.now, ledger.Send{Result: r, Recipient: to, ID: ids})
	}
	many := strings.Fields("0 1 2 3 4 5 6 7 8 9 10 11")
	for name, tt := range map[string]struct {
		do   func(*ledger.Ledger, *clock)
		want ledger.Counts
	}{
		"in order": {func(l *ledger.Ledger, c *clock) {
			expect(l, "a", "b", "c")
			send(l, c, ledger.Accepted, "u", "a b c")
		}, ledger.Counts{Events: 3, Expected: 3, Accepted: 3, Calls: 1}},
		"more than a few": {func(l *ledger.Ledger, c *clock) {
			expect(l, many...)
			send(l, c, ledger.Accepted, "u", strings.Join(many, " "))
		}, ledger.Counts{Events: 12, Expected: 12, Accepted: 12, Calls: 1}},
		"out of order within": {func(l *ledger.Ledger, c *clock) {
			expect(l, "a", "b", "c")
			send(l, c, ledger.Accepted, "u", "b a c")
		}, ledger.Counts{Events: 3, Expected: 3, Accepted: 3, Calls: 1, Inversions: 1}},
		"out of order between": {func(l *ledger.Ledger, c *clock) {
			expect(l, "a", "b", "c", "d")
			send(l, c, ledger.Accepted, "u", "c d")
			send(l, c, ledger.Accepted, "u", "a b")
		}, ledger.Counts{Events: 4, Expected: 4, Accepted: 4, Calls: 2, Inversions: 2}},
		"one missing, one twice, one unknown": {func(l *ledger.Ledger, c *clock) {
			expect(l, "a", "b", "c")
			send(l, c, ledger.Accepted, "u", "a x")
			send(l, c, ledger.Accepted, "u", "b a")
		}, ledger.Counts{Events: 3, Expected: 3, Accepted: 4, Calls: 2, Duplicated: 1, Unexpected: 1, Inversions: 0, Lost: 1, Pending: 1}},
		"for another": {func(l *ledger.Ledger, c *clock) {
			expect(l, "a", "b")
			send(l, c, ledger.Accepted, "v", "a b")
		}, ledger.Counts{Events: 2, Expected: 2, Accepted: 2, Calls: 1, Unexpected: 2, Lost: 2, Pending: 2}},
		"refused": {func(l *ledger.Ledger, c *clock) {
			expect(l, "a", "b")
			send(l, c, ledger.Refused, "u", "a b")
		}, ledger.Counts{Events: 2, Expected: 2, Refused: 1, Lost: 2, Pending: 2}},
		"rejected for good": {func(l *ledger.Ledger, c *clock) {
			expect(l, "a", "b")
			send(l, c, ledger.Rejected, "u", "a b")
		}, ledger.Counts{Events: 2, Rejected: 1, Excused: 2}},
		"one of them unannounced": {func(l *ledger.Ledger, c *clock) {
			send(l, c, ledger.Accepted, "u", "x "+unannounced)
		}, ledger.Counts{Expected: 1, Accepted: 2, Calls: 1, Unexpected: 1}},
		"only spaces": {func(l *ledger.Ledger, c *clock) {
			send(l, c, ledger.Accepted, "u", "  ")
		}, ledger.Counts{Accepted: 1, Calls: 1, Unidentified: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, c := newLedger()
			tt.do(l, c)
			checkTotals(t, l, tt.want)
			text := ledger.Cell{Accepted: uint32(tt.want.Calls), Messages: uint32(tt.want.Accepted), Refused: uint32(tt.want.Refused), Errors: uint32(tt.want.Rejected)}
			if diff := cmp.Diff([]ledger.Second{{Unix: start.Unix(), Text: text}}, l.Report(ledger.Query{Seconds: 1}).Series, cmpopts.IgnoreFields(ledger.Second{}, "Duplicated")); diff != "" {
				t.Errorf("the second: -want +got\n%s", diff)
			}
		})
	}
}

// TestJoinedLatency checks that each message of a joined one counts its own time
// in its group, and that a watch of each ends.
func TestJoinedLatency(t *testing.T) {
	t.Parallel()
	l, c := newLedger()
	for i, id := range []string{"a", "b"} {
		l.Enter(ledger.Announcement{
			Page: "1", Group: "hot", Due: start.Add(time.Duration(i) * 100 * time.Millisecond), IDs: []ledger.Expected{{ID: id, Recipient: "u"}},
		})
	}
	done, forget := l.Watch("b")
	defer forget()
	l.Page("1").Record(c.now.Add(300*time.Millisecond), ledger.Send{Recipient: "u", ID: "a b"})
	select {
	case <-done:
	default:
		t.Error("Watch(b) is not done after b was accepted with a")
	}
	if g := l.Groups()[0]; g.Accepted != 2 || g.Completed != 2 || fmt.Sprint(g.Tenths) != "[0 0 0 2]" {
		t.Errorf("group = %d accepted, %d whole, %v, want 2, 2 and both in the fourth tenth", g.Accepted, g.Completed, g.Tenths)
	}
}
