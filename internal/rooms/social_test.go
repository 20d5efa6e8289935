package rooms

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/command"
)

// trio returns a store with a, b and c in room 1, whose names are Ana, Bo and Cy.
func trio(t testing.TB, cfg Config) *Store {
	t.Helper()
	s := open(t, cfg)
	for user, name := range map[string]string{"a": "Ana", "b": "Bo", "c": "Cy"} {
		does(t, s, user, command.Name, name)
	}
	for _, user := range []string{"a", "b", "c"} {
		says(t, s, user)
	}
	return s
}

func wantRelay(t testing.TB, what string, s *Store, user, want string) {
	t.Helper()
	if got := strings.Join(says(t, s, user).Relay, ""); got != want {
		t.Errorf("copies %s of what %s writes go to %q, want %q", what, user, got, want)
	}
}

func TestBlock(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url})
		check := func(kind command.Kind, arg string, notice Notice, subject string) {
			t.Helper()
			if got := does(t, s, "a", kind, arg); got.Notice != notice || got.Subject != subject {
				t.Errorf("%v %s = %s about %q, want %s about %q", kind, arg, got.Notice, got.Subject, notice, subject)
			}
		}
		check(command.Block, "ana", Oneself, "Ana")
		check(command.Block, "Di", NoMember, "Di")
		check(command.Unblock, "Bo", NotBlocked, "Bo")
		check(command.Block, "BO", Blocked, "Bo")
		check(command.Block, "bo", Blocked, "Bo")
		wantRelay(t, "after the block", s, "b", "c")
		wantRelay(t, "after the block", s, "a", "c")
		wantRelay(t, "after the block", s, "c", "ab")

		// The block holds after either of them changes its name or room.
		does(t, s, "b", command.Name, "Di")
		does(t, s, "b", command.Join, "x")
		does(t, s, "a", command.Join, "x")
		wantRelay(t, "in another room", s, "b", "")
		wantRelay(t, "in another room", s, "a", "")
		if err := s.Gone(t.Context(), "p", "b", noon); err != nil {
			t.Fatal(err)
		}
		wantRelay(t, "after coming back", s, "b", "")

		check(command.Unblock, "bo", Unblocked, "bo") // by the old name
		wantRelay(t, "after that is undone", s, "b", "a")
		check(command.Block, "di", Blocked, "Di")
		check(command.Unblock, "DI", Unblocked, "DI") // by the new name
		wantRelay(t, "after that is undone", s, "a", "b")
	})
}

func TestMute(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url})
		mute := func(id string, d time.Duration) Result {
			t.Helper()
			return receive(t, s, Event{User: "b", ID: id, Command: command.Command{Kind: command.Mute, For: d}})
		}
		want := Result{Room: public(1), Name: "Bo", Notice: Muted, Until: noon.Add(time.Hour)}
		if diff := cmp.Diff(want, mute("1", time.Hour)); diff != "" {
			t.Errorf("Mute: -want +got\n%s", diff)
		}
		wantRelay(t, "while b is mute", s, "a", "c")
		wantRelay(t, "while b is mute", s, "b", "ac")
		for after, want := range map[time.Duration]string{time.Hour - time.Millisecond: "c", time.Hour: "bc"} {
			got := strings.Join(receive(t, s, Event{User: "a", ID: after.String(), At: noon.Add(after)}).Relay, "")
			if got != want {
				t.Errorf("copies %v after b became mute go to %q, want %q", after, got, want)
			}
		}
		if got := mute("2", 0).Notice; got != Unmuted {
			t.Errorf("Mute for 0 = %s, want %s", got, Unmuted)
		}
		wantRelay(t, "afterwards", s, "a", "bc")
	})
}

