package rooms

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"chatclub/internal/command"
	"chatclub/internal/rooms/roomstest"
)

// spy is a PostgreSQL that explains each statement of its transactions before it
// runs.
type spy struct {
	database
	plans []string
}

type spyTx struct {
	transaction
	spy *spy
}

func (s *spy) begin(ctx context.Context) (transaction, error) {
	tx, err := s.database.begin(ctx)
	return &spyTx{tx, s}, err
}

func (t *spyTx) run(ctx context.Context, queries ...query) error {
	for _, q := range queries {
		var plan []string
		err := t.transaction.run(
			ctx,
			query{sql: `SAVEPOINT explained`},
			column(&plan, `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) `+q.sql, q.args...),
			query{sql: `ROLLBACK TO explained`},
			q,
		)
		if err != nil {
			return err
		}
		t.spy.plans = append(t.spy.plans, strings.Join(strings.Fields(q.sql), " ")+"\n"+strings.Join(plan, "\n"))
	}
	return nil
}

func (t *spyTx) commit(ctx context.Context, queries ...query) error {
	if err := t.run(ctx, queries...); err != nil {
		return err
	}
	return t.transaction.commit(ctx)
}

var buffers = regexp.MustCompile(`Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?`)

// pages returns how many pages a plan says that its statement read.
func pages(plan string) (n int) {
	for _, digits := range buffers.FindStringSubmatch(plan)[1:] { // the first is that of the whole
		i, _ := strconv.Atoi(digits) // 0 if there is none
		n += i
	}
	return n
}

// TestBuffers checks that an event's reads do not grow with the texts and the
// names of other people, of which the database has many.
func TestBuffers(t *testing.T) {
	t.Parallel()
	now := &clock{now: noon}
	s := open(t, Config{DatabaseURL: roomstest.DSN(t), Now: now.Now})
	for i := range MaxCapacity {
		says(t, s, strconv.Itoa(i))
	}
	// There are 30,000 events and names of others, in the same room and in others.
	const others = `FROM generate_series(1, 30000) i`
	write(t, s, `
		INSERT INTO processed_events (page, event_id, at, psid, room, text)
		SELECT 'p', 'e' || i, $1, 'u' || (i % 5000), 1 + i % 3, 'text ' || i `+others, noon.UnixMilli())
	write(t, s, `
		INSERT INTO past_names (page, room, skeleton, psid, name, until)
		SELECT 'p', 1 + i % 3, 'name' || i, 'u' || (i % 5000), 'Name ' || i, $1 `+others, noon.Add(time.Hour).UnixMilli())
	write(t, s, `ANALYZE`)
	kept := &spy{database: s.db}
	s.db = kept
	for _, tt := range []struct {
		name string
		ev   Event
		most int // a few times the measured number: other plans are as good
	}{
		{"message", Event{Command: command.Command{Text: "hello"}}, 500},
		{"who", Event{Command: command.Command{Kind: command.Who}}, 200},
		{"block", Event{Command: wish(command.Block, "Guest 7")}, 400},
		{"report", Event{Command: wish(command.Report, "Guest 7")}, 400},
		{"report by number", Event{Command: command.Command{Kind: command.Report, Number: 7}}, 300},
		{"unblock", Event{Command: wish(command.Unblock, "Guest 7")}, 200},
		{"rename", Event{Command: wish(command.Name, "Ana")}, 400},
		{"leave", Event{Command: wish(command.Leave, "")}, 300},
		{"coming back", Event{Command: wish(command.Start, "")}, 600},
	} {
		kept.plans = nil
		tt.ev.User, tt.ev.ID = "5", tt.name
		if got := receive(t, s, tt.ev); got.Rejected || got.Notice == NoMember || got.Notice == NameTaken {
			t.Fatalf("%s = %+v, want it done", tt.name, got)
		}
		total := 0
		for _, plan := range kept.plans {
			total += pages(plan)
			if strings.Contains(plan, "Seq Scan on processed_events") || strings.Contains(plan, "Seq Scan on past_names") {
				t.Errorf("%s reads a whole table:\n%s", tt.name, plan)
			}
		}
		if t.Logf("%s: %d pages", tt.name, total); total > tt.most {
			t.Errorf("pages that %s reads = %d, want at most %d:\n%s", tt.name, total, tt.most, strings.Join(kept.plans, "\n"))
		}
	}
}
