package fanout

import (
	"strings"

	"chatclub/internal/message"
	"chatclub/internal/plaintext"
)

const (
	// maxTitle is Messenger's bound for the title of a quick reply.
	maxTitle = 20
	// maxPayload is Messenger's bound for the payload of a quick reply.
	maxPayload = 1000
)

// Notice returns chatclub's own answer to one user because of ev, with the quick
// replies below its last message. Of one event a user gets either a notice or
// copies, because their ids are alike.
func Notice(ev message.Event, to, text string, replies ...message.QuickReply) []message.Outbound {
	var out []message.Outbound
	for i, piece := range plaintext.Split(plaintext.Clean(text), message.MaxText) {
		part := textPart(piece)
		part.Answer = ev.Kind != message.KindIdle // nobody waits to hear that it left
		out = append(out, address(ev, part, to, i))
	}
	if n := len(out); n > 0 {
		out[n-1].Replies = replies[:min(len(replies), message.MaxReplies)]
	}
	return out
}

// Reply makes a quick reply, with the title shortened where it is too long. A tap
// sends the payload back, which is a command's. It is not ok if the title or the
// payload is empty, or the payload is too long.
func Reply(title, payload string) (r message.QuickReply, ok bool) {
	title = strings.Join(strings.Fields(plaintext.Clean(title)), " ")
	if title == "" || payload == "" || plaintext.Len(payload) > maxPayload {
		return message.QuickReply{}, false
	}
	return message.QuickReply{Title: plaintext.Shorten(title, maxTitle), Payload: payload}, true
}
