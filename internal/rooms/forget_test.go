package rooms

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"chatclub/internal/command"
	"chatclub/internal/rooms/roomstest"
)

// dump returns every row of every table, each as a line of text.
func dump(t *testing.T, s *Store) string {
	t.Helper()
	type field struct{ table, column string }
	var fields []field
	catalog := `SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1, 2`
	if s.postgres {
		catalog = `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2`
	}
	if err := s.do(t.Context(), all(&fields, catalog, nil, func(r row, f *field) error { return r.Scan(&f.table, &f.column) })); err != nil {
		t.Fatal(err)
	}
	columns := map[string]string{}
	for _, f := range fields {
		columns[f.table] += ` || ' ' || COALESCE(CAST(` + f.column + ` AS TEXT), '')`
	}
	if len(columns) < 8 {
		t.Fatalf("tables = %v, want all of them", columns)
	}
	var lines []string
	for table, list := range columns {
		if err := s.do(t.Context(), column(&lines, `SELECT '`+table+`'`+list+` FROM `+table)); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(lines, "\n")
}

// gossip makes a room in which a victim and others have left every trace that users
// can leave. It returns the user's id.
func gossip(t *testing.T, s *Store) string {
	t.Helper()
	const victim = "victim%_7"
	does(t, s, victim, command.Name, "Zebulon")
	says(t, s, victim)
	does(t, s, "a", command.Name, "Ana")
	for _, user := range []string{"a", "b"} {
		says(t, s, user)
		does(t, s, user, command.Block, "Zebulon")
		does(t, s, user, command.Report, "Zebulon")
	}
	does(t, s, victim, command.Block, "Ana")
	does(t, s, victim, command.Report, "Ana")
	does(t, s, "a", command.Report, "Guest 1")
	does(t, s, "a", command.Who, "")
	says(t, s, victim)
	receive(t, s, Event{User: victim, ID: "idle/" + victim + "/1", Idle: true})
	b := news("cast")
	add(t, s, b)
	b.State, b.Cursor, b.Queued = BroadcastDone, victim, 2
	claim(t, s, "h")
	if _, err := s.Broadcasts().Advance(t.Context(), "h", Progress{b, ""}); err != nil {
		t.Fatal(err)
	}
	write(t, s, `UPDATE processed_events SET outcome = NULL`) // all is done
	if before := dump(t, s); strings.Count(before, victim) < 8 || strings.Count(before, "Zebulon") < 4 {
		t.Fatalf("traces of the user are too few:\n%s", before)
	}
	return victim
}

// TestForget checks that nothing is left of a forgotten user in any table, and that
// others are as they were.
func TestForget(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Now: (&clock{now: noon}).Now, Idle: time.Hour})
		victim := gossip(t, s)
		for _, want := range []error{nil, ErrUnknown} {
			if err := s.Forget(t.Context(), "p", victim); !errors.Is(err, want) {
				t.Errorf("Forget() = %v, want %v", err, want)
			}
		}
		if _, err := s.Prune(t.Context(), noon.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if left := dump(t, s); strings.Contains(left, victim) || strings.Contains(left, "Zebulon") {
			t.Errorf("tables after Forget() hold the user:\n%s", left)
		}
		if got := says(t, s, "a").Relay; len(got) != 1 || got[0] != "b" {
			t.Errorf("copies of a's message = %v, want one to b", got)
		}
		reports, err := s.Reports(t.Context(), "p", ReportView{}, 10)
		if len(reports) != 1 || reports[0].Accused != "b" || err != nil {
			t.Errorf("Reports() = %+v, %v, want a's about b", reports, err)
		}
		// The sweep saw the user before.
		receive(t, s, Event{User: victim, ID: "idle/2", Idle: true})
		if left := dump(t, s); strings.Contains(left, victim) {
			t.Errorf("tables after the user was silent hold it again:\n%s", left)
		}
		if got := says(t, s, victim); got.Name == "Zebulon" || len(got.Relay) != 2 {
			t.Errorf("message of the user that was forgotten = %+v, want that of a new one", got)
		}
	})
}

