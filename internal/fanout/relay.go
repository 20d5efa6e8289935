package fanout

import (
	"chatclub/internal/message"
	"chatclub/internal/phrase"
	"chatclub/internal/plaintext"
)

const (
	// MaxReplies and MaxTitle are Messenger's bounds for quick replies.
	MaxReplies = 13
	MaxTitle   = 20
	// maxPayload is Messenger's bound for what a quick reply sends back.
	maxPayload = 1000
)

// Said is a message as the other members get it.
type Said struct {
	parts []message.Outbound
}

// Say makes the parts of what ev's user, called name, says. text is ev's
// text, or what command.Parse leaves of it. What cannot be passed on is
// refused with the phrase for its sender, and then there are no parts; refused
// is empty otherwise. An event that is no message, or has nothing in it, says
// nothing.
func Say(ev message.Event, name, text string) (said Said, refused phrase.Key) {
	if ev.Kind != message.KindMessage {
		return Said{}, ""
	}
	files, more := relay(ev.Attachments)
	clean := plaintext.Clean(text)
	if clean == "" && len(files) == 0 {
		switch {
		case text != "":
			return Said{}, phrase.TextEmpty
		case len(ev.Attachments) > 0:
			return Said{}, phrase.FileRefused
		}
		return Said{}, ""
	}
	prefix := signature(name)
	pieces := plaintext.Split(clean, MaxText-plaintext.Len(prefix))
	if len(pieces) > maxTexts {
		return Said{}, phrase.TextLong
	}
	for _, piece := range pieces {
		said.parts = append(said.parts, textPart(prefix+piece))
	}
	if clean == "" {
		said.parts = append(said.parts, textPart(prefix+describe(files, more)))
	}
	for _, f := range files {
		said.parts = append(said.parts, f.part)
	}
	if clean != "" && more > 0 {
		said.parts = append(said.parts, textPart(prefix+describe(nil, more)))
	}
	return said, ""
}

// Copies returns what ev makes for each of the members: every part for the
// first, every part for the second, and so on. ev's own user gets none.
func (s Said) Copies(ev message.Event, to []string) []message.Outbound {
	out := make([]message.Outbound, 0, len(to)*len(s.parts))
	for _, member := range to {
		if member == ev.User {
			continue
		}
		for i, part := range s.parts {
			out = append(out, stamp(ev, part, member, i))
		}
	}
	return out
}

// Notice returns what chatclub itself tells one user because of ev, with the
// quick replies below the last of it. A user gets either a notice or copies of
// one event: their ids are alike.
func Notice(ev message.Event, to, text string, replies ...message.QuickReply) []message.Outbound {
	var out []message.Outbound
	for i, piece := range plaintext.Split(plaintext.Clean(text), MaxText) {
		out = append(out, stamp(ev, textPart(piece), to, i))
	}
	if n := len(out); n > 0 {
		out[n-1].Replies = replies[:min(len(replies), MaxReplies)]
	}
	return out
}

// Reply makes a quick reply: title is what stands on it, shortened if need be,
// payload (a command's) what comes back. ok is false when there is no such
// reply, because title or payload are empty or the payload is too long.
func Reply(title, payload string) (r message.QuickReply, ok bool) {
	title = plaintext.Clean(title)
	if title == "" || payload == "" || plaintext.Len(payload) > maxPayload {
		return message.QuickReply{}, false
	}
	return message.QuickReply{Title: plaintext.Shorten(title, MaxTitle), Payload: payload}, true
}
