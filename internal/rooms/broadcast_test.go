package rooms

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chatclub/internal/command"
	"chatclub/internal/rooms/roomstest"
)

// lease is the length of the leases in these tests.
const lease = 9 * time.Second

// news returns a broadcast to page p.
func news(id string) Broadcast {
	return Broadcast{
		ID: id, Page: "p", Text: "News!", Rate: 0.25, Deadline: noon.Add(time.Hour), Created: noon, Due: noon,
		Recipients: 3, State: BroadcastRunning,
	}
}

func add(t *testing.T, s *Store, b Broadcast) {
	t.Helper()
	if _, added, err := s.Broadcasts().Add(t.Context(), b); !added || err != nil {
		t.Fatalf("Add(%s) = %v, %v, want it added", b.ID, added, err)
	}
}

func claim(t *testing.T, s *Store, holder string) Claim {
	t.Helper()
	c, err := s.Broadcasts().Claim(t.Context(), holder, lease)
	if err != nil {
		t.Fatalf("Claim(%s) = %v, want nil", holder, err)
	}
	return c
}

func wantClaim(t *testing.T, s *Store, holder string, want Claim) {
	t.Helper()
	if diff := cmp.Diff(want, claim(t, s, holder), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Claim(%s): -want +got\n%s", holder, diff)
	}
}

func TestBroadcastIsKeptOnce(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Now: now.Now})
		add(t, s, news("a"))
		now.Advance(time.Second)
		other := news("a")
		other.Text, other.Page = "Old!", "q"
		kept, added, err := s.Broadcasts().Add(t.Context(), other)
		if diff := cmp.Diff(news("a"), kept); diff != "" || added || err != nil {
			t.Errorf("Add of another under its id = %v, %v: -want +got\n%s", added, err, diff)
		}
		b := news("b")
		b.Page, b.Created = "q", now.Now()
		add(t, s, b)
		for page, want := range map[string][]string{"": {"b", "a"}, "p": {"a"}, "q": {"b"}} {
			list, err := s.Broadcasts().List(t.Context(), page, 10)
			var got []string
			for _, b := range list {
				got = append(got, b.ID)
			}
			if !slices.Equal(got, want) || err != nil {
				t.Errorf("Broadcasts(%q) = %v, %v, want %v", page, got, err, want)
			}
		}
		if list, err := s.Broadcasts().List(t.Context(), "x", 10); !errors.Is(err, ErrUnknown) {
			t.Errorf("Broadcasts of an unknown page = %v, %v, want ErrUnknown", list, err)
		}
		_, unknown := s.Broadcasts().Get(t.Context(), "c")
		_, _, stopUnknown := s.Broadcasts().Stop(t.Context(), "c")
		if !errors.Is(unknown, ErrUnknown) || !errors.Is(stopUnknown, ErrUnknown) {
			t.Errorf("Broadcast and Stop of an unknown id = %v, %v, want ErrUnknown", unknown, stopUnknown)
		}
		for _, want := range []bool{true, false} {
			got, stopped, err := s.Broadcasts().Stop(t.Context(), "a")
			if got.State != BroadcastStopped || stopped != want || err != nil {
				t.Errorf("Stop = %v, %v, %v, want stopped, %v", got.State, stopped, err, want)
			}
		}
		now.Advance(8*24*time.Hour - time.Minute)
		if _, err := s.Prune(t.Context(), noon); err != nil {
			t.Fatal(err)
		}
		list, err := s.Broadcasts().List(t.Context(), "", 10)
		if len(list) != 1 || list[0].ID != "b" || err != nil {
			t.Errorf("Broadcasts a week after the deadline = %v, %v, want only the one that runs", list, err)
		}
	})
}

