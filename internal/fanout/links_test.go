package fanout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/phrase"
)

// TestManyLinks checks that a text of many words with many links takes little time: it is
// spent within a transaction.
func TestManyLinks(t *testing.T) {
	ev := message.Event{Kind: message.KindMessage, Page: "1", User: "2", ID: "m", Text: strings.Repeat("a. ", 7000)}
	for i := range 1000 {
		ev.Attachments = append(ev.Attachments, message.Attachment{Type: "fallback", URL: fmt.Sprintf("https://x.org/%d", i)})
	}
	begin := time.Now()
	Say(ev, "Ann", ev.Text, MostOf(message.Limits{Text: 300, Media: 10}, 99))
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("Say() took %v, want far less than a second", took)
	}
}

// TestLongTextOfLinks checks that a text that is refused as too long is not searched for
// links before, which takes a thousand times as much memory.
func TestLongTextOfLinks(t *testing.T) {
	ev := message.Event{Kind: message.KindMessage, Page: "1", User: "2", ID: "m", Text: strings.Repeat("a.b ", 5000)}
	ev.Attachments = []message.Attachment{{Type: "fallback", URL: "https://x.org/1"}}
	got := testing.AllocsPerRun(5, func() {
		if _, told := Say(ev, "Ann", ev.Text, MostOf(message.Limits{Text: 300, Media: 10}, 99)); told != phrase.TextLong {
			t.Errorf("Say() tells %q, want %q", told, phrase.TextLong)
		}
	})
	if got > 100 {
		t.Errorf("Say() of a text that is too long allocates %v times, want 100 at most", got)
	}
}

// BenchmarkMentions is of texts that are nearly all words that may be links: one that is
// refused as too long, one that is not, and one of real words.
func BenchmarkMentions(b *testing.B) {
	most := MostOf(message.Limits{Text: 300, Media: 10}, 99)
	for name, text := range map[string]string{
		"long": strings.Repeat(". ", 10000), "short": strings.Repeat(". ", 4500), "words": strings.Repeat("a.b ", 2250),
	} {
		b.Run(name, func(b *testing.B) {
			ev := message.Event{Kind: message.KindMessage, Page: "1", User: "2", ID: "m", Text: text}
			ev.Attachments = []message.Attachment{{Type: "fallback", URL: "https://x.org/1"}}
			for b.Loop() {
				Say(ev, "Ann", ev.Text, most)
			}
		})
	}
}
