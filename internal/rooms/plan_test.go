package rooms

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chatclub/internal/command"
	"chatclub/internal/rooms/roomstest"
)

// crowd is the number of people of the page big, in rooms of 100.
const crowd = 40_000

// crowded returns a store on PostgreSQL with a page of many people, and a
// connection to the same schema.
func crowded(t *testing.T) (*Store, *pgx.Conn) {
	t.Helper()
	dsn := roomstest.DSN(t)
	s := open(t, Config{DatabaseURL: dsn, Now: (&clock{now: noon}).Now})
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	for _, sql := range []string{
		`INSERT INTO pages (page, guests, last_room) VALUES ('big', 0, 0), ('small', 0, 0)`,
		fmt.Sprintf(`INSERT INTO rooms (page, number, members, created_at, code) SELECT 'big', g, 100, 0, '' FROM generate_series(1, %d) g`, crowd/100),
		`INSERT INTO rooms (page, number, members, created_at, code) VALUES ('small', 1, 100, 0, '')`,
		fmt.Sprintf(`
			INSERT INTO people (page, psid, name, lang, last_inbound, last_number, last_code, muted_until, banned_until, ban_told, flood_at, flood_told)
			SELECT CASE WHEN g > %[1]d THEN 'small' ELSE 'big' END, CAST(7200000000000000 + g AS TEXT), 'Guest ' || g, 'en',
				%[2]d - CAST(random() * 80000000 AS BIGINT), 1 + (g - 1) %% %[1]d / 100, '', 0, 0, 0, 0, 0
			FROM generate_series(1, %[1]d + 100) g`, crowd, noon.UnixMilli()),
		`INSERT INTO members (page, room, psid, name, name_key, joined_at) SELECT page, last_number, psid, name, LOWER(name), 0 FROM people`,
		`INSERT INTO blocks SELECT page, psid, '7', 'x', 'x', 0 FROM people WHERE random() < 0.1`,
		`ANALYZE`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return s, conn
}

// personID returns the id of a person of the crowd, counted from 1.
func personID(n int) string { return fmt.Sprint(7200000000000000 + n) }

// buffersOf returns how many of PostgreSQL's buffers a query reads, by the plan for its
// arguments and by the one for any arguments. A prepared statement may have either.
func buffersOf(t *testing.T, conn *pgx.Conn, q query) int {
	t.Helper()
	most := 0
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		args := make([]string, len(q.args))
		for i, arg := range q.args {
			args[i] = fmt.Sprint(arg)
			if text, ok := arg.(string); ok {
				args[i] = "'" + text + "'"
			}
		}
		execute := "EXECUTE asked"
		if len(args) > 0 {
			execute += " (" + strings.Join(args, ", ") + ")"
		}
		for _, sql := range []string{"SET plan_cache_mode = " + mode, "PREPARE asked AS " + q.sql} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		var answer []byte
		err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+execute, pgx.QueryExecModeSimpleProtocol).Scan(&answer)
		if err != nil {
			t.Fatalf("explain %s: %v", q.sql, err)
		}
		var plans []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := json.Unmarshal(answer, &plans); err != nil || len(plans) != 1 {
			t.Fatalf("explain %s: %v: %s", q.sql, err, answer)
		}
		if _, err := conn.Exec(t.Context(), "DEALLOCATE asked"); err != nil {
			t.Fatal(err)
		}
		most = max(most, plans[0].Plan.Hit+plans[0].Plan.Read)
	}
	return most
}

// TestCosts: the costs of one crowd, which takes seconds to make.
func TestCosts(t *testing.T) {
	t.Parallel()
	s, conn := crowded(t)
	for _, cost := range []struct {
		of   string
		test func(*testing.T, *Store, *pgx.Conn)
	}{{"recipients", recipientsCost}, {"event", eventCost}, {"steps", stepsAreSmall}, {"forget", forgetCost}} {
		t.Run(cost.of, func(t *testing.T) { cost.test(t, s, conn) })
	}
}

// recipientsCost checks that the next recipients cost as much at the end of a
// large page as at its beginning.
func recipientsCost(t *testing.T, s *Store, conn *pgx.Conn) {
	t.Helper()
	for _, room := range []int{0, crowd / 100} {
		for _, cursor := range []string{"", personID(crowd / 2), personID(crowd - 40), personID(crowd - 1), personID(crowd)} {
			q := s.Broadcasts().recipients(Broadcast{Page: "big", Room: room, Cursor: cursor}, 31, new([]string))
			// Each recipient is a row of two tables in any order on disk, and of their
			// indexes. A whole room has 100.
			if got := buffersOf(t, conn, q); got > 500 {
				t.Errorf("buffers of the next recipients of room %d behind %q = %d, want at most 500", room, cursor, got)
			}
		}
	}
}

