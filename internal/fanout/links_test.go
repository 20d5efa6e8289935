package fanout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
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