func TestAudience(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url, Now: func() time.Time { return noon }})
		does(t, s, "d", command.Join, "x")
		receive(t, s, Event{User: "e", ID: "old", At: noon.Add(-24 * time.Hour)})
		receive(t, s, Event{User: "b", ID: "mute", Command: command.Command{Kind: command.Mute, For: time.Hour}})
		if err := s.CloseWindow(t.Context(), "p", "c", noon); err != nil {
			t.Fatal(err)
		}
		for room, want := range map[int][]string{0: {"a", "b", "d"}, 1: {"a", "b"}, firstCode: {"d"}} {
			if n, err := s.Broadcasts().Audience(t.Context(), "p", room); n != len(want) || err != nil {
				t.Errorf("Audience(room %d) = %d, %v, want %d", room, n, err, len(want))
			}
			b := news(fmt.Sprint("room", room))
			b.Room = room
			next, err := s.Broadcasts().NextRecipients(t.Context(), "h", b, 10)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Recipients{To: want}, next); diff != "" {
				t.Errorf("NextRecipients(room %d): -want +got\n%s", room, diff)
			}
		}
		for _, err := range []error{second(s.Broadcasts().Audience(t.Context(), "q", 0)), second(s.Broadcasts().Audience(t.Context(), "p", 9))} {
			if !errors.Is(err, ErrUnknown) {
				t.Errorf("Audience of nothing = %v, want ErrUnknown", err)
			}
		}
	})
}

func second(_ int, err error) error { return err }

// TestNextRecipients checks that the recipients behind the cursor are those of
// that moment.
func TestNextRecipients(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url, Now: func() time.Time { return noon }})
		b := news("n")
		add(t, s, b)
		claim(t, s, "h")
		ask := func(want Recipients) {
			t.Helper()
			got, err := s.Broadcasts().NextRecipients(t.Context(), "h", b, 2)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("NextRecipients behind %q = %v: -want +got\n%s", b.Cursor, err, diff)
			}
		}
		ask(Recipients{Held: true, Due: noon, To: []string{"a", "b"}})
		b.Cursor, b.Queued, b.Due = "a", 1, noon.Add(4*time.Second)
		if state, err := s.Broadcasts().Advance(t.Context(), "h", Progress{b, ""}); err != nil || state != BroadcastRunning {
			t.Fatalf("Advance = %v, %v, want running", state, err)
		}
		says(t, s, "d")
		does(t, s, "b", command.Leave, "")
		ask(Recipients{Held: true, Cursor: "a", Queued: 1, Due: b.Due, To: []string{"c", "d"}})
		for _, until := range []time.Duration{10 * time.Second, 5 * time.Second} { // the second changes nothing
			err := errors.Join(s.DelayBroadcasts(t.Context(), "p", noon.Add(until)), s.DelayBroadcasts(t.Context(), "q", noon.Add(time.Hour)))
			if err != nil {
				t.Fatal(err)
			}
		}
		b.Due = noon.Add(10 * time.Second)
		ask(Recipients{Held: true, Cursor: "a", Queued: 1, Due: b.Due, To: []string{"c", "d"}})
		if err := s.Pause(t.Context(), "p", "", noon, noon.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		ask(Recipients{Held: true, Cursor: "a", Queued: 1, Due: b.Due, Paused: true, To: []string{"c", "d"}})
		if _, _, err := s.Broadcasts().Stop(t.Context(), "n"); err != nil {
			t.Fatal(err)
		}
		ask(Recipients{To: []string{"c", "d"}})
	})
}

