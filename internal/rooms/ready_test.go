package rooms

import (
	"strconv"
	"testing"

	"chatclub/internal/rooms/roomstest"
)

// TestPingFollowsWrites checks that Ping fails while a database answers and takes no
// writes, once one has failed, and that it recovers without another event.
func TestPingFollowsWrites(t *testing.T) {
	t.Parallel()
	set := func(t *testing.T, s *Store, sql string) {
		t.Helper()
		if err := s.do(t.Context(), query{sql: sql}); err != nil {
			t.Fatal(err)
		}
	}
	p := roomstest.NewPair(t)
	for _, tt := range []struct {
		name, url    string
		sicken, heal func(*testing.T, *Store)
	}{
		{
			"full disk", "sqlite::memory:",
			func(t *testing.T, s *Store) { t.Helper(); set(t, s, `PRAGMA max_page_count = 1`) }, // no more than there are
			func(t *testing.T, s *Store) { t.Helper(); set(t, s, `PRAGMA max_page_count = 100000`) },
		},
		{
			"standby", p.URL(),
			func(t *testing.T, _ *Store) { t.Helper(); p.Demote(t) },
			func(t *testing.T, _ *Store) { t.Helper(); p.Promote(t) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{DatabaseURL: tt.url, MaxConns: 1})
			says(t, s, "a")
			wantPing := func(when string, want bool) {
				t.Helper()
				if err := s.Ping(t.Context()); (err == nil) != want {
					t.Errorf("Ping() %s = %v, want %v", when, err, map[bool]string{true: "nil", false: "an error"}[want])
				}
			}
			wantPing("at first", true)
			tt.sicken(t, s)
			var err error
			for n := 0; err == nil; n++ { // a page of the database may have room for some
				if n == 1000 {
					t.Fatal("Receive() still succeeds")
				}
				_, err = s.Receive(t.Context(), Event{Page: "p", User: "a", ID: strconv.Itoa(n), At: noon})
			}
			wantPing("after a failed write", false)
			wantPing("still", false)
			tt.heal(t, s)
			wantPing("when writes succeed again", true)
			says(t, s, "a")
			if tt.name == "full disk" { // a standby ends the session
				tt.sicken(t, s)
				wantPing("that only asks, since nothing has failed", true)
			}
		})
	}
}
