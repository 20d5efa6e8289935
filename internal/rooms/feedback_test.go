package rooms

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/command"
)

func TestGone(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Capacity: 2})
		for _, user := range []string{"a", "b", "c"} {
			says(t, s, user) // a and b in room 1, c in room 2
		}
		gone := func(user string, at time.Time) {
			t.Helper()
			if err := s.Gone(t.Context(), "p", user, at); err != nil {
				t.Fatalf("Gone(%s) = %v, want nil", user, err)
			}
		}
		gone("b", noon.Add(-time.Millisecond)) // b wrote since then
		gone("stranger", noon)
		wantRelay(t, "after Gone of the past", s, "a", "b")
		gone("b", noon)
		gone("b", noon) // twice counts once
		wantRelay(t, "after Gone", s, "a", "")
		want := Result{Joined: true, Room: public(1), Name: "Guest 4", Notice: Welcome, Count: 1, Relay: []string{"a"}}
		if diff := cmp.Diff(want, says(t, s, "d")); diff != "" {
			t.Errorf("next user after Gone, in the free place: -want +got\n%s", diff)
		}
		want = Result{Joined: true, Room: public(2), Name: "Guest 2", Notice: Welcome, Count: 1, Relay: []string{"c"}}
		if diff := cmp.Diff(want, says(t, s, "b")); diff != "" {
			t.Errorf("user who was gone and wrote again, under its old name: -want +got\n%s", diff)
		}
		if got := says(t, s, "e").Name; got != "Guest 5" {
			t.Errorf("name of the next newcomer = %q, want Guest 5, because a return takes no number", got)
		}
	})
}

func TestCloseWindow(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url, Capacity: 2})
		says(t, s, "a")
		says(t, s, "b")
		closeWindow := func(at time.Time) {
			t.Helper()
			if err := s.CloseWindow(t.Context(), "p", "b", at); err != nil {
				t.Fatalf("CloseWindow() = %v, want nil", err)
			}
		}
		closeWindow(noon.Add(-time.Millisecond)) // b wrote since then
		wantRelay(t, "after CloseWindow of the past", s, "a", "b")
		closeWindow(noon)
		wantRelay(t, "after CloseWindow", s, "a", "")
		if got := says(t, s, "c").Room; got != public(2) {
			t.Errorf("room of the next user = %v, want 2, because a user whose window is closed stays a member", got)
		}
		receive(t, s, Event{User: "b", ID: "back", At: noon.Add(time.Hour)})
		wantRelay(t, "after b wrote again", s, "a", "b")
	})
}

// TestHoldCopies checks that a failing member stays in its room and gets no copies
// and broadcasts, until that time or its next event.
func TestHoldCopies(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := open(t, Config{DatabaseURL: url, Capacity: 2, Now: now.Now})
		says(t, s, "a")
		says(t, s, "b")
		hold := func(user string, at time.Time, d time.Duration) {
			t.Helper()
			if err := s.HoldCopies(t.Context(), "p", user, at, noon.Add(d)); err != nil {
				t.Fatalf("HoldCopies() = %v, want nil", err)
			}
		}
		at := func(d time.Duration, want ...string) {
			t.Helper()
			now.Advance(noon.Add(d).Sub(now.Now()))
			res := receive(t, s, Event{User: "a", ID: d.String(), At: noon.Add(d)})
			if diff := cmp.Diff(want, res.Relay); diff != "" {
				t.Errorf("copies after %v: -want +got\n%s", d, diff)
			}
			if got, err := s.Broadcasts().Audience(t.Context(), "p", 0); got != 1+len(want) || err != nil {
				t.Errorf("Audience() after %v = %d, %v, want %d", d, got, err, 1+len(want))
			}
		}
		hold("stranger", noon, time.Minute)
		hold("b", noon.Add(-time.Millisecond), time.Minute) // b wrote since then
		at(0, "b")
		hold("b", noon, time.Hour)
		hold("b", noon, time.Minute) // does not shorten it
		at(time.Minute)
		if got := says(t, s, "c").Room; got != public(2) {
			t.Errorf("room of the next user = %v, want 2, because a failing user stays a member", got)
		}
		add(t, s, news("x"))
		claim(t, s, "core")
		answer, err := s.Broadcasts().NextRecipients(t.Context(), "core", news("x"), 10)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a", "c"}, answer.To); diff != "" {
			t.Errorf("recipients of a broadcast: -want +got\n%s", diff)
		}
		does(t, s, "c", command.Leave, "")
		at(time.Hour - time.Millisecond)
		at(time.Hour, "b")
		hold("b", noon.Add(time.Hour), 3*time.Hour)
		at(2 * time.Hour)
		receive(t, s, Event{User: "b", ID: "back", At: noon.Add(2 * time.Hour)})
		at(2*time.Hour+time.Second, "b")
	})
}