// TestReport checks that a user's reports of another are one report, with the
// data of the last.
func TestReport(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Now: now.Now})
		report := func(user, id, name string) {
			t.Helper()
			receive(t, s, Event{User: user, ID: id, Command: wish(command.Report, name)})
			now.Advance(time.Second)
		}
		if got := does(t, s, "b", command.Report, "ana"); got.Notice != Reported || got.Subject != "Ana" {
			t.Errorf("Report = %s about %q, want %s about Ana", got.Notice, got.Subject, Reported)
		}
		now.Advance(time.Second)
		for _, id := range []string{"1", "2"} {
			report("a", id, "bo")
			report("c", "c"+id, "Ana")
		}
		does(t, s, "b", command.Name, "Bob")
		report("a", "3", "bob")
		all := []ReportView{
			{ID: "1", Page: "p", Reporter: "a", Accused: "b", Name: "Bob", Room: 1, Times: 3, At: noon.Add(5 * time.Second), Texts: []ReportedText{}},
			{ID: "c1", Page: "p", Reporter: "c", Accused: "a", Name: "Ana", Room: 1, Times: 2, At: noon.Add(4 * time.Second), Texts: []ReportedText{}},
			{Page: "p", Reporter: "b", Accused: "a", Name: "Ana", Room: 1, Times: 1, At: noon, Texts: []ReportedText{}},
		}
		want := func(what string, after ReportView, limit int, want ...ReportView) {
			t.Helper()
			got, err := s.Reports(t.Context(), "p", after, limit)
			for i := range got {
				if got[i].Reporter == "b" {
					got[i].ID = ""
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("Reports %s = %v: -want +got\n%s", what, err, diff)
			}
		}
		want("at first", ReportView{}, 2, all[:2]...)
		want("behind those", all[1], 2, all[2:]...)

		// An event is repeated after it was pruned.
		now.Advance(reportsKept - 3*time.Second)
		if _, err := s.Prune(t.Context(), now.Now()); err != nil {
			t.Fatal(err)
		}
		want("after the old ones were pruned", ReportView{}, 10, all[:2]...)
		report("a", "1", "bob")
		report("a", "c1", "Cy")
		if got, err := s.Reports(t.Context(), "p", ReportView{}, 10); len(got) != 2 || err != nil {
			t.Errorf("Reports after repeated events = %+v, %v, want two", got, err)
		}
	})
}

// TestFlood checks an allowance of three events at once and one more every second. The user
// is told at most once a minute.
func TestFlood(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url, FloodLimit: 3, FloodPeriod: 3 * time.Second})
		for _, step := range []struct {
			after time.Duration // since noon, when a has already written two
			relay string
			want  Notice
		}{
			{0, "bc", Silence},
			{0, "", Flooding},
			{0, "", Silence},
			{999 * time.Millisecond, "", Silence},
			{time.Second, "bc", Silence}, // one more, but the allowance is not full yet
			{time.Second, "", Silence},
			{4 * time.Second, "bc", Silence}, // the allowance is full: three again
			{4 * time.Second, "bc", Silence},
			{4 * time.Second, "bc", Silence},
			{4 * time.Second, "", Silence}, // told less than a minute ago
			{time.Minute, "bc", Silence},
			{time.Minute, "bc", Silence},
			{time.Minute, "bc", Silence},
			{time.Minute, "", Flooding},
		} {
			ev := Event{User: "a", At: noon.Add(step.after)}
			ev.ID = step.after.String() + time.Now().String()
			got := receive(t, s, ev)
			if relay := strings.Join(got.Relay, ""); relay != step.relay || got.Notice != step.want || got.Rejected != (relay == "") || got.Rejected != (got.Why == Flood) {
				t.Errorf("message after %v goes to %q, %q, rejected %v by %q, want %q, %q", step.after, relay, got.Notice, got.Rejected, got.Why, step.relay, step.want)
			}
			if until := ev.At.Add(3 * time.Second); step.want == Flooding && !got.Until.Equal(until) {
				t.Errorf("flood after %v lasts until %v, want %v", step.after, got.Until, until)
			}
		}
		wantRelay(t, "of a flood of another", s, "b", "ac")
	})
}

