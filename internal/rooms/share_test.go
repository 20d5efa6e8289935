package rooms

import (
	"strconv"
	"testing"
	"time"

	"chatclub/internal/command"
)

// TestShareOfPressedPage checks a tenth of the page's limit of texts: charged always, refused
// only while the page is pressed. A message takes a part of the limit for each of two others.
func TestShareOfPressedPage(t *testing.T) {
	t.Parallel()
	const short, long = 165 * time.Millisecond, 600 * time.Millisecond // 3.3 and 12 s of the allowance of 10 s
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url, FloodShare: 10, Capacity: 50})
		for i, step := range []struct {
			name    string
			after   time.Duration // since noon
			takes   time.Duration // each copy
			pressed bool
			want    Notice
			refused bool
		}{
			{"above the allowance, calm", 0, long, false, Silence, false},
			{"again", 0, long, false, Silence, false},
			{"a debt of 12 s, and no more", 0, short, true, FloodingTexts, true},
			{"told a moment ago", 5 * time.Second, short, true, Silence, true},
			{"the debt is nearly gone", 5300 * time.Millisecond, short, true, Silence, false}, // 12 s − 5.3 s + 3.3 s
			{"calm again", 6 * time.Second, short, false, Silence, false},
			{"and pressed", 9200 * time.Millisecond, short, true, Silence, true}, // 16 s − 9.2 s + 3.3 s
			{"and pressed for long", 9300 * time.Millisecond, short, true, Silence, false},
			{"long, and nothing is owed", 30 * time.Second, long, true, Silence, true},
			{"short, and nothing is owed", 30 * time.Second, short, true, Silence, false},
			{"told again after a minute", 60 * time.Second, long, true, FloodingTexts, true},
		} {
			ev := Event{User: "a", ID: strconv.Itoa(i), At: noon.Add(step.after)}
			ev.Time = func(copies int) (time.Duration, time.Duration) { return time.Duration(copies) * step.takes, 0 }
			ev.Least = func(copies int) time.Duration { return time.Duration(copies) * 2 * short }
			ev.Pressed = func(time.Duration, time.Duration) (bool, bool) { return step.pressed, true }
			got := receive(t, s, ev)
			if got.Notice != step.want || got.Rejected != step.refused || got.Rejected != (got.Why == Share) {
				t.Errorf("%s: %q, rejected %v by %q, want %q, %v", step.name, got.Notice, got.Rejected, got.Why, step.want, step.refused)
			}
		}
	})
}

// TestPressedBeforeARoom: a message of a user in no room presses the page as in a full room,
// because nobody knows yet who gets it.
func TestPressedBeforeARoom(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url, FloodShare: 10, Capacity: 50})
		for _, step := range []struct {
			id    string
			leave bool
			want  time.Duration // by which the page is pressed or not
		}{{"in", false, 2 * time.Second}, {"leave", true, 0}, {"out", false, 49 * time.Second}} {
			ev := Event{User: "a", ID: step.id, At: noon}
			if step.leave {
				ev.Command = wish(command.Leave, "")
			}
			ev.Time = func(copies int) (time.Duration, time.Duration) { return time.Duration(copies) * time.Second, 0 }
			ev.Pressed = func(texts, _ time.Duration) (bool, bool) {
				if texts != step.want {
					t.Errorf("%s: pressed by %v, want %v", step.id, texts, step.want)
				}
				return false, false
			}
			receive(t, s, ev)
		}
	})
}
