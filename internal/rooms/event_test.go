package rooms

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/command"
)

// TestRepeated checks that an event gives the same result until Done, whatever
// happened meanwhile, and Finished afterwards.
func TestRepeated(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url, FloodLimit: 100})
		events := []Event{
			{User: "a"},
			{User: "a", Command: wish(command.Start, "")},
			{User: "a", Command: wish(command.Rooms, "")},
			{User: "a", Command: wish(command.Name, "Di")},
			{User: "a", Command: wish(command.Who, "")},
			{User: "a", Command: wish(command.Block, "Bo")},
			{User: "a", Command: wish(command.Report, "Bo")},
			{User: "a", Command: command.Command{Kind: command.Mute, For: time.Hour}},
			{User: "a", Command: wish(command.Unblock, "Bo")},
			{User: "d", Lang: "pt"},
			{User: "d", Command: wish(command.Leave, "")},
			{User: "d", Command: wish(command.Join, "x")},
		}
		want := make([]Result, len(events))
		for i := range events {
			events[i].ID = string(rune('0' + i))
			want[i] = receive(t, s, events[i])
			want[i].Status = Unfinished
		}
		before := tables(t, s)
		for i, ev := range events {
			if diff := cmp.Diff(want[i], receive(t, s, ev)); diff != "" {
				t.Errorf("%v repeated: -want +got\n%s", ev.Command.Kind, diff)
			}
		}
		if diff := cmp.Diff(before, tables(t, s)); diff != "" {
			t.Errorf("database after repetitions: -want +got\n%s", diff)
		}
		for range 2 {
			if err := s.Done(t.Context(), "p", "0"); err != nil {
				t.Fatalf("Done() = %v, want nil", err)
			}
		}
		if got := receive(t, s, events[0]); !cmp.Equal(got, Result{Status: Finished}) {
			t.Errorf("Receive after Done = %+v, want only Finished", got)
		}
		if got := receive(t, s, Event{Page: "q", User: "b", ID: "1"}); got.Status != Fresh {
			t.Errorf("Receive of the same id on another page = %v, want %v", got.Status, Fresh)
		}
	})
}

// tables returns the rows of all tables, as text.
func tables(t *testing.T, s *Store) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for table, columns := range map[string][]string{
		"pages": {"page", "guests", "paused_until"}, "rooms": {"page", "number", "code", "members"},
		"members": {"page", "room", "psid", "name", "name_key"}, "blocks": {"page", "blocker", "blocked", "name"},
		"reports": {"page", "event_id"}, "processed_events": {"page", "event_id"},
		"people": {"page", "psid", "name", "lang", "last_inbound", "last_number", "last_code", "muted_until", "flood_at", "text_at", "media_at"},
	} {
		for i, c := range columns {
			columns[i] = "CAST(" + c + " AS TEXT)"
		}
		var rows []string
		if err := s.do(t.Context(), column(&rows, "SELECT "+strings.Join(columns, "||'|'||")+" FROM "+table)); err != nil {
			t.Fatal(err)
		}
		all[table] = sorted(rows)
	}
	return all
}