// TestPause checks that a paused page sends nothing, and that its users' commands
// take effect.
func TestPause(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Now: now.Now})
		at := noon
		pause := func(page string, until time.Time) {
			t.Helper()
			at = at.Add(time.Millisecond)
			if err := s.Pause(t.Context(), page, "190", at, until); err != nil {
				t.Fatalf("Pause() = %v, want nil", err)
			}
		}
		pause("q", time.Time{}) // a page without events
		pause("p", noon.Add(time.Hour))
		pause("p", noon.Add(time.Minute)) // does not shorten it
		want := Result{Paused: true, Room: public(1), Name: "Di"}
		if diff := cmp.Diff(want, does(t, s, "a", command.Name, "Di")); diff != "" {
			t.Errorf("Rename on a paused page: -want +got\n%s", diff)
		}
		for after, want := range map[time.Duration]int{0: 0, time.Hour - time.Millisecond: 0, time.Hour: 2} {
			res := receive(t, s, Event{User: "a", ID: after.String(), At: noon.Add(after)})
			if len(res.Relay) != want {
				t.Errorf("copies %v after the pause began = %d, want %d", after, len(res.Relay), want)
			}
		}
		if diff := cmp.Diff([]bool{true, true}, pauses(t, s)); diff != "" {
			t.Errorf("paused pages: -want +got\n%s", diff)
		}
		for range 2 {
			if err := s.Resume(t.Context(), "p", noon.Add(time.Second)); err != nil {
				t.Errorf("Resume() = %v, want nil", err)
			}
		}
		pause("p", noon.Add(time.Hour)) // a cause from before Resume, reported late
		wantRelay(t, "after Resume", s, "b", "ac")
		if diff := cmp.Diff([]bool{false, true}, pauses(t, s)); diff != "" {
			t.Errorf("paused pages: -want +got\n%s", diff)
		}
		if got := receive(t, s, Event{Page: "q", User: "a", ID: "x"}); got.Notice != Silence {
			t.Errorf("message on a page paused for good = %q, want nothing", got.Notice)
		}
	})
}

