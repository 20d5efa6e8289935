package core

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/rooms"
)

// TestSpamTakesItsShare checks the copies that one member of a full room gets into the
// queue in ten seconds, however it tries, and that it is told once if any is refused. What
// waits before another's text is at most what one message may take; the other is not refused.
func TestSpamTakesItsShare(t *testing.T) {
	t.Parallel()
	files := func(kind string, n int) (list []message.Attachment) {
		for i := range n {
			list = append(list, message.Attachment{Type: kind, URL: fmt.Sprintf("https://h/%d", i)})
		}
		return list
	}
	limits := message.Limits{Text: 300, Media: 10}
	for _, tt := range []struct {
		name         string
		ev           message.Event
		texts, media time.Duration // of the page's limits, most
		told         map[string]string
		leaves       bool // the room, before each message
	}{
		{"short texts", message.Event{Text: "hi"}, 10 * time.Second, 0, nil, false}, // the page is not pressed
		{"long texts", message.Event{Text: strings.Repeat("word ", 1900)}, 10 * time.Second, 0, map[string]string{"pt": "foi demais de uma vez"}, false},
		{"longer texts", message.Event{Text: strings.Repeat("word ", 3900)}, 0, 0, nil, false},
		{"albums", message.Event{Attachments: files("image", 30)}, 10 * time.Second, 0, map[string]string{"es": "fue demasiado de una vez"}, false},
		{"voice messages", message.Event{Attachments: files("audio", 1)}, 340 * time.Millisecond, 10 * time.Second, map[string]string{"en": "You can send the next in 2 min."}, false},
		{"many voice files", message.Event{Attachments: files("audio", 30)}, 340 * time.Millisecond, 10 * time.Second, map[string]string{"pt": "em 2 min."}, false},
		{"leave, send a voice message", message.Event{Attachments: files("audio", 1)}, 340 * time.Millisecond, 10 * time.Second, map[string]string{"en": "You can send the next in 2 min."}, true},
	} {
		if testing.Short() && strings.Contains(tt.name, "long") {
			continue // the others find the same errors
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, err := rooms.Open(rooms.Config{DatabaseURL: "sqlite::memory:", FloodLimit: 30, FloodShare: 10})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				r := newRigOn(t, newBroker(t), store, func(c *Config) { c.Limits = NewLimits(limits, nil) })
				stop := r.start(t)
				for i := range 100 {
					ev := now(fmt.Sprint("u", i), fmt.Sprint("join", i), "")
					ev.Kind, ev.Payload = message.KindPostback, "GET_STARTED"
					r.say(t, ev)
					time.Sleep(time.Millisecond)
				}
				r.sent(t)
				others := 99.0
				var texts, media, hello, waiting float64
				said := map[string]int{}
				count := func() {
					t.Helper()
					before := texts
					for _, m := range take(t, r.broker, r.broker.Topology().Outbound(0)) {
						o, err := message.DecodeOutbound(m.Body)
						switch {
						case err != nil:
							t.Fatal(err)
						case o.To == "u0" && o.Priority() == message.PriorityAnswer:
							said[o.Text]++
						case strings.Contains(o.ID, "/hello/"):
							hello++
						case o.Class == message.ClassMedia:
							media++
						default:
							texts++
						}
					}
					if waiting += (texts - before) / limits.Text; waiting > 1.7 {
						t.Errorf("before another's text there would wait %.2f s of the limit, want 1.7 at most", waiting)
					}
				}
				for i := range 30 { // in ten seconds
					if tt.leaves {
						r.say(t, now("u0", fmt.Sprint("leave", i), "/leave"))
						others = 98 // because it stays outside
					}
					ev := now("u0", fmt.Sprint("spam", i), "")
					ev.Text, ev.Attachments = tt.ev.Text, tt.ev.Attachments
					for ev.Locale = range tt.told {
					}
					r.say(t, ev)
					count()
					time.Sleep(time.Second / 3)
					waiting = max(0, waiting-1.0/3)
				}
				r.say(t, now("u1", "hello", "hello"))
				count()
				if hello != others {
					t.Errorf("copies of what another member wrote = %v, want %v", hello, others)
				}
				if got, want := texts/limits.Text, tt.texts.Seconds(); got > want || got < want/2 {
					t.Errorf("texts of the spam take %.2f s of the limit, want %.2f at most", got, want)
				}
				if got, want := media/limits.Media, tt.media.Seconds(); got > want || got < want/2 {
					t.Errorf("audio of the spam takes %.2f s of the limit, want %.2f at most", got, want)
				}
				for _, words := range tt.told {
					n := 0
					for text, times := range said {
						if strings.Contains(text, words) {
							n += times
						}
					}
					if n != 1 {
						t.Errorf("the member is told %d times in all that %q, want once: %v", n, words, said)
					}
				}
				if err := stop(); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
			})
		})
	}
}

// TestCommandsTakeTheirShare checks the answers that one member of a full room gets into
// the queue in half a minute by commands that others are told of, or whose answers are long.
func TestCommandsTakeTheirShare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		lines []string // in turn, three a second
		limit float64  // of the page, texts a second
		most  int      // messages for all, answers included
	}{
		// 90 answers in any case. Others are told of one name a minute.
		{"two names", []string{"/name Ann", "/name Bo"}, 30, 90 + 99},
		{"a name between rooms", []string{"/leave", "/name Ann", "/join", "/leave", "/name Bo", "/join"}, 30, 90 + 99},
		{"many names", []string{"/name A1", "/name A2", "/name A3", "/name A4", "/name A5", "/name A6"}, 30, 90 + 99},
		// What the page can send, so that no more waits than of one event, and the reason
		// why there is no more.
		{"a long list", []string{"/who"}, 5, 5*30 + 8 + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, err := rooms.Open(rooms.Config{DatabaseURL: "sqlite::memory:", FloodLimit: 300, FloodShare: 10})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				r := newRigOn(t, newBroker(t), store, func(c *Config) { c.Limits = NewLimits(message.Limits{Text: tt.limit, Media: 10}, nil) })
				stop := r.start(t)
				for i := range 100 {
					r.say(t, now(fmt.Sprint("u", i), fmt.Sprint("name", i), fmt.Sprintf("/name %d%s", 100+i, strings.Repeat("🙂", 25))))
					ev := now(fmt.Sprint("u", i), fmt.Sprint("join", i), "")
					ev.Kind, ev.Payload = message.KindPostback, "GET_STARTED"
					r.say(t, ev)
					time.Sleep(time.Millisecond)
				}
				r.sent(t)
				time.Sleep(time.Hour) // everybody's allowance is full
				for i := range 90 {
					r.say(t, now("u0", fmt.Sprint("spam", i), tt.lines[i%len(tt.lines)]))
					time.Sleep(time.Second / 3)
				}
				if got := len(take(t, r.broker, r.broker.Topology().Outbound(0))); got > tt.most || got < 90 {
					t.Errorf("messages made by one member = %d, want at most %d", got, tt.most)
				}
				if err := stop(); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
			})
		})
	}
}
