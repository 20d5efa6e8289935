package ledger_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/fakeapi/ledger"
)

var start = time.Unix(1_700_000_000, 0)

// clock is a time that the test sets.
type clock struct{ now time.Time }

// unannounced is the id that newLedger's ledgers take as impossible to announce.
const unannounced = "unannounced"

func newLedger() (*ledger.Ledger, *clock) {
	c := &clock{start}
	return ledger.New(ledger.Config{
		Now:         func() time.Time { return c.now },
		Unannounced: func(_, _, id string) bool { return id == unannounced },
	}), c
}

func accept(l *ledger.Ledger, c *clock, page, to, id string) {
	l.Page(page).Record(c.now, ledger.Send{Recipient: to, ID: id})
}

func TestCounts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do   func(*ledger.Ledger, *clock)
		want ledger.Counts
	}{
		"accepted": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a"}, ledger.Expected{ID: "b"})
			accept(l, c, "1", "u", "a")
			accept(l, c, "1", "u", "b")
		}, ledger.Counts{Events: 1, Expected: 2, Accepted: 2, Calls: 2}},
		"lost": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a"}, ledger.Expected{ID: "b"})
			accept(l, c, "1", "u", "a")
		}, ledger.Counts{Events: 1, Expected: 2, Accepted: 1, Calls: 1, Lost: 1, Pending: 1}},
		"duplicated": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a"})
			for range 3 {
				accept(l, c, "1", "u", "a")
			}
		}, ledger.Counts{Events: 1, Expected: 1, Accepted: 3, Calls: 3, Duplicated: 2}},
		"unexpected": {func(l *ledger.Ledger, c *clock) {
			accept(l, c, "1", "u", "x")
			accept(l, c, "1", "u", "x")
		}, ledger.Counts{Accepted: 2, Calls: 2, Unexpected: 1, Duplicated: 1}},
		"announced after it came": {func(l *ledger.Ledger, c *clock) {
			accept(l, c, "1", "u", "x")
			l.Announce("1", ledger.Expected{ID: "x"})
		}, ledger.Counts{Events: 1, Expected: 1, Accepted: 1, Calls: 1}},
		"announced twice": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a"})
			l.Announce("1", ledger.Expected{ID: "a"})
			accept(l, c, "1", "u", "a")
			l.Announce("1", ledger.Expected{ID: "a"})
		}, ledger.Counts{Events: 3, Expected: 1, Accepted: 1, Calls: 1}},
		"without id": {func(l *ledger.Ledger, c *clock) {
			accept(l, c, "1", "u", "")
			accept(l, c, "1", "u", "")
		}, ledger.Counts{Accepted: 2, Calls: 2, Unidentified: 2}},
		"sender action": {func(l *ledger.Ledger, c *clock) {
			l.Page("1").Record(c.now, ledger.Send{Recipient: "u", Action: true})
		}, ledger.Counts{Actions: 1}},
		"refused, then accepted": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a"})
			l.Page("1").Record(c.now, ledger.Send{Result: ledger.Refused, ID: "a"})
			l.Page("1").Record(c.now, ledger.Send{Result: ledger.Failed, ID: "a"})
			accept(l, c, "1", "u", "a")
		}, ledger.Counts{Events: 1, Expected: 1, Accepted: 1, Calls: 1, Refused: 1, Errors: 1}},
		"rejected for good is excused": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a"})
			l.Page("1").Record(c.now, ledger.Send{Result: ledger.Rejected, ID: "a"})
		}, ledger.Counts{Events: 1, Rejected: 1, Excused: 1}},
		"withdrawn, comes all the same": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a"}, ledger.Expected{ID: "b"}).Withdraw()
			accept(l, c, "1", "u", "a")
			accept(l, c, "1", "u", "a")
		}, ledger.Counts{Events: 1, Expected: 1, Accepted: 2, Calls: 2, Duplicated: 1, Excused: 1}},
		"rejected for good, comes all the same": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a", Recipient: "u"})
			l.Page("1").Record(c.now, ledger.Send{Recipient: "u", Result: ledger.Rejected, ID: "a"})
			accept(l, c, "1", "v", "a")
			accept(l, c, "1", "u", "a")
		}, ledger.Counts{Events: 1, Expected: 1, Accepted: 2, Calls: 2, Rejected: 1, Unexpected: 1}},
		"withdrawn after a part came": {func(l *ledger.Ledger, c *clock) {
			e := l.Announce("1", ledger.Expected{ID: "a"}, ledger.Expected{ID: "b"})
			accept(l, c, "1", "u", "a")
			e.Withdraw()
			e.Withdraw()
		}, ledger.Counts{Events: 1, Expected: 1, Accepted: 1, Calls: 1, Excused: 1}},
		"answered cannot be withdrawn": {func(l *ledger.Ledger, _ *clock) {
			e := l.Announce("1", ledger.Expected{ID: "a"})
			e.Answered()
			e.Withdraw()
		}, ledger.Counts{Events: 1, Expected: 1, Lost: 1, Pending: 1}},
		"pages are summed": {func(l *ledger.Ledger, c *clock) {
			l.Announce("1", ledger.Expected{ID: "a"})
			l.Announce("2", ledger.Expected{ID: "b"})
			accept(l, c, "2", "u", "b")
		}, ledger.Counts{Events: 2, Expected: 2, Accepted: 1, Calls: 1, Lost: 1, Pending: 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, c := newLedger()
			tc.do(l, c)
			checkTotals(t, l, tc.want)
			l.Reset()
			checkTotals(t, l, ledger.Counts{})
		})
	}
}

