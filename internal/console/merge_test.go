package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/dispatch"
)

// viewer merges answers, a second after another.
type viewer struct {
	m   *merger
	now time.Time
}

func newViewer() *viewer { return &viewer{newMerger(), time.Unix(1_000_000, 0)} }

// see merges answers a second later.
func (v *viewer) see(answers ...answer) ([]Page, []Dispatcher) {
	v.now = v.now.Add(time.Second)
	pages, _, dispatchers := v.m.merge(v.now, answers, nil, nil, ShortName)
	return pages, dispatchers
}

// says returns a replica's answer.
func says(name string, pages ...dispatch.PageStatus) answer {
	return answer{
		Replica: Replica{Name: name, URL: "http://" + name},
		status:  &dispatch.Status{Partitions: []int{1}, Pages: pages},
	}
}

func status(page string, arrived, calls int64) dispatch.PageStatus {
	return dispatch.PageStatus{Page: page, Class: "text", Limit: 300, Arrived: arrived, Calls: calls, Sent: calls, Waited: float64(calls) / 10}
}

// TestRates: numbers of several replicas are added up, also where one forgets a page
// and begins again. Counts from before the first look are not shown.
func TestRates(t *testing.T) {
	t.Parallel()
	v := newViewer()
	v.see(says("a", status("1", 1000, 1000)), says("b", status("1", 500, 500)))
	pages, dispatchers := v.see(says("a", status("1", 1100, 1050)), says("b", status("1", 500, 500)))
	p := pages[0]
	if p.Asked != 100 || p.Sent != 50 || p.Delay < 0.099 || p.Delay > 0.101 || p.Limit != 300 {
		t.Errorf("page = %+v, want 100 asked, 50 sent, a delay of 0.1 s and a limit of 300", p)
	}
	if dispatchers[0].Calls != 50 || dispatchers[1].Calls != 0 {
		t.Errorf("calls = %d and %d, want 50 and 0", dispatchers[0].Calls, dispatchers[1].Calls)
	}
	pages, _ = v.see(says("a", status("1", 30, 20)), says("b", status("1", 510, 505)))
	if p := pages[0]; p.Asked != 40 || p.Sent != 25 {
		t.Errorf("page after one began again = %d asked, %d sent, want 40 and 25", p.Asked, p.Sent)
	}
}

// TestLateLook: the counts of several seconds are not shown as those of one.
func TestLateLook(t *testing.T) {
	t.Parallel()
	v := newViewer()
	v.see(says("a", status("1", 0, 0)))
	v.see(says("a", status("1", 0, 0)))
	v.now = v.now.Add(3 * time.Second)
	pages, dispatchers := v.see(says("a", status("1", 800, 400)))
	if p := pages[0]; p.Asked != 200 || p.Sent != 100 || dispatchers[0].Calls != 100 {
		t.Errorf("page = %+v, calls %d, want 200 asked and 100 sent a second, and as many calls", p, dispatchers[0].Calls)
	}
}

// TestHistory: its lists are equally long and bounded, and a pause fills them.
func TestHistory(t *testing.T) {
	t.Parallel()
	v := newViewer()
	check := func(want int) {
		t.Helper()
		pages, _ := v.see(says("a", status("1", 0, 0)))
		h := pages[0].History
		for _, list := range [][]int{h.Sent, h.Refused, h.Asked, h.Limit, h.Waiting, h.Delay} {
			if len(list) != want {
				t.Fatalf("history = %+v, want %d seconds in each list", h, want)
			}
		}
		if h.End != v.now.Unix()-1 {
			t.Fatalf("history ends at %d, want %d", h.End, v.now.Unix()-1)
		}
	}
	check(0)
	check(1)
	v.now = v.now.Add(9 * time.Second)
	check(11)
	v.now = v.now.Add(time.Hour)
	check(HistorySeconds)
}