// TestBroadcastHasOneHolder checks that a broadcast has one holder until the lease
// ends or the holder releases it.
func TestBroadcastHasOneHolder(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Now: now.Now})
		a, b := news("a"), news("b")
		add(t, s, a)
		add(t, s, b)
		wantClaim(t, s, "x", Claim{New: []Broadcast{a, b}})
		wantClaim(t, s, "y", Claim{})
		now.Advance(lease / 3)
		wantClaim(t, s, "x", Claim{})
		now.Advance(time.Millisecond)
		c := claim(t, s, "x")
		slices.Sort(c.Held)
		if diff := cmp.Diff(Claim{Held: []string{"a", "b"}}, c, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("leases past their first third: -want +got\n%s", diff)
		}
		if err := s.Broadcasts().Release(t.Context(), "x", "b"); err != nil {
			t.Fatal(err)
		}
		wantClaim(t, s, "y", Claim{New: []Broadcast{b}})
		now.Advance(lease - time.Millisecond)
		claim(t, s, "y")
		wantClaim(t, s, "z", Claim{})
		now.Advance(time.Millisecond)
		wantClaim(t, s, "z", Claim{New: []Broadcast{a}})
		// x has lost it and cannot change it.
		ahead := a
		ahead.Cursor, ahead.Queued, ahead.State = "c", 3, BroadcastDone
		if state, err := s.Broadcasts().Advance(t.Context(), "x", Progress{ahead, ""}); err != nil || state != "" {
			t.Errorf("Advance of a lost broadcast = %q, %v, want nothing", state, err)
		}
		if got, err := s.Broadcasts().Get(t.Context(), "a"); !cmp.Equal(got, a) || err != nil {
			t.Errorf("Broadcast(a) = %+v, %v, want it where it was", got, err)
		}
		if err := s.Broadcasts().Release(t.Context(), "z"); err != nil {
			t.Fatal(err)
		}
		wantClaim(t, s, "x", Claim{New: []Broadcast{a}})
	})
}

// TestClockAheadClaimsNothing checks that a core whose clock is ahead of PostgreSQL's takes
// no broadcast, neither a new one nor from one that works on it.
func TestClockAheadClaimsNothing(t *testing.T) {
	t.Parallel()
	dsn := roomstest.DSN(t)
	s := trio(t, Config{DatabaseURL: dsn})
	fast := open(t, Config{DatabaseURL: dsn, Now: func() time.Time { return time.Now().Add(2 * time.Hour) }})
	refuse := func(what string) {
		t.Helper()
		if c, err := fast.Broadcasts().Claim(t.Context(), "fast", lease); !errors.Is(err, ErrAhead) || len(c.New) > 0 {
			t.Errorf("Claim of %s two hours ahead = %v, %v, want %v", what, c.New, err, ErrAhead)
		}
	}
	b := news("n")
	b.Deadline = time.Now().Add(time.Hour)
	add(t, s, b)
	refuse("a new one")
	claim(t, s, "x")
	refuse("another's")
	if r, err := fast.Broadcasts().NextRecipients(t.Context(), "x", b, 1); !errors.Is(err, ErrAhead) {
		t.Errorf("NextRecipients of its own two hours ahead = %+v, %v, want %v", r, err, ErrAhead)
	}
	b.Cursor, b.Queued = "a", 1
	if state, err := s.Broadcasts().Advance(t.Context(), "x", Progress{b, ""}); state != BroadcastRunning || err != nil {
		t.Errorf("Advance by its holder = %q, %v, want %q", state, err, BroadcastRunning)
	}
}

