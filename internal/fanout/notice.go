package fanout

import (
	"strings"

	"chatclub/internal/message"
	"chatclub/internal/plaintext"
)

const (
	// maxTitle is Messenger's bound for what stands on a quick reply.
	maxTitle = 20
	// maxPayload is Messenger's bound for what a quick reply sends back.
	maxPayload = 1000
)

// Notice returns what chatclub itself tells one user because of ev, with the
// quick replies below the last of it. A user gets either a notice or copies of
// one event: their ids are alike.
func Notice(ev message.Event, to, text string, replies ...message.QuickReply) []message.Outbound {
	var out []message.Outbound
	for i, piece := range plaintext.Split(plaintext.Clean(text), MaxText) {
		out = append(out, stamp(ev, textPart(piece), to, i))
	}
	if n := len(out); n > 0 {
		out[n-1].Replies = replies[:min(len(replies), message.MaxReplies)]
	}
	return out
}

// Reply makes a quick reply: title is what stands on it, shortened if need be,
// payload (a command's) what comes back. ok is false when there is no such
// reply, because title or payload are empty or the payload is too long.
func Reply(title, payload string) (r message.QuickReply, ok bool) {
	title = strings.Join(strings.Fields(plaintext.Clean(title)), " ")
	if title == "" || payload == "" || plaintext.Len(payload) > maxPayload {
		return message.QuickReply{}, false
	}
	return message.QuickReply{Title: plaintext.Shorten(title, maxTitle), Payload: payload}, true
}