// TestForgetBanned checks that a ban outlives the deletion, and nothing else.
func TestForgetBanned(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := open(t, Config{DatabaseURL: url, Now: now.Now})
		victim := gossip(t, s)
		if err := s.Ban(t.Context(), "p", victim, noon.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := s.Forget(t.Context(), "p", victim); err != nil {
			t.Errorf("Forget() = %v, want nil", err)
		}
		if _, err := s.Prune(t.Context(), noon.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		left := dump(t, s)
		if strings.Count(left, victim) != 1 || strings.Contains(left, "Zebulon") {
			t.Errorf("tables hold more of a banned user than its ban:\n%s", left)
		}
		if got := says(t, s, victim); !got.Rejected {
			t.Errorf("message of the banned user = %+v, want it rejected", got)
		}
		if err := s.Forget(t.Context(), "p", victim); err != nil {
			t.Errorf("Forget() again = %v, want nil", err)
		}
		now.Advance(2 * time.Hour)
		if err := s.PrunePeople(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := dump(t, s); strings.Contains(left, "people") && strings.Contains(left, victim) {
			t.Errorf("tables hold the user after its ban has ended:\n%s", left)
		}
	})
}

// TestForgetAtOnce forgets users who blocked one another, while all write.
func TestForgetAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, shared(), func(t *testing.T, url string) {
		stores := []*Store{open(t, Config{DatabaseURL: url}), open(t, Config{DatabaseURL: url})}
		const users = 8
		name := func(i int) string { return fmt.Sprint("u", i%users) }
		for i := range users {
			does(t, stores[0], name(i), command.Name, name(i))
			says(t, stores[0], name(i))
		}
		var wg sync.WaitGroup
		for i := range users {
			s := stores[i%2]
			try := func(do func() error) {
				if err := patiently(do); err != nil && !errors.Is(err, ErrUnknown) {
					t.Errorf("%s: %v", name(i), err)
				}
			}
			wg.Go(func() {
				for n := range 10 {
					ev := Event{Page: "p", User: name(i), ID: fmt.Sprint(i, "-", n), At: noon, Command: wish(command.Block, name(i+n))}
					try(func() error { _, err := s.Receive(t.Context(), ev); return err })
				}
			})
			wg.Go(func() {
				for n := range 10 {
					try(func() error { return s.Forget(t.Context(), "p", name(i*3+n)) })
				}
			})
		}
		wg.Wait()
		for i := range users {
			if err := stores[0].Forget(t.Context(), "p", name(i)); err != nil && !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
		}
		var members, places int64
		err := stores[0].do(t.Context(),
			one(nil, `SELECT COUNT(*) FROM members`, nil, &members), one(nil, `SELECT COALESCE(SUM(members), 0) FROM rooms`, nil, &places))
		if members != 0 || places != 0 || err != nil {
			t.Errorf("members = %d, by their rooms %d, %v, want none", members, places, err)
		}
	})
}

// TestPrunePeople checks who is forgotten after a year.
func TestPrunePeople(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Now: now.Now, forgetPause: 1})
		does(t, s, "a", command.Block, "Bo")
		does(t, s, "b", command.Block, "Cy")
		does(t, s, "a", command.Leave, "")
		says(t, s, "d")
		if err := s.Ban(t.Context(), "p", "d", noon.Add(2*peopleKept)); err != nil { // which ends its membership
			t.Fatal(err)
		}
		write(t, s, fmt.Sprintf(`
			INSERT INTO people (page, psid, name, lang, last_inbound, last_number, last_code, muted_until, banned_until, ban_told, flood_at, flood_told)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= %d)
			SELECT 'old', 'x' || CAST(i AS TEXT), '', '', 0, 1, '', 0, 0, 0, 0, 0 FROM n`, batch))
		want := func(what, users string) {
			t.Helper()
			if err := s.PrunePeople(t.Context()); err != nil {
				t.Fatalf("PrunePeople() = %v, want nil", err)
			}
			var people, blocks []string
			err := s.do(t.Context(), column(&people, `SELECT psid FROM people`), column(&blocks, `SELECT blocker || blocked FROM blocks`))
			if got := strings.Join(sorted(append(people, blocks...)), " "); got != users || err != nil {
				t.Errorf("people and blocks %s = %q, %v, want %q", what, got, err, users)
			}
		}
		want("at first", "a ab b bc c d")
		now.Advance(peopleKept - time.Second)
		want("before a year is over", "a ab b bc c d")
		now.Advance(time.Second)
		want("after a year", "b bc c d") // b and c are in a room, d is banned
		now.Advance(peopleKept)
		want("after d's ban", "b bc c")
	})
}

// TestPruneSkipsLocked checks that pruning waits for no other transaction, such as
// another core's that prunes the same rows: two that wait could wait for one another.
func TestPruneSkipsLocked(t *testing.T) {
	t.Parallel()
	now := &clock{now: noon}
	s := open(t, Config{DatabaseURL: roomstest.DSN(t), Now: now.Now, orphanTimeout: time.Hour})
	gossip(t, s)
	if err := s.AddCounts(t.Context(), map[RoomKey]Count{{"p", 1}: {1, 1}, {"p", 2}: {1, 1}}); err != nil {
		t.Fatal(err)
	}
	now.Advance(2 * peopleKept)
	left := map[string]int64{"processed_events": 1, "reports": 1, "room_hours": 1, "page_hours": 1, "broadcasts": 1}
	count := func() map[string]int64 {
		counts := map[string]int64{}
		for table := range left {
			var n int64
			if err := s.do(t.Context(), one(nil, `SELECT COUNT(*) FROM `+table, nil, &n)); err != nil {
				t.Fatal(err)
			}
			counts[table] = n
		}
		return counts
	}
	err := s.inLongTx(t.Context(), func(ctx context.Context, tx transaction) error {
		for table := range left {
			if err := tx.run(ctx, one(nil, `SELECT 1 FROM `+table+` LIMIT 1 FOR UPDATE`, nil, new(int64))); err != nil {
				return fmt.Errorf("lock a row of %s: %w", table, err)
			}
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute) // it would wait for ever
		defer cancel()
		if _, err := s.Prune(ctx, now.Now()); err != nil {
			return err
		}
		for table, n := range count() {
			if n != left[table] {
				t.Errorf("rows of %s after Prune() = %d, want the one that is locked", table, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(t.Context(), now.Now()); err != nil {
		t.Fatal(err)
	}
	for table, n := range count() {
		if n != 0 {
			t.Errorf("rows of %s after another Prune() = %d, want none", table, n)
		}
	}
}
