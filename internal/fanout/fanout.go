// Package fanout turns one event into the messages that it must produce. It is
// pure: the same event and the same result of package rooms always make the
// same messages with the same ids, so that an event handled twice is
// recognised by its ids. A sender never gets a copy of its own message, only
// the welcome into a room or the answer to a button; every text is at most
// MaxText characters long and free of control characters.
package fanout

import (
	"fmt"
	"strconv"

	"chatclub/internal/message"
	"chatclub/internal/rooms"
)

const (
	// MaxText is the most characters that the Send API takes in a text. Its
	// documents do not say what a character is; here it is a Unicode code
	// point (rune).
	MaxText = 2000
	// maxTexts bounds the texts that one message is split into. Messenger lets
	// its users write 2,000 characters, which makes at most two; more can only
	// come from elsewhere, and is cut so that one event cannot flood a room.
	maxTexts = 10
	// maxAttachments bounds those of one message: Messenger's own clients
	// stop at 30. What is more is told in words.
	maxAttachments = 30
	// maxName keeps room for the text behind the name.
	maxName = 64
)

// Copies returns the messages that ev makes, where res is what rooms made of
// it: the sender's welcome or answer first, then every part for the first
// other member, every part for the second, and so on.
func Copies(ev message.Event, res rooms.Result) []message.Outbound {
	name := cleanName(res.Name)
	var out []message.Outbound
	if text := notice(ev, res, name); text != "" {
		out = append(out, stamp(ev, textPart(text), ev.User, 0))
	}
	if ev.Kind != message.KindMessage {
		return out
	}
	parts := parts(ev, name)
	for _, member := range res.Others {
		if member == ev.User {
			continue
		}
		for i, part := range parts {
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

// notice is what the sender itself is told: a welcome when the event brought
// it into its room, otherwise where it is when it pressed a button.
func notice(ev message.Event, res rooms.Result, name string) string {
	switch {
	case res.Joined && len(res.Others) == 0:
		return fmt.Sprintf("Welcome to room %d, %s! You are the first one here. Everything you write goes to everybody here.", res.Room, name)
	case res.Joined:
		return fmt.Sprintf("Welcome to room %d, %s! You are with %s. Everything you write goes to everybody here.", res.Room, name, others(len(res.Others)))
	case ev.Kind == message.KindPostback:
		return fmt.Sprintf("You are in room %d with %s.", res.Room, others(len(res.Others)))
	default:
		return ""
	}
}

func others(n int) string {
	if n == 1 {
		return "1 other"
	}
	return strconv.Itoa(n) + " others"
}

// parts is a message as every other member gets it: its text, or in words
// what was sent, then its attachments.
func parts(ev message.Event, name string) []message.Outbound {
	files, more := relay(ev.Attachments)
	var out []message.Outbound
	text := cleanText(ev.Text)
	switch {
	case text != "":
		for _, t := range split(name+": ", text) {
			out = append(out, textPart(t))
		}
	case len(files) > 0:
		out = append(out, textPart(name+" sent "+describe(files)))
	}
	for _, f := range files {
		out = append(out, f.part)
	}
	if more > 0 {
		out = append(out, textPart(fmt.Sprintf("… and %d more", more)))
	}
	return out
}

func textPart(text string) message.Outbound {
	return message.Outbound{Class: message.ClassText, Text: text}
}
