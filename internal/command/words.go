package command

import (
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"chatclub/internal/phrase"
	"chatclub/internal/plaintext"
)

// word is the meaning of a word behind the slash.
type word struct {
	kind  Kind
	usage phrase.Key // the answer when the argument is missing
	off   bool       // ends a mute instead of beginning one
}

// words holds every word, folded. A word has the same meaning in all languages.
var words = map[string]word{
	"rooms": {kind: Rooms}, "salas": {kind: Rooms}, "list": {kind: Rooms},
	"join": {kind: Join}, "entrar": {kind: Join}, "unirse": {kind: Join},
	"leave": {kind: Leave}, "sair": {kind: Leave}, "salir": {kind: Leave}, "quit": {kind: Leave}, "exit": {kind: Leave},
	"name": {kind: Name, usage: phrase.NameUsage}, "nome": {kind: Name, usage: phrase.NameUsage},
	"nombre": {kind: Name, usage: phrase.NameUsage}, "nick": {kind: Name, usage: phrase.NameUsage},
	"who": {kind: Who}, "quem": {kind: Who}, "quien": {kind: Who}, "quién": {kind: Who},
	"block": {kind: Block, usage: phrase.BlockUsage}, "bloquear": {kind: Block, usage: phrase.BlockUsage},
	"unblock": {kind: Unblock, usage: phrase.UnblockUsage}, "desbloquear": {kind: Unblock, usage: phrase.UnblockUsage},
	"mute": {kind: Mute}, "silenciar": {kind: Mute}, "unmute": {kind: Mute, off: true},
	"report": {kind: Report, usage: phrase.ReportUsage}, "denunciar": {kind: Report, usage: phrase.ReportUsage},
	"help": {kind: Help}, "ajuda": {kind: Help}, "ayuda": {kind: Help},
}

// command returns the command of the word with its argument.
func (w word) command(argument string) Command {
	switch w.kind {
	case None, Start, Unknown, Rooms, Leave, Who, Help, kinds:
		return Command{Kind: w.kind} // "/who is there?" means /who
	case Join:
		return join(argument)
	case Mute:
		if w.off {
			return Command{Kind: Mute}
		}
		return mute(argument)
	case Name:
		return w.named(argument, nil)
	case Block, Unblock, Report:
		return w.person(argument)
	}
	return Command{}
}

// person takes the name of another user, or its number in a list, which may have
// a # before it or a full stop behind it, as the list has.
func (w word) person(argument string) Command {
	// No member can have a name that is none.
	noMember := phrase.Args{"name": plaintext.Shorten(quotable(argument), plaintext.MaxName)}
	digits, ok := plaintext.Number(strings.TrimSuffix(strings.TrimPrefix(argument, "#"), "."))
	if !ok {
		return w.named(argument, noMember)
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 {
		return refuse(w.kind, phrase.NoNumber, phrase.Args{"number": noMember["name"]})
	}
	return Command{Kind: w.kind, Number: n}
}

// named takes a name. With noMember set it is the name of another member, and
// noMember holds the values of the answer that there is none. Otherwise it is a
// new name, and the answer explains the error.
func (w word) named(argument string, noMember phrase.Args) Command {
	if argument == "" {
		return refuse(w.kind, w.usage, nil)
	}
	name, err := plaintext.Name(argument)
	switch {
	case err == nil:
		return Command{Kind: w.kind, Name: name}
	case noMember != nil && noMember["name"] == "":
		return refuse(w.kind, w.usage, nil)
	case noMember != nil:
		return refuse(w.kind, phrase.NoMember, noMember)
	case errors.Is(err, plaintext.ErrNameLong):
		return refuse(w.kind, phrase.NameLong, phrase.Args{"max": plaintext.MaxName})
	default:
		return refuse(w.kind, phrase.NameInvalid, nil)
	}
}

// quotable returns an argument on one line, for an answer that quotes it.
func quotable(argument string) string {
	return strings.Join(strings.Fields(plaintext.Clean(argument)), " ")
}

// maxNumber is the number of digits of a public room's number at most.
const maxNumber = 9

// join takes a room, which may have a # before it. What looks like a number is
// one: there is no code "007".
func join(argument string) Command {
	if argument == "" {
		return Command{Kind: Join}
	}
	room := plaintext.Fold(strings.TrimPrefix(argument, "#"))
	if n, ok := plaintext.Number(strings.TrimPrefix(room, "-")); ok {
		if strings.HasPrefix(room, "-") || len(n) > maxNumber {
			return refuse(Join, phrase.RoomUnknown, phrase.Args{"room": plaintext.Shorten(room, maxEcho)})
		}
		return Command{Kind: Join, Room: n}
	}
	wrong := func(r rune) bool {
		return plaintext.Blank(r) || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '-' && r != '_'
	}
	first, _ := utf8.DecodeRuneInString(room)
	if unicode.IsMark(first) || room == "" || !utf8.ValidString(room) || plaintext.Clean(room) != room ||
		utf8.RuneCountInString(room) > MaxRoom || strings.ContainsFunc(room, wrong) {
		return refuse(Join, phrase.RoomInvalid, phrase.Args{"max": MaxRoom})
	}
	return Command{Kind: Join, Room: room}
}

// mute takes a duration such as "30m", "1h30m", "2 days" or "45" (minutes), or
// "off".
func mute(argument string) Command {
	switch argument = plaintext.Fold(argument); argument {
	case "":
		return Command{Kind: Mute, For: defaultMute}
	case "off", "0", "no", "não", "nao":
		return Command{Kind: Mute}
	}
	d, ok := span(argument)
	if !ok || d < MinMute || d > MaxMute {
		return refuse(Mute, phrase.MuteUsage, phrase.Args{"min": phrase.Span(MinMute), "max": phrase.Span(MaxMute)})
	}
	return Command{Kind: Mute, For: d}
}

// span reads numbers, each with a unit behind it. A number alone is minutes.
func span(s string) (total time.Duration, ok bool) {
	for s != "" {
		i := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
		if i < 0 {
			i = len(s)
		}
		n, err := strconv.Atoi(s[:i])
		if err != nil || n > int(MaxMute/time.Second) {
			return 0, false
		}
		s = strings.TrimSpace(s[i:])
		i = strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
		if i < 0 {
			i = len(s)
		}
		unit, ok := units[s[:i]]
		if !ok {
			return 0, false
		}
		total += time.Duration(n) * unit
		if total > MaxMute {
			return 0, false
		}
		s = strings.TrimSpace(s[i:])
	}
	return total, true
}

// units are those of English, Portuguese and Spanish. Seconds stand in the form
// of time.Duration, which Payload writes.
var units = map[string]time.Duration{
	"":  time.Minute,
	"s": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"minuto": time.Minute, "minutos": time.Minute,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour, "hora": time.Hour, "horas": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"dia": 24 * time.Hour, "dias": 24 * time.Hour, "día": 24 * time.Hour, "días": 24 * time.Hour,
}
