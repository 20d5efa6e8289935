package core

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
	"chatclub/internal/rooms"
)

// TestLimits: what operators order comes first, then what a page's dispatcher told within the
// last minutes, then the settings, each limit by itself.
func TestLimits(t *testing.T) {
	t.Parallel()
	settings := message.Limits{Text: 300, Media: 10}
	for _, row := range []struct {
		name    string
		ordered message.Limits
		told    []message.Limits
		age     time.Duration // of the last report
		want    message.Limits
	}{
		{"none", message.Limits{}, nil, 0, settings},
		{"told", message.Limits{}, []message.Limits{{Text: 30, Recipient: 1}}, 0, message.Limits{Text: 30, Media: 10, Recipient: 1}},
		{"ordered", message.Limits{Text: 50}, []message.Limits{{Text: 30, Media: 5}}, 0, message.Limits{Text: 50, Media: 5}},
		{"told by an older dispatcher, which knows none", message.Limits{}, []message.Limits{{Text: 30}, {}}, 0, message.Limits{Text: 30, Media: 10}},
		{"told that they end", message.Limits{}, []message.Limits{{Text: 30}, settings}, 0, settings},
		{"told for a while", message.Limits{}, []message.Limits{{Text: 30}}, toldTime, message.Limits{Text: 30, Media: 10}},
		{"told long ago", message.Limits{}, []message.Limits{{Text: 30}}, toldTime + time.Second, settings},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := NewLimits(settings, func(page string) message.Limits {
					if page == "p" {
						return row.ordered
					}
					return message.Limits{}
				})
				for _, told := range row.told {
					l.tell("p", told)
				}
				time.Sleep(row.age)
				if got := l.Of("p"); got != row.want {
					t.Errorf("Of(p) = %+v, want %+v", got, row.want)
				}
				if got := l.Of("q"); got != settings {
					t.Errorf("Of(q) = %+v, want the settings' %+v", got, settings)
				}
			})
		})
	}
}

// TestPressed: a page is pressed by what core added, at its limit, and by what its dispatcher
// tells, at the rate that is told.
func TestPressed(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	tell := func(made, now, wait, pace float64) func(*pressure) {
		return func(p *pressure) { p.tell(at(now), at(made), "p", wait, pace) }
	}
	add := func(now float64, class message.Class, n int) func(*pressure) {
		return func(p *pressure) { p.add(at(now), "p", class, n) }
	}
	const text, media = message.ClassText, message.ClassMedia
	for _, row := range []struct {
		name  string
		do    []func(*pressure)
		now   float64
		class message.Class
		more  int
		want  bool
	}{
		{"the longest message, idle", nil, 0, text, 510, false},
		{"a longer one", nil, 0, text, 511, true},
		{"behind another", []func(*pressure){add(0, text, 495)}, 0.3, text, 495, true},
		{"behind another that is sent", []func(*pressure){add(0, text, 495)}, 1.7, text, 495, false},
		{"a short one behind another", []func(*pressure){add(0, text, 495)}, 0.4, text, 99, false},
		{"others that wait", []func(*pressure){tell(0, 0, 2, 300)}, 0, text, 1, true},
		{"others that are sent", []func(*pressure){tell(0, 0, 2, 300)}, 1, text, 99, false},
		{"a slow platform", []func(*pressure){tell(0, 0, 1.2, 50)}, 0, text, 49, true},
		{"none wait", []func(*pressure){add(0, text, 495), tell(1, 1.1, 0, 300)}, 1.1, text, 495, false},
		{"none have come yet", []func(*pressure){add(0.9, text, 495), tell(1, 1.1, 0, 300)}, 1.1, text, 495, true},
		{"added since a report", []func(*pressure){add(1.1, text, 495), tell(1, 5, 1, 30)}, 5, text, 1, true},
		{"joined texts", []func(*pressure){tell(0, 0, 0.1, 800), add(0.5, text, 800)}, 1, text, 99, false},
		{"a rate that is old", []func(*pressure){tell(0, 0, 0.1, 800)}, 5, text, 511, true},
		{"nonsense", []func(*pressure){tell(0, 0, 9, 0), tell(0, 0, -1, 300), tell(0, 0, math.NaN(), 1), tell(0, 0, math.Inf(1), 1)}, 0, text, 99, false},
		{"a voice message to a full room", nil, 0, media, 99, false},
		{"and another", []func(*pressure){add(0, media, 99)}, 5, media, 99, true},
		{"and another, once that is sent", []func(*pressure){add(0, media, 99)}, 9.9, media, 99, false},
		{"a text behind voice messages", []func(*pressure){add(0, media, 99)}, 0, text, 99, false},
	} {
		p := newPressure(NewLimits(message.Limits{Text: 300, Media: 10}, nil))
		for _, do := range row.do {
			do(p)
		}
		if got := p.isOn(at(row.now), "p", row.class, row.more); got != row.want {
			t.Errorf("%s: isOn() = %v, want %v", row.name, got, row.want)
		}
		p.add(at(1000), "q", text, 1)
		if len(p.lines) != 1 {
			t.Errorf("%s: lines = %d, want the last one alone", row.name, len(p.lines))
		}
	}
}

