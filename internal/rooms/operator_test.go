package rooms

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/command"
)

func TestPagesAndRooms(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Capacity: 3, Now: now.Now})
		does(t, s, "d", command.Join, "x")
		receive(t, s, Event{User: "e", ID: "old", At: noon.Add(-24 * time.Hour)})
		receive(t, s, Event{Page: "q", User: "a", ID: "1"})
		if err := s.CloseWindow(t.Context(), "p", "c", noon); err != nil {
			t.Fatal(err)
		}
		add := func(n Count) {
			t.Helper()
			counts := map[RoomKey]Count{{"p", 2}: n, {"p", 0}: {Events: n.Events, Copies: n.Events}}
			if err := s.AddCounts(t.Context(), counts); err != nil {
				t.Fatalf("AddCounts() = %v, want nil", err)
			}
		}
		count := func() {
			t.Helper()
			if err := s.CountAudiences(t.Context()); err != nil {
				t.Fatalf("CountAudiences() = %v, want nil", err)
			}
		}
		add(Count{Events: 10, Copies: 100}) // at 12:00
		count()
		now.Advance(time.Hour)
		add(Count{Events: 1, Copies: 2})
		add(Count{Events: 1, Copies: 2})
		now.Advance(15 * time.Minute)
		want := []PageView{
			{Page: "p", Rooms: 3, Members: 5, Audience: 3, Events: 4 + 15, Copies: 6 + 82, Copies24h: 116},
			{Page: "q", Rooms: 1, Members: 1, Audience: 1},
		}
		got, err := s.Pages(t.Context(), "", 10)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Pages() = %v: -want +got\n%s", err, diff)
		}
		got, err = s.Pages(t.Context(), "p", 1)
		if diff := cmp.Diff(want[1:], got); diff != "" || err != nil {
			t.Errorf("Pages(after p) = %v: -want +got\n%s", err, diff)
		}
		rooms, err := s.Rooms(t.Context(), "p", 1, 10)
		wantRooms := []RoomView{
			{Number: 2, Members: 1, Events: 2 + 7, Copies: 4 + 75, Opened: noon},
			{Number: 1_000_000_001, Code: "x", Members: 1, Opened: noon},
		}
		if diff := cmp.Diff(wantRooms, rooms); diff != "" || err != nil {
			t.Errorf("Rooms() = %v: -want +got\n%s", err, diff)
		}
		now.Advance(24 * time.Hour)
		if _, err := s.Prune(t.Context(), noon); err != nil {
			t.Fatal(err)
		}
		count()
		if got, err := s.Pages(t.Context(), "", 1); err != nil || got[0].Copies24h != 0 || got[0].Audience != 0 {
			t.Errorf("Pages() a day later = %+v, %v, want no copies and no audience", got, err)
		}
	})
}

func TestBan(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Now: now.Now})
		ban := func(user string, until time.Time) {
			t.Helper()
			if err := s.Ban(t.Context(), "p", user, until); err != nil {
				t.Fatalf("Ban(%s) = %v, want nil", user, err)
			}
		}
		for _, page := range []string{"p", "q"} {
			if err := s.Ban(t.Context(), page, "z", noon); !errors.Is(err, ErrUnknown) {
				t.Errorf("Ban of an unknown user on %s = %v, want ErrUnknown", page, err)
			}
		}
		day := noon.Add(24 * time.Hour)
		ban("b", day)
		wantRelay(t, "while b is banned", s, "a", "c")
		for _, want := range []Result{{Rejected: true, Why: Ban, Notice: Banned, Until: day}, {Rejected: true, Why: Ban}} {
			if diff := cmp.Diff(want, says(t, s, "b")); diff != "" {
				t.Errorf("message of a banned user: -want +got\n%s", diff)
			}
		}
		if got := does(t, s, "b", command.Join, "x"); got.Joined {
			t.Error("a banned user joined a room")
		}
		wantRelay(t, "while b is banned", s, "a", "c")
		if got := receive(t, s, Event{User: "b", ID: "free", At: day}); !got.Joined || got.Name != "Bo" {
			t.Errorf("message after the ban = %+v, want joined as Bo", got)
		}
		ban("c", time.Time{})
		if diff := cmp.Diff(Result{Rejected: true, Why: Ban, Notice: Banned}, receive(t, s, Event{User: "c", ID: "far", At: noon.Add(1e6 * time.Hour)})); diff != "" {
			t.Errorf("message of a user banned for good: -want +got\n%s", diff)
		}
		ban("c", noon)
		if got := says(t, s, "c"); !got.Joined {
			t.Errorf("message after the ban was lifted = %+v, want joined", got)
		}
	})
}

// TestOverview checks the pages that are paused, and the largest share of a quota,
// among pages that have used less, that have nobody to send to, or whose pause is over.
func TestOverview(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Now: now.Now})
		overview := func(when string, want Overview) {
			t.Helper()
			got, err := s.Overview(t.Context())
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("Overview() %s = %v: -want +got\n%s", when, err, diff)
			}
		}
		overview("at first", Overview{Paused: map[string]int{}})
		receive(t, s, Event{Page: "q", User: "a", ID: "1"})
		counts := map[RoomKey]Count{{"p", 1}: {Copies: 300}, {"q", 1}: {Copies: 150}, {"nobody", 1}: {Copies: 1000}}
		if err := s.AddCounts(t.Context(), counts); err != nil {
			t.Fatal(err)
		}
		if err := s.CountAudiences(t.Context()); err != nil {
			t.Fatal(err)
		}
		for page, until := range map[string]time.Time{"p": {}, "q": {}, "r": noon.Add(time.Hour), "s": noon.Add(time.Minute)} {
			if err := s.Pause(t.Context(), page, map[bool]string{true: "policy: x", false: "stopped"}[until.IsZero()], noon, until); err != nil {
				t.Fatal(err)
			}
		}
		now.Advance(time.Minute)
		overview("when q has used most", Overview{Paused: map[string]int{"policy: x": 2, "stopped": 1}, QuotaShare: 0.75})
		now.Advance(24 * time.Hour)
		overview("a day later", Overview{Paused: map[string]int{"policy: x": 2}})
	})
}

// TestUnknownPage: a page that had no event is not known to operators, and a
// mistyped id makes none. A dispatcher may report one.
func TestUnknownPage(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url})
		for what, ask := range map[string]func(page string) error{
			"Rooms":   func(page string) error { _, err := s.Rooms(t.Context(), page, 0, 10); return err },
			"Reports": func(page string) error { _, err := s.Reports(t.Context(), page, ReportView{}, 10); return err },
			"List":    func(page string) error { _, err := s.Broadcasts().List(t.Context(), page, 10); return err },
		} {
			if err := ask("p"); err != nil {
				t.Errorf("%s of a page = %v, want nil", what, err)
			}
			if err := ask("q"); !errors.Is(err, ErrUnknown) {
				t.Errorf("%s of an unknown page = %v, want ErrUnknown", what, err)
			}
		}
		if pages, err := s.Pages(t.Context(), "", 10); len(pages) != 1 || err != nil {
			t.Errorf("Pages() = %+v, %v, want the page with events alone", pages, err)
		}
		if err := s.Pause(t.Context(), "q", "x", time.Now(), time.Time{}); err != nil {
			t.Errorf("Pause of an unknown page by a dispatcher = %v, want nil", err)
		}
	})
}
