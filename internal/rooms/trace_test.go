package rooms

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/command"
)

// An event is found by its id, on one page or on all, until it is pruned. Who its
// copies are for is known until they are safe.
func TestFindEvents(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Capacity: 3, Now: now.Now})
		now.Advance(time.Minute)
		receive(t, s, Event{Page: "p", User: "a", ID: "m", Command: command.Command{Text: "hello"}})
		receive(t, s, Event{Page: "q", User: "a", ID: "m"})
		want := func(page string, want ...EventView) {
			t.Helper()
			got, err := s.FindEvents(t.Context(), page, "m")
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("FindEvents(%q) = %v: -want +got\n%s", page, err, diff)
			}
		}
		begun := EventView{Page: "p", ID: "m", Received: noon.Add(time.Minute), User: "a", Room: 1, Copies: 2}
		other := EventView{Page: "q", ID: "m", Received: noon.Add(time.Minute)}
		want("p", begun)
		want("", begun, other)
		want("r")
		if err := s.Done(t.Context(), "p", "m"); err != nil {
			t.Fatal(err)
		}
		begun.Finished, begun.Copies = true, 0
		want("p", begun)
		if _, err := s.Prune(t.Context(), noon.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		want("")
	})
}

// TestFindPeople: an operator learns why a person gets nothing: it is in no room, silent,
// failing, muted or banned.
func TestFindPeople(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Capacity: 3, Now: now.Now})
		want := func(page string, want ...PersonView) {
			t.Helper()
			got, err := s.FindPeople(t.Context(), page, "a")
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("FindPeople(%q) = %v: -want +got\n%s", page, err, diff)
			}
		}
		member := PersonView{Page: "p", User: "a", Room: 1, Wrote: noon}
		want("p", member)
		want("q")
		receive(t, s, Event{Page: "q", User: "a", ID: "m", Command: command.Command{Text: "hello"}})
		other := PersonView{Page: "q", User: "a", Room: 1, Wrote: noon}
		want("", member, other)
		later := noon.Add(time.Hour)
		if err := errors.Join(s.Ban(t.Context(), "p", "a", time.Time{}), s.HoldCopies(t.Context(), "q", "a", noon, later)); err != nil {
			t.Fatal(err)
		}
		member.Banned, member.Room, other.Failing = new(time.Time), 0, &later
		want("", member, other)
		now.Advance(24 * time.Hour)
		member.Closed, other.Closed, other.Failing = true, true, nil
		want("", member, other)
	})
}