// TestAgainByItsLimits: an event that is handled again makes the same copies, also where its
// page has another limit by then.
func TestAgainByItsLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := NewLimits(message.Limits{Text: 300, Media: 10}, nil)
		r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.Limits = limits })
		r.say(t, now("1", "a", ""), now("2", "b", ""), now("3", "c", ""))
		r.handled(t)
		r.sent(t)
		long := now("1", "d", strings.Repeat("word ", 1900))
		r.store.before = func(method string) error {
			if method == "done" {
				return errAway
			}
			return nil
		}
		r.say(t, long)
		r.handled(t)
		want := r.sent(t)
		if len(want) != 2*5 {
			t.Fatalf("copies = %d, want five texts for each of two", len(want))
		}
		limits.tell("p", message.Limits{Text: 1})
		r.store.before = nil
		time.Sleep(time.Minute)
		r.handled(t)
		if diff := cmp.Diff(want, r.sent(t)); diff != "" {
			t.Errorf("copies of an event that is handled again: -want +got\n%s", diff)
		}
	})
}

// TestRejected counts the events without effect by their reason. One that its user wrote
// before it left is none of these.
func TestRejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, err := rooms.Open(rooms.Config{DatabaseURL: "sqlite::memory:", FloodLimit: 3, FloodShare: 10})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		r := newRigOn(t, newBroker(t), store, func(c *Config) { c.Limits = NewLimits(message.Limits{Text: 1, Media: 1}, nil) })
		stop := r.start(t)
		r.say(t, now("1", "a", ""), now("2", "b", ""), now("3", "c", ""), now("4", "d", ""))
		synctest.Wait()
		time.Sleep(time.Hour)
		if err := store.Ban(t.Context(), "p", "3", time.Time{}); err != nil {
			t.Fatal(err)
		}
		late := now("4", "late", "hello")
		late.Time -= 1000
		r.say(t, now("4", "leave", "/leave"), late)
		for i := range 4 {
			r.say(t, now("1", fmt.Sprint("flood", i), "/help"), now("2", fmt.Sprint("share", i), "hello"))
		}
		r.say(t, now("3", "banned", "hello"))
		synctest.Wait()
		// The first hello is passed on. The fourth comes after three events.
		r.wantMetrics(t, `
			# HELP chatclub_core_rejected_total Events without effect, by reason: flood: their user sends more than FLOOD_LIMIT; share: it takes more than FLOOD_SHARE of a page that is pressed; ban.
			# TYPE chatclub_core_rejected_total counter
			chatclub_core_rejected_total{reason="ban"} 1
			chatclub_core_rejected_total{reason="flood"} 1
			chatclub_core_rejected_total{reason="share"} 3
		`, "chatclub_core_rejected_total")
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}
