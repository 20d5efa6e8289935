package rooms

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/command"
)

func public(n int) Room { return Room{Number: n} }

func TestRelayIsSorted(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url})
		for _, user := range []string{"b", "10", "B", "9", "ä"} {
			says(t, s, user)
		}
		if diff := cmp.Diff([]string{"10", "9", "B", "b", "ä"}, says(t, s, "c").Relay); diff != "" {
			t.Errorf("Relay: -want +got\n%s", diff)
		}
	})
}

// TestJoin checks that a user gets into the room that it asks for.
func TestJoin(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Capacity: 2})
		for _, user := range []string{"a", "b", "c"} {
			says(t, s, user) // a and b in room 1, c in room 2
		}
		jazz := Room{Number: 1_000_000_001, Code: "jazz"}
		for _, step := range []struct {
			user, arg string
			want      Result
		}{
			{"a", "", Result{Room: public(1), Name: "Guest 1", Notice: Here, Count: 1}},
			{"a", "1", Result{Room: public(1), Name: "Guest 1", Notice: Already}},
			{"a", "9", Result{Room: public(1), Name: "Guest 1", Notice: NoRoom, Subject: "9"}},
			{"a", "-1", Result{Room: public(1), Name: "Guest 1", Notice: NoRoom, Subject: "-1"}},
			{"z", "0", Result{Notice: NoRoom, Subject: "0"}}, // z is in no room
			{"z", "-00", Result{Notice: NoRoom, Subject: "-00"}},
			{"a", "jazz", Result{Joined: true, Room: jazz, Name: "Guest 1", Notice: Welcome}},
			{"a", "jazz", Result{Room: jazz, Name: "Guest 1", Notice: Already}},
			{"a", "1000000001", Result{Room: jazz, Name: "Guest 1", Notice: NoRoom, Subject: "1000000001"}}, // a code is a secret
			{"b", "jazz", Result{Joined: true, Room: jazz, Name: "Guest 2", Notice: Welcome, Count: 1}},
			{"c", "jazz", Result{Joined: true, Room: Room{Number: 1_000_000_002, Code: "jazz"}, Name: "Guest 3", Notice: Welcome}},
			{"d", "1", Result{Joined: true, Room: public(1), Name: "Guest 4", Notice: Welcome}},
			{"a", "1", Result{Joined: true, Room: public(1), Name: "Guest 1", Notice: Welcome, Count: 1}},
			{"b", "1", Result{Joined: true, Room: public(2), Name: "Guest 2", Notice: Welcome, Subject: "1"}},
			{"b", "1", Result{Room: public(2), Name: "Guest 2", Notice: Already, Subject: "1"}}, // where it is already
			{"e", "", Result{Joined: true, Room: public(2), Name: "Guest 5", Notice: Welcome, Count: 1}},
		} {
			got := does(t, s, step.user, command.Join, step.arg)
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("%s joins %q: -want +got\n%s", step.user, step.arg, diff)
			}
		}
		if diff := cmp.Diff(map[int]int{1: 2, 2: 2, 1_000_000_002: 1}, count(t, s, `SELECT number, members FROM rooms`)); diff != "" {
			t.Errorf("rooms, without the emptied one of a code: -want +got\n%s", diff)
		}
	})
}

// TestComeBack checks a user whose room is full when it comes back. It joins the
// next room with a free place, and after the highest the lowest. A new room opens
// only if all are full.
func TestComeBack(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Capacity: 1})
		for _, user := range []string{"a", "b", "c"} {
			says(t, s, user)
		}
		for i, step := range []struct {
			leave, back string
			want        int
		}{
			{"b", "d", 2}, // a newcomer, in the lowest free one
			{"c", "b", 3}, // from 2 on
			{"a", "c", 1}, // was in 3
			{"", "a", 4},  // was in 1, and all are full
		} {
			if step.leave != "" {
				does(t, s, step.leave, command.Leave, "")
			}
			if got := says(t, s, step.back).Room; got != public(step.want) {
				t.Errorf("step %d: room of %s = %v, want %d", i, step.back, got, step.want)
			}
		}
	})
}

