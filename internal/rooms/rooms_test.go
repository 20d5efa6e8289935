package rooms

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReceive(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Capacity: 2})
		for _, step := range []struct {
			page, user, id string
			want           Result
		}{
			{"p", "a", "1", Result{Room: 1, Name: "Guest 1", Joined: true}},
			{"p", "c", "2", Result{Room: 1, Name: "Guest 2", Joined: true, Others: []string{"a"}}},
			{"p", "b", "3", Result{Room: 2, Name: "Guest 3", Joined: true}},
			{"p", "a", "4", Result{Room: 1, Name: "Guest 1", Others: []string{"c"}}},
			{"q", "a", "1", Result{Room: 1, Name: "Guest 1", Joined: true}},
			{"p", "d", "5", Result{Room: 2, Name: "Guest 4", Joined: true, Others: []string{"b"}}},
			{"p", "e", "6", Result{Room: 3, Name: "Guest 5", Joined: true}},
		} {
			got := receive(t, s, step.page, step.user, step.id)
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("Receive(%s, %s, %s): -want +got\n%s", step.page, step.user, step.id, diff)
			}
		}
	})
}

func TestReceiveSortsOthers(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url})
		for _, user := range []string{"b", "10", "B", "9", "ä"} {
			receive(t, s, "p", user, "join-"+user)
		}
		got := receive(t, s, "p", "c", "1").Others
		if diff := cmp.Diff([]string{"10", "9", "B", "b", "ä"}, got); diff != "" {
			t.Errorf("Others: -want +got\n%s", diff)
		}
	})
}

// TestRepeated: until Done an event gives the same result whatever happened
// meanwhile, afterwards nothing.
func TestRepeated(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url})
		receive(t, s, "p", "a", "1")
		want := receive(t, s, "p", "b", "2")
		if !want.Joined || len(want.Others) != 1 {
			t.Fatalf("Receive of a second user = %+v, want joined with one other", want)
		}
		receive(t, s, "p", "c", "3")
		if err := s.Leave(t.Context(), "p", "b", noon.Add(time.Second)); err != nil {
			t.Fatalf("Leave() = %v, want nil", err)
		}

		got := receive(t, s, "p", "b", "2")
		want.Status = Unfinished
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Receive of an unfinished event: -want +got\n%s", diff)
		}
		if members := receive(t, s, "p", "a", "4").Others; !cmp.Equal(members, []string{"c"}) {
			t.Errorf("members after a repetition = %v, want [c]: a repetition must change nothing", members)
		}

		for range 2 {
			if err := s.Done(t.Context(), "p", "2"); err != nil {
				t.Fatalf("Done() = %v, want nil", err)
			}
		}
		if got := receive(t, s, "p", "b", "2"); !cmp.Equal(got, Result{Status: Finished}) {
			t.Errorf("Receive after Done = %+v, want only Finished", got)
		}
		if got := receive(t, s, "q", "b", "2"); got.Status != Fresh {
			t.Errorf("Receive of the same id on another page = %v, want %v", got.Status, Fresh)
		}
	})
}

func TestLeave(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Capacity: 2})
		for _, user := range []string{"a", "b", "c"} {
			receive(t, s, "p", user, "join-"+user) // a and b in room 1, c in room 2
		}
		leave := func(user string, at time.Time) {
			t.Helper()
			if err := s.Leave(t.Context(), "p", user, at); err != nil {
				t.Fatalf("Leave(%s) = %v, want nil", user, err)
			}
		}
		leave("b", noon.Add(-time.Millisecond)) // wrote since then
		leave("stranger", noon)
		if got := receive(t, s, "p", "a", "1").Others; !cmp.Equal(got, []string{"b"}) {
			t.Errorf("members after Leave of the past = %v, want [b]", got)
		}
		leave("b", noon)
		leave("b", noon) // twice counts once
		if got := receive(t, s, "p", "a", "2").Others; len(got) != 0 {
			t.Errorf("members after Leave = %v, want none", got)
		}
		want := Result{Room: 1, Name: "Guest 4", Joined: true, Others: []string{"a"}}
		if diff := cmp.Diff(want, receive(t, s, "p", "d", "3")); diff != "" {
			t.Errorf("next user after Leave, in the free place: -want +got\n%s", diff)
		}
		want = Result{Room: 2, Name: "Guest 2", Joined: true, Others: []string{"c"}}
		if diff := cmp.Diff(want, receive(t, s, "p", "b", "4")); diff != "" {
			t.Errorf("user who left and wrote again, under its old name: -want +got\n%s", diff)
		}
		if got := receive(t, s, "p", "e", "5").Name; got != "Guest 5" {
			t.Errorf("name of the next newcomer = %q, want Guest 5: a return takes no number", got)
		}
	})
}