// TestOwner: a page's owner is the dispatcher that acts for it, and stays the last one
// while that is shown. In excess it is the dispatcher that has the page in its map.
func TestOwner(t *testing.T) {
	t.Parallel()
	v := newViewer()
	owner := func(answers ...answer) string {
		t.Helper()
		pages, dispatchers := v.see(answers...)
		for _, d := range dispatchers {
			if (d.Name == pages[0].Owner) != slices.Contains(d.Pages, "1") {
				t.Errorf("%s has pages %v, want those that it owns: 1 is %q's", d.Name, d.Pages, pages[0].Owner)
			}
		}
		return pages[0].Owner
	}
	if got := owner(says("a", status("1", 5, 5)), says("b")); got != "" {
		t.Errorf("owner at the first look = %q, want nobody: it may have been long ago", got)
	}
	if got := owner(says("a", status("1", 6, 6)), says("b")); got != "a" {
		t.Errorf("owner = %q, want a, which sent", got)
	}
	if got := owner(says("a", status("1", 6, 6)), says("b")); got != "a" {
		t.Errorf("owner of a page with nothing to do = %q, want a still", got)
	}
	dead := answer{Replica: Replica{Name: "a", State: "killed", Since: v.now}}
	if got := owner(dead, says("b")); got != "a" {
		t.Errorf("owner after the kill = %q, want a until another acts", got)
	}
	since := v.now
	busy := status("1", 900, 0)
	busy.Since, busy.Waiting, busy.Pace = &since, 900, 294
	told := busy
	told.Arrival = &dispatch.Arrival{After: 4, From: 3, To: 6}
	if pages, _ := v.see(dead, says("b", told)); pages[0].Wait != 4 || *pages[0].Arrival != *told.Arrival {
		t.Errorf("page of which it is known when a message arrives = %+v, want after 4 s", pages[0])
	}
	pages, dispatchers := v.see(dead, says("b", busy))
	if p := pages[0]; p.Owner != "b" || p.State != "excess" || p.Waiting != 900 || p.Wait != 3 {
		t.Errorf("page in excess = %+v, want b's, 900 that wait 3 s", p)
	}
	if e := dispatchers[1].Excess; len(e) != 1 || e[0].Pace != 294 {
		t.Errorf("excess map = %+v, want the page at 294/s", e)
	}
	if got := owner(says("b", status("1", 900, 0))); got != "b" {
		t.Errorf("owner = %q, want b", got)
	}
	if got := owner(says("c")); got != "" {
		t.Errorf("owner that is not shown = %q, want nobody", got)
	}
}

// TestSickReplica: a replica that does not answer is lost, with the reason, and so is a
// page that the API stopped.
func TestSickReplica(t *testing.T) {
	t.Parallel()
	v := newViewer()
	sick := answer{Replica: Replica{Name: "a", URL: "http://a"}, err: errors.New("connection refused")}
	stopped := says("b")
	stopped.status.Suspended = []dispatch.SuspendedPage{{Page: "7", Code: "190"}}
	_, first := v.see(sick, stopped)
	pages, dispatchers := v.see(sick, stopped)
	if d := dispatchers[0]; d.State != "lost" || d.Error != "connection refused" || !d.Since.Equal(first[0].Since) {
		t.Errorf("dispatcher = %+v, want lost since the first look", d)
	}
	if p := pages[0]; p.State != "suspended" || p.Why != "190" {
		t.Errorf("page = %+v, want it suspended with its code", p)
	}
	ill := status("7", 5, 5)
	ill.Sick, ill.Waiting, ill.Since = true, 3, &v.now
	down := says("b", ill)
	down.status.APIDown = true
	if pages, dispatchers = v.see(down); pages[0].State != "sick" || !dispatchers[0].APIDown {
		t.Errorf("page = %+v, dispatcher %+v, want it sick, and the API down", pages[0], dispatchers[0])
	}
}

// A page that waits as the platform asked says until when; a suspended one says why.
func TestHintedPage(t *testing.T) {
	t.Parallel()
	v := newViewer()
	told, stopped := status("7", 5, 5), status("8", 5, 5)
	told.HintUntil, stopped.HintUntil = &v.now, &v.now
	a := says("a", told, stopped)
	a.status.Suspended = []dispatch.SuspendedPage{{Page: "8", Code: "190"}}
	pages, _ := v.see(a)
	why := map[string]string{}
	for _, p := range pages {
		why[p.ID] = p.Why
	}
	if want := "waits until " + v.now.UTC().Format("15:04:05") + " UTC, as the platform asked"; why["7"] != want || why["8"] != "190" {
		t.Errorf("pages say %q, want %q and the code", why, want)
	}
	if pages, _ = v.see(says("a", status("7", 5, 5))); pages[0].Why != "" {
		t.Errorf("page says %q after its wait, want nothing", pages[0].Why)
	}
}

