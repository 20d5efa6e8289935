package rooms

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// trio are a, b and c in room 1, called Ana, Bo and Cy.
func trio(t testing.TB, cfg Config) *Store {
	t.Helper()
	s := open(t, cfg)
	for user, name := range map[string]string{"a": "Ana", "b": "Bo", "c": "Cy"} {
		does(t, s, user, Rename, name)
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
		check := func(a Action, arg string, notice Notice, subject string) {
			t.Helper()
			if got := does(t, s, "a", a, arg); got.Notice != notice || got.Subject != subject {
				t.Errorf("action %d about %s = %s about %q, want %s about %q", a, arg, got.Notice, got.Subject, notice, subject)
			}
		}
		check(Block, "ana", Oneself, "Ana")
		check(Block, "Di", NoMember, "Di")
		check(Unblock, "Bo", NotBlocked, "Bo")
		check(Block, "BO", Blocked, "Bo")
		check(Block, "bo", Blocked, "Bo")
		wantRelay(t, "after the block", s, "b", "c")
		wantRelay(t, "after the block", s, "a", "c")
		wantRelay(t, "after the block", s, "c", "ab")

		// It holds whatever both do.
		does(t, s, "b", Rename, "Di")
		does(t, s, "b", Join, "x")
		does(t, s, "a", Join, "x")
		wantRelay(t, "in another room", s, "b", "")
		wantRelay(t, "in another room", s, "a", "")
		if err := s.Gone(t.Context(), "p", "b", noon); err != nil {
			t.Fatal(err)
		}
		wantRelay(t, "after coming back", s, "b", "")

		check(Unblock, "bo", Unblocked, "bo") // by the name of then
		wantRelay(t, "after that is undone", s, "b", "a")
		check(Block, "di", Blocked, "Di")
		check(Unblock, "DI", Unblocked, "DI") // by the name of now
		wantRelay(t, "after that is undone", s, "a", "b")
	})
}

func TestMute(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url})
		mute := func(id string, d time.Duration) Result {
			t.Helper()
			return receive(t, s, Event{User: "b", ID: id, Action: Mute, For: d})
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

func TestReport(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Now: now.Now})
		if got := does(t, s, "a", Report, "bo"); got.Notice != Reported || got.Subject != "Bo" {
			t.Errorf("Report = %s about %q, want %s about Bo", got.Notice, got.Subject, Reported)
		}
		now.Advance(time.Second)
		does(t, s, "c", Report, "Ana")
		got, err := s.Reports(t.Context(), "p", 10)
		want := []ReportView{
			{Page: "p", Reporter: "c", Accused: "a", Name: "Ana", Room: 1, At: noon.Add(time.Second)},
			{Page: "p", Reporter: "a", Accused: "b", Name: "Bo", Room: 1, At: noon},
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Reports() = %v: -want +got\n%s", err, diff)
		}
	})
}

// TestFlood: three at once and one more every second.
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
			{0, "", Flooding}, // told once
			{0, "", Silence},
			{999 * time.Millisecond, "", Silence},
			{time.Second, "bc", Silence}, // one more, but not calm yet
			{time.Second, "", Silence},
			{4 * time.Second, "bc", Silence}, // calm: all three again
			{4 * time.Second, "bc", Silence},
			{4 * time.Second, "bc", Silence},
			{4 * time.Second, "", Flooding},
		} {
			ev := Event{User: "a", At: noon.Add(step.after)}
			ev.ID = step.after.String() + time.Now().String()
			got := receive(t, s, ev)
			if relay := strings.Join(got.Relay, ""); relay != step.relay || got.Notice != step.want || got.Held != (relay == "") {
				t.Errorf("message after %v goes to %q, %q, held %v, want %q, %q", step.after, relay, got.Notice, got.Held, step.relay, step.want)
			}
			if until := ev.At.Add(3 * time.Second); step.want == Flooding && !got.Until.Equal(until) {
				t.Errorf("flood after %v lasts until %v, want %v", step.after, got.Until, until)
			}
		}
		wantRelay(t, "of a flood of another", s, "b", "ac")
	})
}

// TestLateIsNoFlood: after an outage events come in any order; one that is
// older than others of its user by more than the period is no flood.
func TestLateIsNoFlood(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url, FloodLimit: 3, FloodPeriod: 3 * time.Second})
		for _, after := range []time.Duration{20 * time.Second, 10 * time.Second, 15 * time.Second} {
			got := receive(t, s, Event{User: "a", ID: after.String(), At: noon.Add(after)})
			if relay := strings.Join(got.Relay, ""); relay != "bc" || got.Held {
				t.Errorf("message after %v goes to %q, held %v, want bc, false", after, relay, got.Held)
			}
		}
	})
}

// TestLang: the last language that an event told.
func TestLang(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url})
		for i, step := range []struct{ lang, want string }{{"", ""}, {"pt", "pt"}, {"", "pt"}, {"es", "es"}} {
			if got := receive(t, s, Event{User: "a", ID: string(rune('a' + i)), Lang: step.lang, Action: Ask}).Lang; got != step.want {
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
		if got, err := s.SilentMembers(t.Context()); len(got) != 0 || err != nil {
			t.Errorf("SilentMembers() too early = %v, %v, want none", got, err)
		}
		idle := func(at time.Time) Result {
			t.Helper()
			return receive(t, s, Event{User: "b", ID: at.String(), At: at, Action: Idle})
		}
		if got := idle(now.Now()).Notice; got != Silence {
			t.Errorf("Idle too early = %s, want nothing", got)
		}
		now.Advance(time.Millisecond)
		receive(t, s, Event{User: "a", ID: "awake", At: now.Now()})
		receive(t, s, Event{User: "c", ID: "awake too", At: now.Now()})
		got, err := s.SilentMembers(t.Context())
		want := []Silent{{Page: "p", User: "b", Since: noon.Local()}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("SilentMembers() = %v: -want +got\n%s", err, diff)
		}
		if diff := cmp.Diff(Result{Room: public(1), Name: "Bo", Notice: LeftIdle}, idle(now.Now())); diff != "" {
			t.Errorf("Idle: -want +got\n%s", diff)
		}
		wantRelay(t, "after b left", s, "a", "c")
		if got := idle(now.Now().Add(time.Second)).Notice; got != Silence {
			t.Errorf("Idle of one who is out = %s, want nothing", got)
		}
		// Beyond the platform's window nothing can be said.
		late := noon.Add(25 * time.Hour)
		if got := receive(t, s, Event{User: "a", ID: "late", At: late, Action: Idle}); got.Notice != Silence {
			t.Errorf("Idle of one outside the window = %s, want nothing", got.Notice)
		}
		if diff := cmp.Diff(map[int]int{1: 1}, count(t, s, `SELECT number, members FROM rooms`)); diff != "" {
			t.Errorf("members: -want +got\n%s", diff)
		}
	})
}
