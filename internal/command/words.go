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

// word is what a word behind the slash means.
type word struct {
	kind  Kind
	usage phrase.Key // what to say when there is no argument
	off   bool       // ends instead of beginning
}

// words are all of them, folded. A word has one meaning in all languages.
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

// command is the word with its argument.
func (w word) command(argument string) Command {
	switch w.kind {
	case None, Unknown, Rooms, Leave, Who, Help, kinds:
		return Command{Kind: w.kind} // "/who is there?" is meant as /who
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
		// Whoever is called like that cannot exist.
		return w.named(argument, phrase.Args{"name": plaintext.Shorten(quotable(argument), plaintext.MaxName)})
	}
	return Command{}
}

// named takes a name. Without nobody it is a new one, and what is wrong with
// it is told; otherwise it should be a member's.
func (w word) named(argument string, nobody phrase.Args) Command {
	if argument == "" {
		return fault(w.kind, w.usage, nil)
	}
	name, err := plaintext.Name(argument)
	switch {
	case err == nil:
		return Command{Kind: w.kind, Name: name}
	case nobody != nil && nobody["name"] == "":
		return fault(w.kind, w.usage, nil)
	case nobody != nil:
		return fault(w.kind, phrase.NobodyNamed, nobody)
	case errors.Is(err, plaintext.ErrNameLong):
		return fault(w.kind, phrase.NameLong, phrase.Args{"max": plaintext.MaxName})
	default:
		return fault(w.kind, phrase.NameInvalid, nil)
	}
}

// quotable is an argument on one line, to be told back to who wrote it.
func quotable(argument string) string {
	return strings.Join(strings.Fields(plaintext.Clean(argument)), " ")
}

// join takes a room, with a # before it or not.
func join(argument string) Command {
	if argument == "" {
		return Command{Kind: Join}
	}
	room := plaintext.Fold(strings.TrimPrefix(argument, "#"))
	wrong := func(r rune) bool {
		return plaintext.Blank(r) || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '-' && r != '_'
	}
	first, _ := utf8.DecodeRuneInString(room)
	if unicode.IsMark(first) || room == "" || !utf8.ValidString(room) || plaintext.Clean(room) != room ||
		utf8.RuneCountInString(room) > MaxRoom || strings.ContainsFunc(room, wrong) {
		return fault(Join, phrase.RoomInvalid, phrase.Args{"max": MaxRoom})
	}
	return Command{Kind: Join, Room: room}
}

// mute takes a time: "30m", "1h30m", "2 days", "45" (minutes), or "off".
func mute(argument string) Command {
	switch argument = plaintext.Fold(argument); argument {
	case "":
		return Command{Kind: Mute, For: defaultMute}
	case "off", "0", "no", "não", "nao":
		return Command{Kind: Mute}
	}
	d, ok := span(argument)
	if !ok || d < MinMute || d > MaxMute {
		return fault(Mute, phrase.MuteUsage, phrase.Args{"min": phrase.Span(MinMute), "max": phrase.Span(MaxMute)})
	}
	return Command{Kind: Mute, For: d}
}

// span reads numbers each with a unit behind it, known by its first letter; a
// number alone is minutes.
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

// units in English, Portuguese and Spanish. Seconds are of time.Duration's
// own form, which Payload writes.
var units = map[string]time.Duration{
	"":  time.Minute,
	"s": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"minuto": time.Minute, "minutos": time.Minute,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour, "hora": time.Hour, "horas": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"dia": 24 * time.Hour, "dias": 24 * time.Hour, "día": 24 * time.Hour, "días": 24 * time.Hour,
}
