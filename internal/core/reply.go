package core

import (
	"strconv"
	"strings"
	"time"

	"chatclub/internal/command"
	"chatclub/internal/fanout"
	"chatclub/internal/message"
	"chatclub/internal/phrase"
	"chatclub/internal/rooms"
)

// reply is what the user of an event is told: texts, one below the other, and
// buttons.
type reply struct {
	lang    string
	texts   []string
	buttons []message.QuickReply
}

func (r *reply) say(key phrase.Key, args phrase.Args) {
	r.texts = append(r.texts, phrase.Text(r.lang, key, args))
}

// offer adds a button for a command, where one is possible.
func (r *reply) offer(key phrase.Key, args phrase.Args, c command.Command) {
	if b, ok := fanout.Reply(phrase.Text(r.lang, key, args), c.Payload()); ok && len(r.buttons) < message.MaxReplies {
		r.buttons = append(r.buttons, b)
	}
}

// offerKinds adds buttons for commands, those about a member about the one of
// that name.
func (r *reply) offerKinds(name string, kinds ...command.Kind) {
	keys := map[command.Kind]phrase.Key{ //nolint:exhaustive // the others have no button
		command.Rooms: phrase.ButtonRooms, command.Who: phrase.ButtonWho, command.Help: phrase.ButtonHelp,
		command.Leave: phrase.ButtonLeave, command.Join: phrase.ButtonJoin, command.Mute: phrase.ButtonMute,
		command.Block: phrase.ButtonBlock, command.Unblock: phrase.ButtonUnblock,
	}
	for _, kind := range kinds {
		r.offer(keys[kind], phrase.Args{"name": name}, command.Command{Kind: kind, Name: name, For: time.Hour})
	}
}

// answer is how a notice is put: a phrase, and buttons for what may be wanted
// next.
type answer struct {
	key   phrase.Key
	offer []command.Kind
}

// answers are those of the notices that need no more than their values.
var answers = map[rooms.Notice]answer{ //nolint:exhaustive // the others are put by replyTo
	rooms.Here:       {phrase.Where, []command.Kind{command.Who, command.Rooms, command.Leave}},
	rooms.Already:    {phrase.AlreadyIn, []command.Kind{command.Who}},
	rooms.Left:       {phrase.Left, []command.Kind{command.Join, command.Rooms}},
	rooms.LeftIdle:   {phrase.Idle, []command.Kind{command.Join, command.Rooms}},
	rooms.Nowhere:    {phrase.NotInRoom, []command.Kind{command.Join, command.Rooms}},
	rooms.NoRoom:     {phrase.RoomUnknown, []command.Kind{command.Rooms}},
	rooms.Renamed:    {phrase.NameChanged, nil},
	rooms.NameTaken:  {phrase.NameTaken, nil},
	rooms.NoMember:   {phrase.NoMember, []command.Kind{command.Who}},
	rooms.Oneself:    {phrase.BlockSelf, nil},
	rooms.Blocked:    {phrase.Blocked, []command.Kind{command.Unblock}},
	rooms.Unblocked:  {phrase.Unblocked, nil},
	rooms.NotBlocked: {phrase.NotBlocked, nil},
	rooms.Muted:      {phrase.Muted, nil},
	rooms.Unmuted:    {phrase.Unmuted, nil},
	rooms.Reported:   {phrase.Reported, []command.Kind{command.Block}},
	rooms.Flooding:   {phrase.Flood, nil},
	rooms.Banned:     {phrase.BannedFor, nil},
}

// replyTo puts what rooms says into the words of the user's language.
func (c *Core) replyTo(ev rooms.Event, res rooms.Result) reply {
	r := reply{lang: res.Lang}
	if r.lang == "" {
		r.lang = c.cfg.Language
	}
	switch {
	case res.Rejected && res.Until.IsZero() && res.Notice == rooms.Banned:
		r.say(phrase.Banned, nil)
	case res.Notice == rooms.Silence:
		text := ev.Command.Refused
		if ev.Command.Kind == command.Help {
			text = phrase.Help
		}
		if text != "" && !res.Rejected && !res.Paused {
			r.say(text, ev.Command.Args)
			r.offerKinds("", command.Rooms, command.Who, command.Mute, command.Leave)
		}
	case res.Notice == rooms.Welcome:
		r.welcome(res)
	case res.Notice == rooms.Already && res.Subject != "":
		r.say(phrase.RoomFull, phrase.Args{"room": res.Subject, "next": roomName(res.Room)})
	case res.Notice == rooms.RoomList:
		r.list(res)
	case res.Notice == rooms.Members:
		r.who(res)
	default:
		span := res.Until.Sub(ev.At)
		if res.Notice == rooms.LeftIdle {
			span = c.cfg.Idle
		}
		args := phrase.Args{"room": roomName(res.Room), "n": res.Count, "name": res.Subject, "for": phrase.Span(span)}
		switch res.Notice { //nolint:exhaustive // the others are covered
		case rooms.NoRoom:
			args["room"] = res.Subject
		case rooms.Renamed:
			args["name"] = res.Name
		}
		a := answers[res.Notice]
		r.say(a.key, args)
		r.offerKinds(res.Subject, a.offer...)
		if res.Notice == rooms.Muted {
			r.offer(phrase.ButtonUnmute, nil, command.Command{Kind: command.Mute})
		}
	}
	return r
}

func (r *reply) welcome(res rooms.Result) {
	room := phrase.Args{"room": roomName(res.Room), "n": res.Count, "name": res.Name}
	if res.Subject != "" {
		r.say(phrase.RoomFull, phrase.Args{"room": res.Subject, "next": roomName(res.Room)})
	}
	if res.Count == 0 {
		r.say(phrase.WelcomeFirst, room)
	} else {
		r.say(phrase.Welcome, room)
	}
	r.offerKinds("", command.Who, command.Rooms, command.Leave) // three are buttons, which stay
}

func (r *reply) list(res rooms.Result) {
	if len(res.Rooms) == 0 {
		r.say(phrase.RoomsNone, nil)
		return
	}
	r.say(phrase.RoomsTitle, nil)
	for _, l := range res.Rooms {
		number := strconv.Itoa(l.Number)
		r.say(phrase.RoomsLine, phrase.Args{"room": number, "n": l.Members})
		if b, ok := fanout.Reply(number, command.Command{Kind: command.Join, Room: number}.Payload()); ok {
			r.buttons = append(r.buttons, b)
		}
	}
	if more := res.Count - len(res.Rooms); more > 0 {
		r.say(phrase.RoomsMore, phrase.Args{"n": more})
	}
}

// who names the members, and offers to block each of them but the user.
func (r *reply) who(res rooms.Result) {
	room := roomName(res.Room)
	if res.Count == 0 {
		r.say(phrase.WhoAlone, phrase.Args{"room": room})
		r.offerKinds("", command.Rooms)
		return
	}
	r.say(phrase.Who, phrase.Args{"room": room, "n": len(res.Names), "names": strings.Join(res.Names, ", ")})
	for _, name := range res.Names {
		if name != res.Name {
			r.offer(phrase.ButtonBlock, phrase.Args{"name": name}, command.Command{Kind: command.Block, Name: name})
		}
	}
}

// roomName is a room as its users call it.
func roomName(r rooms.Room) string {
	if r.Code != "" {
		return r.Code
	}
	return strconv.Itoa(r.Number)
}
