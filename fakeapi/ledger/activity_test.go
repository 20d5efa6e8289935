package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/fakeapi/ledger"
)

func TestBusiest(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	l := ledger.New(ledger.Config{Now: func() time.Time { return now }})
	record := func(page string, ago, accepted, refused int) {
		for range accepted {
			l.Page(page).Record(now.Add(-time.Duration(ago)*time.Second), ledger.Send{})
		}
		for range refused {
			l.Page(page).Record(now.Add(-time.Duration(ago)*time.Second), ledger.Send{Result: ledger.Refused})
		}
	}
	record("old", 30, 9, 0)
	record("new", 1, 1, 2)
	record("new", 0, 1, 0)
	record("busy", 3, 5, 0)
	record("idle", 300, 1, 0)
	want := []ledger.Activity{
		{Page: "busy", AcceptedTotal: 5, Accepted: []uint32{5, 0, 0, 0}, Refused: []uint32{0, 0, 0, 0}},
		{Page: "new", AcceptedTotal: 2, RefusedTotal: 2, Accepted: []uint32{0, 0, 1, 1}, Refused: []uint32{0, 0, 2, 0}},
		{Page: "idle", AcceptedTotal: 1, Accepted: []uint32{0, 0, 0, 0}, Refused: []uint32{0, 0, 0, 0}},
	}
	got, all := l.Busiest(2, 4, "idle")
	if diff := cmp.Diff(want, got); diff != "" || all != 4 {
		t.Errorf("Busiest of %d pages: -want +got\n%s", all, diff)
	}
	if got, _ := l.Busiest(3, 4, "unknown"); len(got) != 3 || got[2].Page != "old" {
		t.Errorf("Busiest(3) = %v, want the page with the most calls before as the third", got)
	}
}