// TestReleaseLocksInOrder checks that a release that waits for the first broadcast has
// locked none behind it.
func TestReleaseLocksInOrder(t *testing.T) {
	t.Parallel()
	dsn, name := roomstest.DSN(t), rand.Text()
	others := trio(t, Config{DatabaseURL: dsn, Now: func() time.Time { return noon }})
	s := open(t, Config{DatabaseURL: dsn + "&application_name=" + name})
	var ids []string
	for i := range 20 {
		b := news(string(rune('t' - i)))
		b.Created = noon.Add(time.Duration(i) * time.Second)
		ids = append(ids, b.ID)
		add(t, others, b)
	}
	claim(t, others, "x")
	for _, release := range [][]string{nil, ids} {
		ended := make(chan error, 1)
		err := others.inLongTx(t.Context(), func(ctx context.Context, tx transaction) error {
			const lock = `SELECT id FROM broadcasts WHERE id >= $1 AND id <= $2 ORDER BY id FOR UPDATE NOWAIT`
			if err := tx.run(ctx, query{sql: lock, args: []any{"a", "a"}}); err != nil {
				return err
			}
			go func() { ended <- s.Broadcasts().Release(t.Context(), "x", release...) }()
			for waits := false; !waits; {
				err := tx.run(ctx, query{sql: `SELECT pg_stat_clear_snapshot(), pg_sleep(0.02)`}, one(&waits,
					`SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`, []any{name}, new(int64)))
				if err != nil {
					return err
				}
			}
			return tx.commit(ctx, query{sql: lock, args: []any{"b", "t"}})
		})
		if err != nil {
			t.Errorf("lock of the others while Release(%v) waits for the first = %v, want nil", release, err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Release(%v) = %v, want nil", release, err)
		}
		if c := claim(t, others, "x"); len(c.New) != len(ids) {
			t.Errorf("after Release(%v) %d can be claimed, want %d", release, len(c.New), len(ids))
		}
	}
}

func TestAdvanceBroadcasts(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url, Now: func() time.Time { return noon }})
		for _, id := range []string{"a", "b", "c", "d"} {
			add(t, s, news(id))
		}
		claim(t, s, "h")
		if _, _, err := s.Broadcasts().Stop(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		to := func(id string, state BroadcastState, from string) Progress {
			b := news(id)
			b.Cursor, b.Queued, b.Due, b.State = "b", 2, noon.Add(time.Second), state
			return Progress{b, from}
		}
		progress := []Progress{
			to("d", BroadcastRunning, "elsewhere"), to("c", BroadcastRunning, ""), to("b", BroadcastDone, ""), to("a", BroadcastRunning, ""),
		}
		want := []BroadcastState{"", BroadcastStopped, BroadcastDone, BroadcastRunning}
		for range 2 { // the second time changes nothing
			for i, p := range progress {
				if got, err := s.Broadcasts().Advance(t.Context(), "h", p); got != want[i] || err != nil {
					t.Errorf("Advance(%s) = %q, %v, want %q", p.ID, got, err, want[i])
				}
			}
			for i, state := range []BroadcastState{BroadcastRunning, BroadcastStopped, BroadcastDone, BroadcastRunning} {
				b := progress[i].Broadcast
				b.State = state
				if i == 0 {
					b = news("d")
				}
				if got, err := s.Broadcasts().Get(t.Context(), b.ID); !cmp.Equal(got, b) || err != nil {
					t.Errorf("Broadcast(%s) = %+v, %v, want %+v", b.ID, got, err, b)
				}
			}
		}
	})
}

// TestBroadcastsAreSharedOut checks that each broadcast has one holder while
// several stores claim and advance at once.
func TestBroadcastsAreSharedOut(t *testing.T) {
	t.Parallel()
	onEach(t, shared(), func(t *testing.T, url string) {
		stores := make([]*Store, 4)
		for i := range stores {
			stores[i] = open(t, Config{DatabaseURL: url, Now: func() time.Time { return noon }})
		}
		const broadcasts = 250
		for i := range broadcasts {
			add(t, stores[0], news(fmt.Sprint(i)))
		}
		var mu sync.Mutex
		holders := map[string]int{}
		var wg sync.WaitGroup
		for i, s := range stores {
			wg.Go(func() {
				for {
					var c Claim
					err := patiently(func() (err error) { c, err = s.Broadcasts().Claim(t.Context(), fmt.Sprint(i), lease); return err })
					if err != nil {
						t.Errorf("Claim = %v, want nil", err)
						return
					}
					if len(c.New) == 0 {
						return
					}
					for _, b := range c.New {
						mu.Lock()
						holders[b.ID]++
						mu.Unlock()
						b.Cursor = "a"
						if state, err := s.Broadcasts().Advance(t.Context(), fmt.Sprint(i), Progress{b, ""}); err != nil || state == "" {
							t.Errorf("Advance(%s) = %q, %v, want it advanced", b.ID, state, err)
						}
					}
				}
			})
		}
		wg.Wait()
		for id, n := range holders {
			if n != 1 {
				t.Errorf("broadcast %s was claimed %d times, want once", id, n)
			}
		}
		for len(holders) < broadcasts { // those that another store had locked
			c := claim(t, stores[0], "last")
			if len(c.New) == 0 {
				t.Fatalf("broadcasts claimed = %d, want %d", len(holders), broadcasts)
			}
			for _, b := range c.New {
				holders[b.ID]++
			}
		}
	})
}