func TestCloseWindow(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Capacity: 2})
		receive(t, s, "p", "a", "1")
		receive(t, s, "p", "b", "2")
		closeWindow := func(at time.Time) {
			t.Helper()
			if err := s.CloseWindow(t.Context(), "p", "b", at); err != nil {
				t.Fatalf("CloseWindow() = %v, want nil", err)
			}
		}
		closeWindow(noon.Add(-time.Millisecond)) // wrote since then
		if got := receive(t, s, "p", "a", "3").Others; !cmp.Equal(got, []string{"b"}) {
			t.Errorf("others after CloseWindow of the past = %v, want [b]", got)
		}
		closeWindow(noon)
		if got := receive(t, s, "p", "a", "4").Others; len(got) != 0 {
			t.Errorf("others after CloseWindow = %v, want none", got)
		}
		if got := receive(t, s, "p", "c", "5").Room; got != 2 {
			t.Errorf("room of the next user = %d, want 2: a closed window frees no place", got)
		}
		receiveAt(t, s, "p", "b", "6", noon.Add(time.Hour))
		if got := receive(t, s, "p", "a", "7").Others; !cmp.Equal(got, []string{"b"}) {
			t.Errorf("others after b wrote again = %v, want [b]", got)
		}
	})
}

func TestReceiveErrData(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url})
		good := Event{Page: "p", User: "u", ID: "i", At: noon}
		long := strings.Repeat("x", maxKey)
		for field, bad := range map[string]func(e Event, v string) Event{
			"page": func(e Event, v string) Event { e.Page = v; return e },
			"user": func(e Event, v string) Event { e.User = v; return e },
			"id":   func(e Event, v string) Event { e.ID = v; return e },
		} {
			for _, value := range []string{"", "a\x00b", "\xff", long + "x"} {
				_, err := s.Receive(t.Context(), bad(good, value))
				if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), field) {
					t.Errorf("Receive with %s %.10q = %v, want ErrData that names it", field, value, err)
				}
			}
		}
		for _, err := range []error{s.Leave(t.Context(), "p", "\xff", noon), s.CloseWindow(t.Context(), "\x00", "u", noon)} {
			if !errors.Is(err, ErrData) {
				t.Errorf("Leave or CloseWindow with a bad id = %v, want ErrData", err)
			}
		}
		if _, err := s.Receive(t.Context(), Event{Page: long, User: long, ID: long, At: noon}); err != nil {
			t.Errorf("Receive with the longest ids = %v, want nil", err)
		}
		hostile := `'; DROP TABLE users; -- \ " $1 %s` + "\u202e"
		if _, err := s.Receive(t.Context(), Event{Page: hostile, User: hostile, ID: hostile, At: noon}); err != nil {
			t.Errorf("Receive with SQL in its ids = %v, want nil", err)
		}
		receive(t, s, "p", "u", "still there")
	})
}

func TestPrune(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := open(t, Config{DatabaseURL: url, Now: now.Now})
		receive(t, s, "p", "a", "old")
		now.Advance(time.Hour)
		receive(t, s, "p", "a", "young")
		for _, want := range []int64{1, 0} {
			if got, err := s.Prune(t.Context(), noon.Add(time.Minute)); got != want || err != nil {
				t.Errorf("Prune() = %d, %v, want %d, nil", got, err, want)
			}
		}
		if got := receive(t, s, "p", "a", "young").Status; got != Unfinished {
			t.Errorf("Receive of an event that is too young to prune = %v, want %v", got, Unfinished)
		}
		if got := receive(t, s, "p", "a", "old").Status; got != Fresh {
			t.Errorf("Receive of a pruned event = %v, want %v", got, Fresh)
		}
	})
}

// TestPruneBatches deletes more than one batch.
func TestPruneBatches(t *testing.T) {
	t.Parallel()
	s := open(t, Config{DatabaseURL: "sqlite::memory:"})
	const events = pruneBatch + 1
	if _, err := s.exec(t.Context(), `
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
		INSERT INTO processed_events (page, event_id, at) SELECT 'p', i, $2 FROM n`,
		events, noon.UnixMilli()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Prune(t.Context(), noon.Add(time.Second)); got != events || err != nil {
		t.Errorf("Prune() = %d, %v, want %d, nil", got, err, events)
	}
}