// TestShare checks a tenth of the page's limits: 1 s of each at once, and what
// takes longer only when nothing is owed. Texts, media and commands do not wait
// for one another, and each user has a share of its own.
func TestShare(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url, FloodShare: 10})
		n := 0
		event := func(after time.Duration, user string) Event {
			n++
			return Event{User: user, ID: "share" + strconv.Itoa(n), At: noon.Add(after)}
		}
		for _, step := range []struct {
			after        time.Duration // since noon
			texts, media time.Duration // of the limit, that a copy to one member takes
			want         Notice
			rejected     bool
		}{
			// A text to 99 members takes 0.33 s: three at once, and one each 3.3 s.
			{0, 165 * time.Millisecond, 0, Silence, false},
			{0, 165 * time.Millisecond, 0, Silence, false},
			{0, 165 * time.Millisecond, 0, Silence, false},
			{0, 165 * time.Millisecond, 0, FloodingTexts, true},
			{3 * time.Second, 165 * time.Millisecond, 0, Silence, true},                          // told once
			{3200 * time.Millisecond, 165 * time.Millisecond, 0, Silence, false},                 // 9.9 s − 3.2 s + 3.3 s
			{3200 * time.Millisecond, time.Microsecond, 4950 * time.Millisecond, Silence, false}, // a voice message to 99
			{3200 * time.Millisecond, time.Microsecond, 50 * time.Millisecond, Silence, true},    // told of texts a moment ago
			{102100 * time.Millisecond, 165 * time.Millisecond, 0, Silence, false},               // texts go on
			{102100 * time.Millisecond, time.Microsecond, 4950 * time.Millisecond, FloodingMedia, true},
			{102200 * time.Millisecond, time.Microsecond, 4950 * time.Millisecond, Silence, false}, // 99 s later
			{102200 * time.Millisecond, time.Microsecond, 4950 * time.Millisecond, Silence, true},
		} {
			ev := event(step.after, "a")
			ev.Time = func(copies int) (time.Duration, time.Duration) {
				return time.Duration(copies) * step.texts, time.Duration(copies) * step.media
			}
			if got := receive(t, s, ev); got.Notice != step.want || got.Rejected != step.rejected || got.Rejected != (got.Why == Share) {
				t.Errorf("message %d after %v: %q, rejected %v, want %q, %v", n, step.after, got.Notice, got.Rejected, step.want, step.rejected)
			}
		}
		// A command is no copy, and passes; so does what another writes.
		ev := event(102200*time.Millisecond, "a")
		ev.Command = wish(command.Who, "")
		if got := receive(t, s, ev); got.Notice != Members {
			t.Errorf("/who of a user who has used its share: %q, want %q", got.Notice, Members)
		}
		ev = event(102200*time.Millisecond, "b")
		ev.Time = func(int) (time.Duration, time.Duration) { return time.Second, 5 * time.Second }
		if got := receive(t, s, ev); got.Rejected {
			t.Error("what another user wrote is rejected")
		}
		// Who comes into a room by writing pays for the copies there.
		ev = event(102200*time.Millisecond, "d")
		ev.Time = func(copies int) (time.Duration, time.Duration) { return time.Duration(copies) * time.Second, 0 }
		if got := receive(t, s, ev); len(got.Relay) != 3 {
			t.Errorf("the first message of a user goes to %v, want three", got.Relay)
		}
		ev.ID += "again"
		if got := receive(t, s, ev); got.Notice != FloodingTexts {
			t.Errorf("the second message of a user: %q, want %q", got.Notice, FloodingTexts)
		}
		// Nor does it come in by writing while it owes for that, if it leaves.
		leaving := event(102200*time.Millisecond, "d")
		leaving.Command = wish(command.Leave, "")
		if got := receive(t, s, leaving); got.Notice != Left {
			t.Errorf("/leave of a user who has used its share: %q, want %q", got.Notice, Left)
		}
		ev.ID += "again"
		if got := receive(t, s, ev); !got.Rejected || got.Joined {
			t.Errorf("a message of a user who left: rejected %v, joined %v, want true, false", got.Rejected, got.Joined)
		}
	})
}

// TestLateIsNoFlood checks that an event older than its user's latest by more than
// the period is no flood. After an outage events come in any order.
func TestLateIsNoFlood(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url, FloodLimit: 3, FloodPeriod: 3 * time.Second})
		n := 0
		for _, after := range []time.Duration{
			20 * time.Second, 10 * time.Second, 15 * time.Second,
			20 * time.Second, 20 * time.Second, 16 * time.Second, // after those of 20 s the allowance is used up
		} {
			n++
			got := receive(t, s, Event{User: "a", ID: strconv.Itoa(n), At: noon.Add(after)})
			if relay := strings.Join(got.Relay, ""); relay != "bc" || got.Rejected {
				t.Errorf("message after %v goes to %q, rejected %v, want bc, false", after, relay, got.Rejected)
			}
		}
	})
}

// TestLang checks that a user's language is the last one of its events.
func TestLang(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url})
		for i, step := range []struct{ lang, want string }{{"", ""}, {"pt", "pt"}, {"", "pt"}, {"es", "es"}} {
			if got := receive(t, s, Event{User: "a", ID: string(rune('a' + i)), Lang: step.lang, Command: wish(command.Help, "")}).Lang; got != step.want {
				t.Errorf("language after %q = %q, want %q", step.lang, got, step.want)
			}
		}
	})
}