// TestPauseByClocks checks how pauses are compared: with other pauses by how long
// they last, and with the last resumption by when their causes happened. An
// operator's resumption counts whatever the clocks say.
func TestPauseByClocks(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := open(t, Config{DatabaseURL: url, Now: now.Now})
		after := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
		const operator = -1000 // an operator's decision, which has no time
		for i, step := range []struct {
			do    string
			at    int       // minutes after noon
			until int       // of a pause, minutes after noon; 0: for good
			want  time.Time // until when the page is paused then; zero: it is not
		}{
			{do: "pause", at: 1, until: 31, want: after(31)},     // a send was refused
			{do: "pause", at: 0, want: time.UnixMilli(never)},    // because Meta had blocked the page, reported later
			{do: "resume", at: 0, want: time.UnixMilli(never)},   // older than the refusal
			{do: "resume", at: 2},                                // Meta unblocks
			{do: "pause", at: 1, until: 40},                      // reported late
			{do: "pause", at: 5, until: 35, want: after(35)},     // refused again
			{do: "pause", at: 0, want: after(35)},                // the block, repeated after the unblock
			{do: "resume", at: operator},                         // by a clock that is behind
			{do: "resume", at: operator},                         // is not paused
			{do: "pause", at: 5, until: 35},                      // repeated
			{do: "pause", at: 8, until: 60, want: after(60)},     // refused again
			{do: "pause", at: 9, until: 30, want: after(60)},     // is not shortened
			{do: "resume", at: 10},                               // by Meta
			{do: "pause", at: 9, until: 90},                      // older
			{do: "pause", at: 11, until: 90, want: after(90)},    // younger
			{do: "resume", at: operator},                         //
			{do: "pause", at: 12, want: time.UnixMilli(never)},   //
			{do: "resume", at: operator},                         //
			{do: "pause", at: 13, until: 20, want: after(20)},    //
			{do: "resume", at: 600},                              // by a clock that is ahead
			{do: "pause", at: 500, until: 600},                   // older
			{do: "pause", at: 601, until: 700, want: after(700)}, // younger
		} {
			at, until := after(step.at), after(step.until)
			if step.at == operator {
				at = time.Time{}
			}
			if step.until == 0 {
				until = time.Time{}
			}
			var err error
			if step.do == "pause" {
				err = s.Pause(t.Context(), "p", "x", at, until)
			} else {
				err = s.Resume(t.Context(), "p", at)
			}
			if err != nil {
				t.Errorf("step %d: %s = %v, want nil", i, step.do, err)
			}
			got := int64(0)
			if err := s.do(t.Context(), one(nil, `SELECT paused_until FROM pages`, nil, &got)); err != nil {
				t.Fatal(err)
			}
			want := int64(0)
			if !step.want.IsZero() {
				want = step.want.UnixMilli()
			}
			if got != want {
				t.Errorf("step %d: %s at %d: paused until %d, want %d", i, step.do, step.at, got, want)
			}
		}
		// A mistyped page is not created.
		if err := s.Resume(t.Context(), "typo", time.Time{}); err != nil {
			t.Errorf("Resume of an unknown page = %v, want nil", err)
		}
		if diff := cmp.Diff([]bool{true}, pauses(t, s)); diff != "" {
			t.Errorf("pages: -want +got\n%s", diff)
		}
	})
}

// pauses returns for each page whether it is paused.
func pauses(t *testing.T, s *Store) (list []bool) {
	t.Helper()
	pages, err := s.Pages(t.Context(), "", 10)
	if err != nil {
		t.Fatalf("Pages() = %v, want nil", err)
	}
	for _, p := range pages {
		list = append(list, p.Paused)
	}
	return list
}

// TestEndPause checks that a pause ends if it is for the reason that is given, that its
// cause does not begin it again, even by a clock that is ahead, and that held copies
// are released.
func TestEndPause(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := open(t, Config{DatabaseURL: url, Capacity: 2, Now: now.Now})
		says(t, s, "a")
		says(t, s, "b")
		says := func(id string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, receive(t, s, Event{User: "a", ID: id, At: now.Now()}).Relay); diff != "" {
				t.Errorf("copies of %s: -want +got\n%s", id, diff)
			}
		}
		end := func(reason string) {
			t.Helper()
			if err := s.EndPause(t.Context(), "p", reason, noon.Add(2*time.Minute)); err != nil {
				t.Errorf("EndPause(%s) = %v, want nil", reason, err)
			}
		}
		pause := func() {
			t.Helper()
			if err := s.Pause(t.Context(), "p", "stopped", noon.Add(time.Minute), noon.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		pause()
		says("1")
		end("policy")
		says("2")
		end("stopped")
		end("stopped")
		says("3", "b")
		pause()
		says("4", "b")
		// Another pause with an end is not replaced by the dispatchers', nor ended with it.
		if err := s.Pause(t.Context(), "p", "policy", noon.Add(3*time.Minute), noon.Add(3*time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := s.Pause(t.Context(), "p", "stopped", noon.Add(4*time.Minute), noon.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		end("stopped")
		says("by another")
		now.Advance(3 * time.Minute)
		says("4b", "b")
		// A stop that is told after its end changes nothing.
		end("stopped")
		if err := s.Pause(t.Context(), "p", "stopped", noon.Add(90*time.Second), noon.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		says("4c", "b")
		if err := s.HoldCopies(t.Context(), "p", "b", noon, noon.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		says("5")
		for range 2 {
			if err := s.ReleaseCopies(t.Context(), "p", "b"); err != nil {
				t.Fatal(err)
			}
		}
		says("6", "b")
	})
}
