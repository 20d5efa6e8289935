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
	"fmt"
	"strconv"

	"chatclub/internal/message"
	"chatclub/internal/plaintext"
	"chatclub/internal/rooms"
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

// Copies returns the messages that ev makes, where res is what rooms made of
// it: the sender's welcome or answer first, then the copies.
func Copies(ev message.Event, res rooms.Result) []message.Outbound {
	var out []message.Outbound
	if text := notice(ev, res); text != "" {
		out = Notice(ev, ev.User, text)
	}
	said, _ := Say(ev, res.Name, ev.Text)
	return append(out, said.Copies(ev, res.Others)...)
}

// stamp makes a part a message to one recipient.
func stamp(ev message.Event, part message.Outbound, to string, i int) message.Outbound {
	part.ID = message.CopyID(ev.Page, ev.ID, to, i)
	part.Page, part.To, part.Time = ev.Page, to, ev.Time
	return part
}

// notice is what the sender itself is told: a welcome when the event brought
// it into its room, otherwise where it is when it pressed a button.
func notice(ev message.Event, res rooms.Result) string {
	switch {
	case res.Joined && len(res.Others) == 0:
		return fmt.Sprintf("Welcome to room %d, %s! You are the first one here. Everything you write goes to everybody here.", res.Room, res.Name)
	case res.Joined:
		return fmt.Sprintf("Welcome to room %d, %s! You are with %s. Everything you write goes to everybody here.", res.Room, res.Name, others(len(res.Others)))
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
