package core

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"chatclub/internal/command"
	"chatclub/internal/fanout"
	"chatclub/internal/message"
	"chatclub/internal/phrase"
	"chatclub/internal/rooms"
)

// reply is the answer to the user of an event: texts, each on a line of its own,
// and buttons.
type reply struct {
	lang    string
	texts   []string
	buttons []message.QuickReply
}

// newReply returns the answer to a result in the user's language, or in language
// if that is unknown. idle is the time after which silent members leave.
func newReply(ev rooms.Event, res rooms.Result, language string, idle time.Duration) reply {
	r := reply{lang: cmp.Or(res.Lang, language)}
	switch {
	case res.Rejected && res.Until.IsZero() && res.Notice == rooms.Banned:
		r.say(phrase.Banned, nil)
	case res.Notice == rooms.Silence:
		if !res.Rejected && !res.Paused {
			r.answerCommand(ev.Command)
		}
	case res.Notice == rooms.Welcome:
		r.welcome(res)
	case res.Notice == rooms.Already && res.Subject != "":
		r.say(phrase.RoomFull, phrase.Args{"room": res.Subject, "next": roomName(res.Room)})
	case res.Notice == rooms.RoomList:
		r.list(res)
	case res.Notice == rooms.Members:
		r.who(res)
	case res.Notice == rooms.NoMember && ev.Command.Number > 0:
		r.say(phrase.NoNumber, phrase.Args{"number": ev.Command.Number})
		r.offerKinds("", command.Who)
	default:
		span := res.Until.Sub(ev.At)
		if res.Notice == rooms.LeftIdle {
			span = idle
		}
		r.answerNotice(res, span)
	}
	return r
}

// say adds a text.
func (r *reply) say(key phrase.Key, args phrase.Args) {
	r.texts = append(r.texts, phrase.Text(r.lang, key, args))
}

// offer adds a button for a command, if there can be one.
func (r *reply) offer(key phrase.Key, args phrase.Args, c command.Command) {
	if b, ok := fanout.Reply(phrase.Text(r.lang, key, args), c.Payload()); ok && len(r.buttons) < message.MaxReplies {
		r.buttons = append(r.buttons, b)
	}
}

// offerKinds adds buttons for commands. Those about a member are about the member
// of that name.
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

// answerCommand answers a command that rooms has no notice for: help, and a
// refused command.
func (r *reply) answerCommand(c command.Command) {
	text := c.Refused
	if c.Kind == command.Help {
		text = phrase.Help
	}
	if text != "" {
		r.say(text, c.Args)
		r.offerKinds("", command.Rooms, command.Who, command.Mute, command.Leave)
	}
}

// answer is the phrase for a notice, with buttons for likely next commands.
type answer struct {
	key   phrase.Key
	offer []command.Kind
}

// answers holds the answers that need only their values.
var answers = map[rooms.Notice]answer{ //nolint:exhaustive // newReply has the others
	rooms.Here:          {phrase.Where, []command.Kind{command.Who, command.Rooms, command.Leave}},
	rooms.Already:       {phrase.AlreadyIn, []command.Kind{command.Who}},
	rooms.Left:          {phrase.Left, []command.Kind{command.Join, command.Rooms}},
	rooms.LeftIdle:      {phrase.Idle, []command.Kind{command.Join, command.Rooms}},
	rooms.Nowhere:       {phrase.NotInRoom, []command.Kind{command.Join, command.Rooms}},
	rooms.NoRoom:        {phrase.RoomUnknown, []command.Kind{command.Rooms}},
	rooms.Renamed:       {phrase.NameChanged, nil},
	rooms.NameTaken:     {phrase.NameTaken, nil},
	rooms.NameHouse:     {phrase.NameHouse, nil},
	rooms.NameOften:     {phrase.NameOften, nil},
	rooms.NoMember:      {phrase.NoMember, []command.Kind{command.Who}},
	rooms.Oneself:       {phrase.BlockSelf, nil},
	rooms.Blocked:       {phrase.Blocked, []command.Kind{command.Unblock}},
	rooms.Unblocked:     {phrase.Unblocked, nil},
	rooms.NotBlocked:    {phrase.NotBlocked, nil},
	rooms.Muted:         {phrase.Muted, nil},
	rooms.Unmuted:       {phrase.Unmuted, nil},
	rooms.Reported:      {phrase.Reported, []command.Kind{command.Block}},
	rooms.Flooding:      {phrase.Flood, nil},
	rooms.FloodingTexts: {phrase.FloodCopies, nil},
	rooms.FloodingMedia: {phrase.FloodMedia, nil},
	rooms.Banned:        {phrase.BannedFor, nil},
}

// answerNotice answers with an entry of answers. span is the time until
// res.Until, or the time of silence.
func (r *reply) answerNotice(res rooms.Result, span time.Duration) {
	args := phrase.Args{"room": roomName(res.Room), "n": res.Count, "name": res.Subject, "for": phrase.Span(span)}
	switch res.Notice { //nolint:exhaustive // the others need no other values
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
	r.offerKinds("", command.Who, command.Rooms, command.Leave) // up to three are buttons, which stay visible
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

// who names the members, each with its number, and offers to block each of the
// others.
func (r *reply) who(res rooms.Result) {
	room := roomName(res.Room)
	if res.Count == 0 {
		r.say(phrase.WhoAlone, phrase.Args{"room": room})
		r.offerKinds("", command.Rooms)
		return
	}
	lines := make([]string, len(res.Names))
	for i, name := range res.Names {
		lines[i] = strconv.Itoa(i+1) + ". " + name // one a line, because a name may hold a comma
	}
	r.say(phrase.Who, phrase.Args{"room": room, "n": len(res.Names), "names": strings.Join(lines, "\n")})
	for _, name := range res.Names {
		if name != res.Name {
			r.offer(phrase.ButtonBlock, phrase.Args{"name": name}, command.Command{Kind: command.Block, Name: name})
		}
	}
}

// roomName returns the name of a room for users.
func roomName(r rooms.Room) string {
	if r.Code != "" {
		return r.Code
	}
	return strconv.Itoa(r.Number)
}
