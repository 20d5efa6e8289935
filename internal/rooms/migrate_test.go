package rooms

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMigrateKeeps: users, places and names of a database of version 1 are
// there afterwards.
func TestMigrateKeeps(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s, err := Open(Config{DatabaseURL: url, Capacity: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if err := s.migrate(t.Context(), []string{"migrations/0001_rooms.sql"}); err != nil {
			t.Fatal(err)
		}
		write(t, s, `INSERT INTO pages (page, guests) VALUES ('p', 2)`)
		write(t, s, `INSERT INTO rooms (page, number, members, created_at) VALUES ('p', 1, 2, 0)`)
		for psid, name := range map[string]string{"a": "Guest 1", "b": "Guest 2"} {
			write(t, s, `INSERT INTO users (page, psid, name, last_inbound) VALUES ('p', $1, $2, $3)`, psid, name, noon.UnixMilli())
			write(t, s, `INSERT INTO memberships (page, room, psid, joined_at) VALUES ('p', 1, $1, 0)`, psid)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatalf("Migrate() = %v, want nil", err)
		}
		if diff := cmp.Diff(Result{Room: public(1), Name: "Guest 1", Relay: []string{"b"}}, says(t, s, "a")); diff != "" {
			t.Errorf("message of a member of old: -want +got\n%s", diff)
		}
		if diff := cmp.Diff(Result{Joined: true, Room: public(2), Name: "Guest 3", Notice: Welcome}, says(t, s, "c")); diff != "" {
			t.Errorf("message of a newcomer: -want +got\n%s", diff)
		}
		if got := does(t, s, "a", Rename, "guest 2").Notice; got != NameTaken {
			t.Errorf("Rename to an old name = %q, want %q", got, NameTaken)
		}
	})
}
