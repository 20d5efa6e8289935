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
	for _, tt := range []struct {
		name, url    string
		sicken, heal string
	}{
		{
			"full disk", "sqlite::memory:",
			`PRAGMA max_page_count = 1`, // no more than there are
			`PRAGMA max_page_count = 100000`,
		},
		{
			"standby", roomstest.DSN(t),
			`SET default_transaction_read_only = on`,
			`SET default_transaction_read_only = off`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{DatabaseURL: tt.url, MaxConns: 1}) // the settings are the connection's
			says(t, s, "a")
			set := func(sql string) {
				t.Helper()
				if err := s.do(t.Context(), query{sql: sql}); err != nil {
					t.Fatal(err)
				}
			}
			wantPing := func(when string, want bool) {
				t.Helper()
				if err := s.Ping(t.Context()); (err == nil) != want {
					t.Errorf("Ping() %s = %v, want %v", when, err, map[bool]string{true: "nil", false: "an error"}[want])
				}
			}
			wantPing("at first", true)
			set(tt.sicken)
			var err error
			for n := 0; err == nil; n++ { // a page of the database may have room for some
				if n == 1000 {
					t.Fatal("Receive() still succeeds")
				}
				_, err = s.Receive(t.Context(), Event{Page: "p", User: "a", ID: strconv.Itoa(n), At: noon})
			}
			wantPing("after a failed write", false)
			wantPing("still", false)
			set(tt.heal)
			wantPing("when writes succeed again", true)
			says(t, s, "a")
			set(tt.sicken)
			wantPing("that only asks, since nothing has failed", true)
		})
	}
}