// TestReasons: a page shows what most of its messages wait for, and until when. While nothing
// is sent for it, nobody says when a new one arrives: the age of the oldest is known.
func TestReasons(t *testing.T) {
	t.Parallel()
	until := time.Unix(2_000_000, 0)
	waits := func(class string, n int, r dispatch.Reason) dispatch.PageStatus {
		return dispatch.PageStatus{
			Page: "7", Class: class, Limit: 300, Waiting: n, Reason: r, Until: until, Oldest: float64(n), Since: &until, Pace: 296,
			Arrival: &dispatch.Arrival{After: 2},
		}
	}
	for _, row := range []struct {
		classes   []dispatch.PageStatus
		suspended bool
		want      Page
		ends      bool
	}{
		{[]dispatch.PageStatus{waits("text", 602, dispatch.WaitsForLimit)}, false, Page{State: "excess", Short: "at its limit", Wait: 2, Oldest: 602}, false},
		{[]dispatch.PageStatus{waits("text", 602, dispatch.WaitsForPermission)}, true, Page{State: "suspended", Short: "no permission", Oldest: 602}, true},
		{[]dispatch.PageStatus{waits("text", 77, dispatch.WaitsForHint)}, false, Page{State: "excess", Short: "told to wait", Oldest: 77}, true},
		{[]dispatch.PageStatus{waits("text", 602, dispatch.WaitsForApp)}, false, Page{State: "excess", Short: "app throttled", Oldest: 602}, true},
		{
			[]dispatch.PageStatus{waits("media", 3, dispatch.WaitsForAnswer), waits("text", 602, dispatch.WaitsForCalls), waits("media", 4, dispatch.WaitsForLimit)},
			false,
			Page{State: "excess", Short: "waits for calls", Wait: 2, Oldest: 602},
			true,
		},
	} {
		a := says("a", row.classes...)
		if row.suspended {
			a.status.Suspended = []dispatch.SuspendedPage{{Page: "7", Code: "190"}}
		}
		v := newViewer()
		pages, _ := v.see(a)
		got := pages[0]
		if got.State != row.want.State || got.Short != row.want.Short || got.Wait != row.want.Wait || got.Oldest != row.want.Oldest || (got.Ends != nil) != row.ends {
			t.Errorf("page with %+v = %+v, want %+v, with its end: %v", row.classes[0], got, row.want, row.ends)
		}
		if pages, _ = v.see(says("a", status("7", 5, 5))); pages[0].Short != "" || pages[0].Ends != nil || pages[0].Oldest != 0 {
			t.Errorf("page with nothing that waits = %+v, want no reason", pages[0])
		}
	}
}

// TestMostPages: of many pages those in excess and the busiest are shown, and those that
// no replica tells of are forgotten.
func TestMostPages(t *testing.T) {
	t.Parallel()
	v := newViewer()
	var list []dispatch.PageStatus
	for i := range 40 {
		list = append(list, status(fmt.Sprintf("%03d", i), 0, 0))
	}
	list[33].Since = &v.now
	v.see(says("a", list...))
	list[7].Calls = 50
	for range 7 {
		v.see(says("a", list...))
		list[7].Calls += 50
	}
	pages, dispatchers := v.see(says("a", list...))
	var ids []string
	for _, p := range pages {
		ids = append(ids, p.ID)
	}
	if len(ids) != MaxPages || !slices.Contains(ids, "033") || !slices.Contains(ids, "007") || !slices.IsSorted(ids) {
		t.Errorf("pages = %v, want %d with 007 and 033, in order", ids, MaxPages)
	}
	b, err := json.Marshal(State{Pages: pages, Dispatchers: dispatchers, Actions: []Action{}, Receipts: []Receipt{}, Markers: []Marker{}})
	if err != nil || strings.Contains(string(b), "null") {
		t.Errorf("state = %s, %v, want no null", b, err)
	}
	v.now = v.now.Add(time.Hour)
	if _, dispatchers := v.see(); len(v.m.pages) != 0 || len(v.m.last) != 0 || len(dispatchers) != 0 {
		t.Errorf("after an hour %d pages and %d sources are kept, want none", len(v.m.pages), len(v.m.last))
	}
}

// TestJudged: a judge's counts are shown in place of the dispatchers'
// own, and dispatchers without an admin port have no page.
func TestJudged(t *testing.T) {
	t.Parallel()
	m, now := newMerger(), time.Unix(1_000_000, 0)
	worker := answer{Replica: Replica{Name: "w", State: "running", Since: now}}
	see := func(c Counts, a answer) (Page, Dispatcher) {
		now = now.Add(time.Second)
		pages, _, dispatchers := m.merge(now, []answer{a}, map[string]Counts{"1": c}, []string{"1"}, func(string) string { return "Jazz" })
		return pages[0], dispatchers[0]
	}
	see(Counts{}, says("w", status("1", 0, 0)))
	see(Counts{Asked: 900, Sent: 300, Waiting: 600, Limit: 300}, says("w", status("1", 5, 5)))
	worker.Calls, worker.InFlight = 40, 7
	p, d := see(Counts{Asked: 900, Sent: 300, Waiting: 600, Limit: 300}, worker)
	if h := p.History; p.Name != "Jazz" || h.Asked[0] != 900 || h.Sent[0] != 300 || p.Waiting != 600 || p.State != "excess" {
		t.Errorf("page = %+v, want 900 asked, 300 sent and 600 waiting, which is an excess", p)
	}
	if p.Owner != "" || d.InFlight != 7 {
		t.Errorf("page is %q's, %d in flight, want nobody's and 7", p.Owner, d.InFlight)
	}
	worker.Calls = 10 // it began again
	if _, d := see(Counts{}, worker); d.Calls != 10 {
		t.Errorf("calls of a worker that began again = %d, want 10", d.Calls)
	}
}