func TestErrData(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url})
		good := Event{Page: "p", User: "u", ID: "i", At: noon}
		long := strings.Repeat("x", maxKey)
		for field, bad := range map[string]func(e Event, v string) Event{
			"page": func(e Event, v string) Event { e.Page = v; return e },
			"user": func(e Event, v string) Event { e.User = v; return e },
			"id":   func(e Event, v string) Event { e.ID = v; return e },
			"room": func(e Event, v string) Event { e.Command = wish(command.Join, v); return e },
			"name": func(e Event, v string) Event { e.Command = wish(command.Name, v); return e },
		} {
			for _, value := range []string{"", "a\x00b", "\xff", long + "x"} {
				_, err := s.Receive(t.Context(), bad(good, value))
				if value == "" && (field == "room" || field == "name") {
					continue
				}
				if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), field) {
					t.Errorf("Receive with %s %.10q = %v, want ErrData that names it", field, value, err)
				}
			}
		}
		for what, err := range map[string]error{
			"Gone":        s.Gone(t.Context(), "p", "\xff", noon),
			"CloseWindow": s.CloseWindow(t.Context(), "\x00", "u", noon),
			"Pause":       s.Pause(t.Context(), "", "", noon, noon),
			"Ban":         s.Ban(t.Context(), "p", "", noon),
		} {
			if !errors.Is(err, ErrData) {
				t.Errorf("%s with a bad id = %v, want ErrData", what, err)
			}
		}
		if _, err := s.Receive(t.Context(), Event{Page: long, User: long, ID: long, At: noon}); err != nil {
			t.Errorf("Receive with the longest ids = %v, want nil", err)
		}
		far := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) // a time that JSON cannot express
		if _, err := s.Receive(t.Context(), Event{Page: "p", User: "u", ID: "far", At: far, Command: command.Command{Kind: command.Mute, For: time.Hour}}); !errors.Is(err, ErrData) {
			t.Errorf("Receive with a result that JSON cannot express = %v, want ErrData", err)
		}
		hostile := `'; DROP TABLE people; -- \ " $1 %s` + "\u202e"
		for kind := command.None; kind <= command.Help; kind++ {
			ev := Event{Page: hostile, User: hostile, ID: hostile + kind.String(), At: noon, Command: command.Command{Kind: kind, Room: hostile, Name: hostile}}
			if _, err := s.Receive(t.Context(), ev); err != nil {
				t.Errorf("Receive of %v with SQL in everything = %v, want nil", kind, err)
			}
		}
		if _, err := s.Receive(t.Context(), Event{Page: hostile, User: hostile, ID: hostile, At: noon, Idle: true}); err != nil {
			t.Errorf("Receive of an idle event with SQL in everything = %v, want nil", err)
		}
		says(t, s, "u") // still there
	})
}

// TestConstraint checks that the violation of a constraint is ErrData.
func TestConstraint(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url})
		write(t, s, `CREATE UNIQUE INDEX people_name ON people (name)`)
		does(t, s, "a", command.Name, "Ana")
		_, err := s.Receive(t.Context(), Event{Page: "p", User: "b", ID: "b", At: noon, Command: wish(command.Name, "Ana")})
		if !errors.Is(err, ErrData) {
			t.Errorf("Receive that violates a constraint = %v, want ErrData", err)
		}
	})
}

func TestPrune(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := open(t, Config{DatabaseURL: url, Now: now.Now})
		receive(t, s, Event{User: "a", ID: "old"})
		now.Advance(time.Hour)
		receive(t, s, Event{User: "a", ID: "young"})
		for _, want := range []int64{1, 0} {
			if got, err := s.Prune(t.Context(), noon.Add(time.Minute)); got != want || err != nil {
				t.Errorf("Prune() = %d, %v, want %d, nil", got, err, want)
			}
		}
		if got := receive(t, s, Event{User: "a", ID: "young"}).Status; got != Unfinished {
			t.Errorf("Receive of an event that is too young to prune = %v, want %v", got, Unfinished)
		}
		if got := receive(t, s, Event{User: "a", ID: "old"}).Status; got != Fresh {
			t.Errorf("Receive of a pruned event = %v, want %v", got, Fresh)
		}
	})
}

// TestCheckClock checks that a clock that differs from the database's is noticed where others
// have another.
func TestCheckClock(t *testing.T) {
	t.Parallel()
	onEach(t, shared(), func(t *testing.T, url string) {
		for ahead, want := range map[time.Duration]error{-2 * time.Minute: nil, 0: nil, 2 * time.Minute: ErrAhead} {
			if !strings.HasPrefix(url, "postgres") {
				want = nil
			}
			s := open(t, Config{DatabaseURL: url, Now: func() time.Time { return time.Now().Add(ahead) }})
			if err := s.CheckClock(t.Context()); !errors.Is(err, want) {
				t.Errorf("CheckClock() %s ahead = %v, want %v", ahead, err, want)
			}
		}
	})
}

// TestPruneBatches deletes more than one batch.
func TestPruneBatches(t *testing.T) {
	t.Parallel()
	s := open(t, Config{DatabaseURL: "sqlite::memory:"})
	const events = batch + 1
	write(t, s, `
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
		INSERT INTO processed_events (page, event_id, at) SELECT 'p', i, $2 FROM n`,
		int64(events), noon.UnixMilli())
	if got, err := s.Prune(t.Context(), noon.Add(time.Second)); got != events || err != nil {
		t.Errorf("Prune() = %d, %v, want %d, nil", got, err, events)
	}
}
