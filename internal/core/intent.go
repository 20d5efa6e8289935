package core

import (
	"strings"
	"time"

	"chatclub/internal/command"
	"chatclub/internal/message"
	"chatclub/internal/phrase"
	"chatclub/internal/rooms"
)

// intent is what the user of an event wants.
type intent struct {
	do   rooms.Event
	kind command.Kind
	text string      // what is passed on, of rooms.Write
	tell phrase.Key  // what the user is told where rooms has nothing to say: help, or what is wrong
	args phrase.Args // of tell
}

// intentOf reads an event of a user. A button that holds no command is a wish
// to be let in, as Messenger's "Get Started" is; what a user writes and what a
// quick reply says goes to the room unless it is a command.
func intentOf(ev message.Event) intent {
	in := intent{do: rooms.Event{Page: ev.Page, User: ev.User, ID: ev.ID, At: time.UnixMilli(ev.Time)}}
	// A language that we have no words in says nothing: LANGUAGE holds then.
	if l := phrase.Language(ev.Locale); strings.HasPrefix(strings.ToLower(ev.Locale), l) {
		in.do.Lang = l
	}
	if ev.Kind == message.KindIdle {
		in.do.Action = rooms.Idle
		return in
	}
	c := command.Parse(ev.Text, ev.Payload)
	in.kind = c.Kind
	if c.Refused != "" {
		in.do.Action, in.tell, in.args = rooms.Ask, c.Refused, c.Args
		return in
	}
	switch c.Kind {
	case command.None, command.Start:
		in.do.Action, in.text = rooms.Write, c.Text
		if ev.Kind == message.KindPostback {
			in.do.Action, in.text = rooms.Start, ""
		}
	case command.Help, command.Unknown:
		in.do.Action, in.tell = rooms.Ask, phrase.Help
	case command.Rooms:
		in.do.Action = rooms.List
	case command.Join:
		in.do.Action, in.do.Arg = rooms.Join, c.Room
	case command.Leave:
		in.do.Action = rooms.Leave
	case command.Name:
		in.do.Action, in.do.Arg = rooms.Rename, c.Name
	case command.Who:
		in.do.Action = rooms.Who
	case command.Block:
		in.do.Action, in.do.Arg = rooms.Block, c.Name
	case command.Unblock:
		in.do.Action, in.do.Arg = rooms.Unblock, c.Name
	case command.Mute:
		in.do.Action, in.do.For = rooms.Mute, c.For
	case command.Report:
		in.do.Action, in.do.Arg = rooms.Report, c.Name
	}
	return in
}
