// Package fanout turns one event into its outbound messages. It guarantees that
//
//   - the same event, name and members always make the same messages with the
//     same ids, by which an event that is handled twice is recognised;
//   - a sender never gets a copy of its own message;
//   - only the beginning of a text looks like "Name: text". Its other lines begin
//     with a mark, also where several texts go out as one message;
//   - texts of users may be joined with other lines of the conversation. Files,
//     links that stand for files, and chatclub's own answers may not;
//   - one message takes a bounded time of its page's limits, see MostOf;
//   - every text is clean as package plaintext defines it, at most message.MaxText long
//     and never empty. A message that cannot be passed on so is refused with a
//     phrase for its sender.
//
// Echoes and receipts would loop. Package webhook leaves them out.
package fanout

import (
	"slices"
	"strings"

	"chatclub/internal/message"
	"chatclub/internal/phrase"
	"chatclub/internal/plaintext"
)

const (
	// maxTexts bounds the texts of one split message, so that one event cannot
	// flood a room. Messenger lets its users write 20,000 characters at most.
	maxTexts = 10
	// maxAttachments bounds the attachments of one message. Messenger's own
	// clients stop at 30.
	maxAttachments = 30
)

// The marks are arrows, which no name has (plaintext.Name). So the text that stands
// behind them cannot pass for another member's text, nor a name for a mark.
const (
	continued = "↳ " // before each line but the first of a text
	renamed   = "↻ " // before the line that tells of another name
	missed    = "⋯ " // before the line that tells of messages that were left out
)

// Said is a message as the other members get it. The zero value is no message.
type Said struct {
	parts []message.Outbound
}

// Say returns the message of ev's user, whose name is name. text is ev's text,
// or the part of it that command.Parse leaves. Each recipient gets at most so
// many messages of it. told is the phrase for its sender if it is not passed on,
// or not all of its files are; empty otherwise. An event that is no message or is
// empty makes no message.
func Say(ev message.Event, name, text string, most Most) (said Said, told phrase.Key) {
	if ev.Kind != message.KindMessage {
		return Said{}, ""
	}
	clean := plaintext.Clean(text)
	prefix := signature(name)
	pieces := split(clean, message.MaxText-plaintext.Len(prefix))
	if len(pieces) > min(maxTexts, most.Text) {
		return Said{}, phrase.TextLong
	}
	room := Most{Text: most.Text - max(1, len(pieces)), Media: most.Media}
	files, more, unreachable := relay(ev.Attachments, clean, room)
	if more > 0 && clean != "" { // how many takes a text of its own
		room.Text--
		files, more, unreachable = relay(ev.Attachments, clean, room)
	}
	if clean == "" && len(files) == 0 {
		switch {
		case text != "":
			return Said{}, phrase.TextEmpty
		case len(ev.Attachments) > 0:
			return Said{}, phrase.FileRefused
		}
		return Said{}, ""
	}
	switch {
	case more > 0:
		told = phrase.FilesLeft
	case unreachable:
		told = phrase.FileRefused
	}
	for _, piece := range pieces {
		said.parts = append(said.parts, line(prefix+piece))
	}
	if clean == "" {
		said.parts = append(said.parts, line(prefix+describe(files, more)))
	}
	for _, f := range files {
		said.parts = append(said.parts, f.part)
	}
	if clean != "" && more > 0 {
		said.parts = append(said.parts, line(prefix+describe(nil, more)))
	}
	return said, told
}

// Copies returns the messages for the members: every part for the first, every
// part for the second, and so on. ev's own user gets none.
func (s Said) Copies(ev message.Event, to []string) []message.Outbound {
	out := make([]message.Outbound, 0, len(to)*len(s.parts))
	for _, member := range to {
		if member == ev.User {
			continue
		}
		for i, part := range s.parts {
			out = append(out, address(ev, part, member, i))
		}
	}
	return out
}

// address makes a part a message to one recipient.
func address(ev message.Event, part message.Outbound, to string, i int) message.Outbound {
	part.ID = message.CopyID(ev.Page, ev.ID, to, i)
	part.Page, part.To, part.Time = ev.Page, to, ev.Time
	return part
}

// Rename returns the line that tells the others that a member has another name. It
// has no words, so that all members get the same text.
func Rename(from, to string) Said {
	return Said{parts: []message.Outbound{line(renamed + shown(from) + " → " + shown(to))}}
}

// Missed returns the line that tells a room of messages that were left out.
func Missed(text string) Said { return Said{parts: []message.Outbound{line(missed + text)}} }

// Then returns the parts of s and behind them those of next.
func (s Said) Then(next Said) Said { return Said{parts: slices.Concat(s.parts, next.parts)} }

// split returns a clean text in pieces of at most limit, with its lines marked. A
// mark at the end of a piece goes over to the next.
func split(text string, limit int) []string {
	marked := markLines(text)
	if marked != text {
		limit -= plaintext.Len(continued)
	}
	pieces := plaintext.Split(marked, limit)
	for i := range len(pieces) - 1 {
		if rest, ok := strings.CutSuffix(pieces[i], continued); ok && rest != "" {
			pieces[i], pieces[i+1] = rest, continued+pieces[i+1]
		}
	}
	return pieces
}

// markLines marks the lines of a clean text that have something in them, except
// the first.
func markLines(text string) string {
	first, rest, ok := strings.Cut(text, "\n")
	if !ok {
		return text
	}
	lines := strings.Split(rest, "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = continued + l
		}
	}
	return first + "\n" + strings.Join(lines, "\n")
}

// signature returns the beginning of each text, with the sender's name.
func signature(name string) string { return shown(name) + ": " }

// shown returns a name as it is shown. One in a script that runs from right to
// left is isolated, because it would change places with the text behind it.
func shown(name string) string {
	name, err := plaintext.Name(name)
	if err != nil {
		name = "Guest"
	}
	if plaintext.RightToLeft(name) {
		name = "\u2068" + name + "\u2069"
	}
	return name
}

func textPart(text string) message.Outbound {
	return message.Outbound{Class: message.ClassText, Text: text}
}

// line returns a text of the conversation. It may go out in one message with
// others that wait for the same member, each on a line of its own.
func line(text string) message.Outbound {
	part := textPart(text)
	part.Joins = true
	return part
}