func TestInversions(t *testing.T) {
	t.Parallel()
	l, c := newLedger()
	event := func(id, to string) *ledger.Event {
		return l.Announce("1", ledger.Expected{ID: id, Recipient: to})
	}
	a := event("a", "u")
	a.Answered()
	event("b", "u").Answered()
	accept(l, c, "1", "u", "b")
	accept(l, c, "1", "u", "a") // its event was taken before b's was posted
	if got := l.Totals().Inversions; got != 1 {
		t.Errorf("inversions = %d, want 1", got)
	}
	// Two events under way at the same time have no order. Nor have copies for
	// two recipients.
	d, e := event("d", "u"), event("e", "u")
	d.Answered()
	e.Answered()
	accept(l, c, "1", "u", "e")
	accept(l, c, "1", "u", "d")
	event("f", "v").Answered()
	event("g", "u").Answered()
	accept(l, c, "1", "u", "g")
	accept(l, c, "1", "v", "f")
	// Nor has a voice message, which waits for a limit of its own, with a text.
	event("voice", "u").Answered()
	event("text", "u").Answered()
	accept(l, c, "1", "u", "text")
	l.Page("1").Record(c.now, ledger.Send{Class: ledger.Media, Result: ledger.Accepted, Recipient: "u", ID: "voice"})
	if got := l.Totals().Inversions; got != 1 {
		t.Errorf("inversions = %d, want still 1", got)
	}
}

func TestSeries(t *testing.T) {
	t.Parallel()
	l, c := newLedger()
	l.Announce("1", ledger.Expected{ID: "lost"}, ledger.Expected{ID: "a"})
	c.now = start.Add(1500 * time.Millisecond)
	accept(l, c, "1", "u", "a")
	accept(l, c, "1", "u", "a")
	l.Page("1").Record(c.now, ledger.Send{Class: ledger.Media, Result: ledger.Refused, ID: "m"})
	c.now = start.Add(3 * time.Second)
	l.Page("1").Record(c.now, ledger.Send{Result: ledger.Failed})
	l.Page("2").Record(c.now, ledger.Send{Result: ledger.Accepted, ID: "x"})
	r := l.Report(ledger.Query{Page: "1", Pages: 10, Seconds: 60})
	want := []ledger.PageReport{{
		Page: "1",
		Totals: ledger.Counts{
			Events: 1, Expected: 2, Accepted: 2, Calls: 2, Refused: 1, Errors: 1, Lost: 1, Pending: 1, Duplicated: 1,
		},
		Series: []ledger.Second{
			{Unix: start.Unix(), Lost: 1},
			{Unix: start.Unix() + 1, Text: ledger.Cell{Accepted: 2, Messages: 2}, Media: ledger.Cell{Refused: 1}, Duplicated: 1},
			{Unix: start.Unix() + 3, Text: ledger.Cell{Errors: 1}},
		},
	}}
	if diff := cmp.Diff(want, r.Pages); diff != "" {
		t.Errorf("Report.Pages: -want +got\n%s", diff)
	}
	together := []ledger.Second{
		{Unix: start.Unix() + 1, Text: ledger.Cell{Accepted: 2, Messages: 2}, Media: ledger.Cell{Refused: 1}, Duplicated: 1},
		{Unix: start.Unix() + 3, Text: ledger.Cell{Accepted: 1, Messages: 1, Errors: 1}},
	}
	if diff := cmp.Diff(together, r.Series); diff != "" {
		t.Errorf("Report.Series: -want +got\n%s", diff)
	}
	if r.PendingAgeMax != 3*time.Second {
		t.Errorf("PendingAgeMax = %s, want 3s", r.PendingAgeMax)
	}
	if got := len(l.Report(ledger.Query{Pages: 10, Seconds: 1}).Pages[0].Series); got != 1 {
		t.Errorf("seconds listed of the last 1 = %d, want 1", got)
	}
}