// TestLeave checks that a user who left gets no copies, and comes back into its
// old room.
func TestLeave(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Capacity: 2})
		for _, user := range []string{"a", "b", "c"} {
			says(t, s, user)
		}
		want := Result{Room: public(1), Name: "Guest 1", Notice: Left}
		if diff := cmp.Diff(want, does(t, s, "a", command.Leave, "")); diff != "" {
			t.Errorf("Leave: -want +got\n%s", diff)
		}
		for _, kind := range []command.Kind{command.Leave, command.Who} {
			if got := does(t, s, "a", kind, "Guest 2").Notice; got != Nowhere {
				t.Errorf("%v of a user who is in no room = %q, want %q", kind, got, Nowhere)
			}
		}
		if got := says(t, s, "b").Relay; len(got) != 0 {
			t.Errorf("copies after a left = %v, want none", got)
		}
		want = Result{Joined: true, Room: public(1), Name: "Guest 1", Notice: Welcome, Count: 1, Relay: []string{"b"}}
		if diff := cmp.Diff(want, says(t, s, "a")); diff != "" {
			t.Errorf("message after Leave: -want +got\n%s", diff)
		}
		does(t, s, "c", command.Leave, "")
		want = Result{Joined: true, Room: public(2), Name: "Guest 3", Notice: Welcome}
		if diff := cmp.Diff(want, does(t, s, "c", command.Start, "")); diff != "" {
			t.Errorf("Start after Leave: -want +got\n%s", diff)
		}
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Capacity: 3})
		says(t, s, "a")
		says(t, s, "b")
		check := func(what string, got Result, notice Notice, name, subject string) {
			t.Helper()
			if got.Notice != notice || got.Name != name || got.Subject != subject {
				t.Errorf("%s = %s, name %q, subject %q, want %s, %q, %q", what, got.Notice, got.Name, got.Subject, notice, name, subject)
			}
		}
		check("a becomes Ana", does(t, s, "a", command.Name, "Ana"), Renamed, "Ana", "")
		check("b becomes ANA", does(t, s, "b", command.Name, "ANA"), NameTaken, "Guest 2", "ANA")
		check("a becomes ana", does(t, s, "a", command.Name, "ana"), Renamed, "ana", "")
		check("c outside wants Ana", does(t, s, "c", command.Name, "Ana"), Renamed, "Ana", "")
		check("c comes in", says(t, s, "c"), Welcome, "Ana 2", "")
		if diff := cmp.Diff([]string{"Ana 2", "Guest 2", "ana"}, does(t, s, "a", command.Who, "").Names); diff != "" {
			t.Errorf("Who: -want +got\n%s", diff)
		}
		check("c goes elsewhere", does(t, s, "c", command.Join, "x"), Welcome, "Ana", "")
		long := "Maximiliano Alejandro Gutierrez"[:30]
		does(t, s, "a", command.Name, long)
		does(t, s, "c", command.Name, long)
		check("a long name", does(t, s, "c", command.Join, "1"), Welcome, "Maximiliano Alejandro Gutier 2", "")
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Capacity: 2})
		if diff := cmp.Diff(Result{Notice: RoomList}, does(t, s, "z", command.Rooms, "")); diff != "" {
			t.Errorf("List of a new page: -want +got\n%s", diff)
		}
		for i := range 25 {
			says(t, s, fmt.Sprintf("u%02d", i)) // rooms 1 to 12 are full, 13 is not
		}
		does(t, s, "y", command.Join, "secret")
		want := Result{Notice: RoomList, Count: 13, Rooms: []Listed{{13, 1}}}
		for n := 1; n < 10; n++ {
			want.Rooms = append(want.Rooms, Listed{n, 2})
		}
		if diff := cmp.Diff(want, does(t, s, "z", command.Rooms, "")); diff != "" {
			t.Errorf("List: -want +got\n%s", diff)
		}
	})
}

// TestWindow checks that the window is measured by the platform's clock.
func TestWindow(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Capacity: 2})
		at := func(user, id string, at time.Time) []string {
			t.Helper()
			return receive(t, s, Event{User: user, ID: id, At: at}).Relay
		}
		at("b", "1", noon)
		at("a", "2", noon)
		for _, step := range []struct {
			user  string
			after time.Duration
			want  []string
		}{
			{"a", 24*time.Hour - time.Millisecond, []string{"b"}},
			{"a", 24 * time.Hour, nil},
			{"c", 24 * time.Hour, nil}, // in the next room, because b stays a member
			{"b", 25 * time.Hour, []string{"a"}},
			{"a", 25 * time.Hour, []string{"b"}},
		} {
			if got := at(step.user, step.user+step.after.String(), noon.Add(step.after)); !cmp.Equal(got, step.want) {
				t.Errorf("copies of what %s writes after %v = %v, want %v", step.user, step.after, got, step.want)
			}
		}
	})
}