func TestIdle(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Idle: time.Hour, Now: now.Now})
		now.Advance(time.Hour - time.Millisecond)
		if got, err := s.SilentMembers(t.Context(), Silent{}); len(got) != 0 || err != nil {
			t.Errorf("SilentMembers() too early = %v, %v, want none", got, err)
		}
		idle := func(at time.Time) Result {
			t.Helper()
			return receive(t, s, Event{User: "b", ID: at.String(), At: at, Idle: true})
		}
		if got := idle(now.Now()).Notice; got != Silence {
			t.Errorf("Idle too early = %s, want nothing", got)
		}
		now.Advance(time.Millisecond)
		receive(t, s, Event{User: "a", ID: "awake", At: now.Now()})
		receive(t, s, Event{User: "c", ID: "awake too", At: now.Now()})
		got, err := s.SilentMembers(t.Context(), Silent{})
		want := []Silent{{Page: "p", User: "b", Since: noon.Local()}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("SilentMembers() = %v: -want +got\n%s", err, diff)
		}
		if diff := cmp.Diff(Result{Room: public(1), Name: "Bo", Notice: LeftIdle}, idle(now.Now())); diff != "" {
			t.Errorf("Idle: -want +got\n%s", diff)
		}
		wantRelay(t, "after b left", s, "a", "c")
		if got := idle(now.Now().Add(time.Second)).Notice; got != Silence {
			t.Errorf("Idle of a user who left = %s, want nothing", got)
		}
		// Outside of the platform's window the user cannot be told.
		late := noon.Add(25 * time.Hour)
		if got := receive(t, s, Event{User: "a", ID: "late", At: late, Idle: true}); got.Notice != Silence {
			t.Errorf("Idle of a user outside the window = %s, want nothing", got.Notice)
		}
		if diff := cmp.Diff(map[int]int{1: 1}, count(t, s, `SELECT number, members FROM rooms`)); diff != "" {
			t.Errorf("members: -want +got\n%s", diff)
		}
	})
}

// TestIdleOfTwoCores: while ROOM_IDLE is changed core by core, one that has the longer time
// gets the event of one that has the shorter. That one can act on it all the same.
func TestIdleOfTwoCores(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Idle: 20 * time.Hour, Now: now.Now})
		now.Advance(2 * time.Hour)
		ev := Event{Page: "p", User: "b", ID: "idle/b", At: now.Now(), Idle: true}
		for _, row := range []struct {
			idle time.Duration
			want Notice
		}{{20 * time.Hour, Silence}, {time.Hour, LeftIdle}, {time.Hour, LeftIdle}} {
			s.cfg.Idle = row.idle
			if got := receive(t, s, ev).Notice; got != row.want {
				t.Errorf("idle with ROOM_IDLE %v = %s, want %s", row.idle, got, row.want)
			}
			if row.want == Silence {
				if err := s.Done(t.Context(), "p", ev.ID); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestSilentMembersInParts checks that the members behind the first thousand are
// found too.
func TestSilentMembersInParts(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Idle: time.Hour})
		write(t, s, `INSERT INTO pages (page, guests) VALUES ('p', 0)`)
		write(t, s, `INSERT INTO rooms (page, number, members, created_at) VALUES ('p', 1, 0, 0)`)
		const silent = 2*batch + 1
		const numbers = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) `
		write(t, s, numbers+`
			INSERT INTO people (page, psid, name, lang, last_inbound, last_number, last_code, muted_until, banned_until, ban_told, flood_at, flood_told)
			SELECT 'p', 'u' || i, '', '', 0, 1, '', 0, 0, 0, 0, 0 FROM n`, int64(silent))
		write(t, s, numbers+`INSERT INTO members (page, room, psid, name, name_key, joined_at) SELECT 'p', 1, 'u' || i, '', 'u' || i, 0 FROM n`,
			int64(silent))
		found := map[string]bool{}
		for last := (Silent{}); ; {
			got, err := s.SilentMembers(t.Context(), last)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) == 0 {
				break
			}
			for _, m := range got {
				found[m.User] = true
			}
			last = got[len(got)-1]
		}
		if len(found) != silent {
			t.Errorf("silent members = %d, want %d", len(found), silent)
		}
	})
}