func TestSeriesIsBounded(t *testing.T) {
	t.Parallel()
	now := start
	l := ledger.New(ledger.Config{Now: func() time.Time { return now }, Seconds: 5})
	for range 100 {
		now = now.Add(time.Second)
		l.Page("1").Record(now, ledger.Send{})
	}
	if got := len(l.Report(ledger.Query{Pages: 1, Seconds: 1000}).Pages[0].Series); got < 5 || got > 10 {
		t.Errorf("seconds kept = %d, want 5 to 10", got)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	l, c := newLedger()
	l.Announce("1", ledger.Expected{ID: "a"}, ledger.Expected{ID: "b"})
	a, forget := l.Watch("a")
	defer forget()
	b, forgetB := l.Watch("b")
	forgetB()
	select {
	case <-a:
		t.Error("Watch(a) is done before a was accepted")
	default:
	}
	accept(l, c, "1", "u", "a")
	accept(l, c, "1", "u", "b")
	<-a
	select {
	case <-b:
		t.Error("Watch(b) is done although it was forgotten")
	default:
	}
	again, _ := l.Watch("a")
	<-again
}

// TestWatchTwice: when one watcher ends, the other still watches.
func TestWatchTwice(t *testing.T) {
	t.Parallel()
	l, c := newLedger()
	one, forgetOne := l.Watch("a")
	two, forgetTwo := l.Watch("a")
	forgetOne()
	forgetOne()
	accept(l, c, "1", "u", "a")
	select {
	case <-two:
	default:
		t.Fatal("Watch(a) of the second is not done, want done once a was accepted")
	}
	<-one // the same event
	forgetTwo()
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	l, _ := newLedger()
	var wg sync.WaitGroup
	const workers, each = 8, 500
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d/%d", w, i)
				e := l.Announce("1", ledger.Expected{ID: id, Recipient: "u"})
				l.Page("1").Record(start, ledger.Send{Recipient: "u", ID: id})
				e.Answered()
				if i%100 == 0 {
					l.Report(ledger.Query{Pages: 1, Seconds: 1})
				}
			}
		})
	}
	for range 1000 {
		checkBalance(t, l)
	}
	wg.Wait()
	got := l.Totals()
	got.Inversions = 0 // depends on the schedule
	if diff := cmp.Diff(ledger.Counts{Events: workers * each, Expected: workers * each, Accepted: workers * each, Calls: workers * each}, got); diff != "" {
		t.Errorf("Totals: -want +got\n%s", diff)
	}
}

func BenchmarkRecord(b *testing.B) {
	l, _ := newLedger()
	p := l.Page("1")
	ids := make([]string, 1<<16)
	for i := range ids {
		ids[i] = fmt.Sprintf("1/m_%d/u", i)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		p.Record(start, ledger.Send{Recipient: "u", ID: ids[i%len(ids)]})
		i++
	}
}

// TestAccounts: each page's account adds up without a look at the awaited ids, and
// has the delay of the accepted ones.
func TestAccounts(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	l := ledger.New(ledger.Config{Now: func() time.Time { return now }})
	l.Announce("1", ledger.Expected{ID: "a", Recipient: "u"}, ledger.Expected{ID: "b", Recipient: "v"}, ledger.Expected{ID: "c", Recipient: "w"})
	l.Announce("2", ledger.Expected{ID: "d", Recipient: "u"})
	send := func(page, id, to string) {
		l.Page(page).Record(now, ledger.Send{Result: ledger.Accepted, Recipient: to, ID: id})
	}
	now = now.Add(2 * time.Second)
	send("1", "a", "u")
	now = now.Add(time.Second)
	send("1", "b", "v")
	send("1", "b", "v") // again
	send("1", "x", "v") // of nobody
	send("1", "", "v")
	l.Excuse("c")
	all := l.Accounts()
	if a := all["1"]; a.Delay != 5*time.Second || a.Pending != 0 || a.Accepted != 5 || a.Excused != 1 {
		t.Errorf("account of page 1 = %+v, want a delay of 5 s and nothing pending", a)
	}
	if a := all["2"]; a.Delay != 0 || a.Pending != 1 || a.Lost != 1 {
		t.Errorf("account of page 2 = %+v, want one pending", a)
	}
	l.Reset()
	if a := l.Accounts()["1"]; a != (ledger.Account{}) {
		t.Errorf("account after Reset = %+v, want nothing", a)
	}
}
