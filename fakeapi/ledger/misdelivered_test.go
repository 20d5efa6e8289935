package ledger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"chatclub/fakeapi/ledger"
)

// An id that is accepted for another recipient is unexpected there. It is still
// awaited for its own.
func TestMisdelivered(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do   func(*ledger.Ledger, *clock)
		want ledger.Counts
	}{
		"for another recipient": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a", Recipient: "u"})
			accept(l, c, "1", "v", "a")
			accept(l, c, "1", "v", "a")
		}, ledger.Counts{Events: 1, Expected: 1, Accepted: 2, Calls: 2, Unexpected: 2, Lost: 1, Pending: 1}},
		"for another recipient, then right": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a", Recipient: "u"})
			accept(l, c, "1", "v", "a")
			accept(l, c, "1", "u", "a")
		}, ledger.Counts{Events: 1, Expected: 1, Accepted: 2, Calls: 2, Unexpected: 1}},
		"on another page": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a"}, ledger.Expected{ID: "b", Recipient: "u"})
			accept(l, c, "2", "u", "a")
			accept(l, c, "2", "u", "b")
		}, ledger.Counts{Events: 1, Expected: 2, Accepted: 2, Calls: 2, Unexpected: 2, Lost: 2, Pending: 2}},
		"unannounced, for another recipient": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: unannounced, Recipient: "u"})
			accept(l, c, "1", "v", unannounced)
		}, ledger.Counts{Events: 1, Expected: 1, Accepted: 1, Calls: 1, Unexpected: 1, Lost: 1, Pending: 1}},
		"rejected for another recipient is not excused": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a", Recipient: "u"})
			l.Page("1").Record(c.now, ledger.Send{Recipient: "v", Result: ledger.Rejected, ID: "a"})
		}, ledger.Counts{Events: 1, Expected: 1, Rejected: 1, Lost: 1, Pending: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, c := newLedger()
			tc.do(l, c)
			checkTotals(t, l, tc.want)
		})
	}
}

// checkTotals compares the sums of Report and of Totals.
func checkTotals(t *testing.T, l *ledger.Ledger, want ledger.Counts) {
	t.Helper()
	if diff := cmp.Diff(want, l.Report(ledger.Query{}).Totals); diff != "" {
		t.Errorf("Report.Totals: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(want, l.Totals()); diff != "" {
		t.Errorf("Totals: -want +got\n%s", diff)
	}
}
