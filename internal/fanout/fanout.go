// Package fanout turns one event into the messages that it must produce. It is
// pure: the same event, name and members always make the same messages with
// the same ids, so that an event handled twice is recognised by its ids. A
// sender never gets a copy of its own message. Every text is at most MaxText
// long, never empty, and as package plaintext leaves it; what cannot be made
// so is refused with a phrase for its sender.
//
// Only messages and postbacks come here: webhook leaves out echoes and
// receipts, which would loop.
package fanout

import (
	"chatclub/internal/message"
	"chatclub/internal/phrase"
	"chatclub/internal/plaintext"
)

const (
	// MaxText is the longest text that the Send API takes, as plaintext.Len
	// counts it.
	MaxText = 2000
	// maxTexts bounds the texts that one message is split into, so that one
	// event cannot flood a room. Messenger lets its users write 20,000
	// characters at most.
	maxTexts = 10
	// maxAttachments bounds those of one message: Messenger's own clients
	// stop at 30.
	maxAttachments = 30
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

// stamp makes a part a message to one recipient.
func stamp(ev message.Event, part message.Outbound, to string, i int) message.Outbound {
	part.ID = message.CopyID(ev.Page, ev.ID, to, i)
	part.Page, part.To, part.Time = ev.Page, to, ev.Time
	return part
}

// signature stands before each text. A name from right to left is isolated,
// lest it changes places with the text behind it.
func signature(name string) string {
	name, err := plaintext.Name(name)
	if err != nil {
		name = "Guest"
	}
	if plaintext.RightToLeft(name) {
		name = "\u2068" + name + "\u2069"
	}
	return name + ": "
}

func textPart(text string) message.Outbound {
	return message.Outbound{Class: message.ClassText, Text: text}
}