// eventCost checks that the reads of an event do not grow with its page.
func eventCost(t *testing.T, s *Store, conn *pgx.Conn) {
	t.Helper()
	e := &eventTx{s: s, ev: Event{Page: "big", User: personID(crowd / 2), ID: "1", Command: command.Command{}}, at: noon.UnixMilli()}
	e.user = user{page: e.ev.Page, psid: e.ev.User}
	for name, q := range map[string]query{
		"user":       e.user.load(new(bool), s.db.lock()),
		"membership": e.loadMembership(),
		"relay":      e.loadRelay(ownRoom),
	} {
		// The 100 members of a room, each by an index of two or three levels.
		if got := buffersOf(t, conn, q); got > 600 {
			t.Errorf("buffers of %s = %d, want at most 600", name, got)
		}
	}
}

// forgetCost checks that forgetting a user reads what is kept of it, and not the
// events, lists and people of its page.
func forgetCost(t *testing.T, s *Store, conn *pgx.Conn) {
	t.Helper()
	for _, sql := range []string{
		fmt.Sprintf(`
			INSERT INTO processed_events (page, event_id, at, psid, room, text)
			SELECT 'big', 'm' || g, %[1]d, CAST(%[2]d + g %% %[3]d AS TEXT), 1, 'text' FROM generate_series(1, 30000) g`, noon.UnixMilli(), 7200000000000000, crowd),
		fmt.Sprintf(`
			INSERT INTO processed_events (page, event_id, at, psid, text)
			SELECT 'big', 'idle/' || (%[2]d + g) || '/1', %[1]d, CAST(%[2]d + g AS TEXT), '' FROM generate_series(1, %[3]d) g`, noon.UnixMilli(), 7200000000000000, crowd),
		fmt.Sprintf(`
			INSERT INTO shown_members (page, psid, room, members, at)
			SELECT page, psid, room, repeat(psid, 100), %d FROM members`, noon.UnixMilli()),
		fmt.Sprintf(`
			INSERT INTO past_names (page, room, skeleton, psid, name, until)
			SELECT page, room, psid, psid, name, %d FROM members`, noon.Add(time.Hour).UnixMilli()),
		`ANALYZE`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, q := range s.forgetting("big", personID(crowd/2)) {
		// A room's lists are a hundred, each in a page of its own. All else is a few rows.
		most := 60
		if strings.Contains(q.sql, "left_room") {
			most = 600
		}
		if got := buffersOf(t, conn, q); got > most {
			t.Errorf("buffers of %s = %d, want at most %d", q.sql, got, most)
		}
	}
}

// TestForgetPlan is forgetCost on SQLite, which tells no buffers.
func TestForgetPlan(t *testing.T) {
	t.Parallel()
	s := open(t, Config{DatabaseURL: "sqlite::memory:"})
	for _, q := range s.forgetting("p", "u") {
		var steps []string
		err := s.do(t.Context(), all(&steps, "EXPLAIN QUERY PLAN "+q.sql, q.args,
			func(r row, step *string) error { return r.Scan(new(int64), new(int64), new(int64), step) }))
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			if strings.Contains(step, "SCAN") || strings.HasSuffix(step, "(page=?)") {
				t.Errorf("%s reads a whole page: %s", q.sql, step)
			}
		}
	}
}

// actual finds how many rows a node of a plan gave, and how often.
var actual = regexp.MustCompile(`actual rows=(\d+) loops=(\d+)`)

// stepsAreSmall checks that no statement of what is done for all users or all
// pages grows with their number.
func stepsAreSmall(t *testing.T, s *Store, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), `INSERT INTO pages (page, guests) SELECT 'p' || g, 0 FROM generate_series(1, 30000) g`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `ANALYZE`); err != nil {
		t.Fatal(err)
	}
	kept := &spy{database: s.db}
	s.db = kept
	defer func() { s.db = kept.database }()
	for name, do := range map[string]func() error{
		"CountAudiences": func() error { return s.CountAudiences(t.Context()) },
		"PrunePeople":    func() error { return s.PrunePeople(t.Context()) },
		"FindEvents":     func() error { _, err := s.FindEvents(t.Context(), "", "m"); return err },
		"FindPeople":     func() error { _, err := s.FindPeople(t.Context(), "", "a"); return err },
	} {
		kept.plans = nil
		if err := do(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(kept.plans) == 0 {
			t.Errorf("%s has no statement", name)
		}
		for _, plan := range kept.plans {
			for _, n := range actual.FindAllStringSubmatch(plan, -1) {
				rows, _ := strconv.Atoi(n[1]) // digits
				loops, _ := strconv.Atoi(n[2])
				if rows*loops > countBatch {
					t.Errorf("rows that a step of %s reads = %d, want at most %d:\n%s", name, rows*loops, countBatch, plan)
				}
			}
		}
	}
}
