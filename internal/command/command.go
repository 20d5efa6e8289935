// Package command reads a user's commands, from a text that begins with a slash
// or from the payload of a button or quick reply. Every input becomes one
// Command of a closed set with checked arguments, or with the phrase that says to
// the user what is wrong. Parse never panics. The Payload of a valid command
// parses to the same command.
//
// A command is a slash and a word of letters alone, in upper or lower case, and
// may have white space and invisible characters around it. So "/usr/bin" and "/ hm" are ordinary text.
// Text behind two slashes is ordinary too: "//rooms" is the text "/rooms". A
// word that is no command is Unknown and not passed on, because it is most often
// a misspelt command. The slash and the letters may be fullwidth, as Asian
// keyboards write them. Portuguese and Spanish words exist as well.
package command

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"chatclub/internal/phrase"
	"chatclub/internal/plaintext"
)

// Kind says what a command does.
type Kind int

// Every Kind there is. The zero Kind is None.
const (
	None    Kind = iota // no command but ordinary text
	Start               // let the user in, or tell it where it is; for a button without a command
	Unknown             // a command that does not exist
	Rooms               // list the rooms
	Join                // go to Room, or to any room if that is empty
	Leave               // leave the room
	Name                // change the user's name to Name
	Who                 // list the members
	Block               // exchange no more messages with a person, by Name or Number
	Unblock             // undo Block
	Mute                // get no messages for the time For; 0: get them again
	Report              // tell the operators about a person, by Name or Number
	Help                // list the commands
	kinds               // how many there are
)

const (
	// MaxRoom is the most characters (runes) of a room's name or code.
	MaxRoom = 32
	// MinMute and MaxMute bound For. A user who wants a longer silence leaves.
	MinMute = time.Minute
	MaxMute = 7 * 24 * time.Hour
	// defaultMute is For of /mute without an argument.
	defaultMute = time.Hour
	// maxEcho is the number of characters of an unknown command that the answer quotes.
	maxEcho = 20
)

// Command is a user's wish. Only the arguments of its Kind are set, and none of
// them if Refused is set.
type Command struct {
	Kind   Kind
	Text   string        // None: the text to pass on, as the user wrote it
	Room   string        // Join: a number without zeros in front; or letters and digits, - and _, in lower case
	Name   string        // Name, Block, Unblock, Report: in plaintext.Name's form
	Number int           // Block, Unblock, Report: in the list that Who showed last, from 1; 0: by Name
	For    time.Duration // Mute: 0, or MinMute to MaxMute

	// Refused is the phrase that tells the user why the command does nothing. It
	// is empty for a valid command. Args are the values of the phrase.
	Refused phrase.Key
	Args    phrase.Args
}

// Parse reads a message or the tap of a button. A payload that holds a command
// counts before the text. Any other payload is not ours and counts for nothing.
func Parse(text, payload string) Command {
	if payload != "" {
		if c := parse(payload); c.Kind != None {
			return c
		}
	}
	return parse(text)
}

func parse(text string) Command {
	line, ok := strings.CutPrefix(narrow(strings.TrimSpace(strings.TrimLeftFunc(text, unseen))), "/")
	if !ok {
		return Command{Text: text}
	}
	if strings.HasPrefix(line, "/") {
		return Command{Text: unescape(text)}
	}
	word, argument := line, ""
	if i := strings.IndexFunc(line, unicode.IsSpace); i >= 0 {
		word, argument = line[:i], strings.TrimSpace(line[i:])
	}
	word = strings.TrimFunc(word, unseen)
	folded := plaintext.Fold(word) // a letter and its accent are one character in it
	if word == "" || strings.ContainsFunc(folded, func(r rune) bool { return !unicode.IsLetter(r) }) {
		return Command{Text: text}
	}
	w, ok := words[folded]
	if !ok {
		return refuse(Unknown, phrase.UnknownCommand, phrase.Args{"command": plaintext.Shorten("/"+word, maxEcho)})
	}
	return w.command(argument)
}

// unseen reports whether r cannot be seen. Keyboards for scripts that run from right
// to left put such marks around a word. Its writer takes "\u200f/rooms" for a
// command, and the room must not read it.
func unseen(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || plaintext.Blank(r) }

// unescape returns the text behind the first of two slashes.
func unescape(text string) string {
	_, text, _ = strings.Cut(strings.Replace(text, "／", "/", 1), "/")
	return text
}

// narrow turns the fullwidth characters before the argument into ASCII.
func narrow(text string) string {
	end := strings.IndexFunc(text, unicode.IsSpace)
	if end < 0 {
		end = len(text)
	}
	return strings.Map(func(r rune) rune {
		if r >= '！' && r <= '～' {
			return r - '！' + '!'
		}
		return r
	}, text[:end]) + text[end:]
}

func refuse(kind Kind, key phrase.Key, args phrase.Args) Command {
	return Command{Kind: kind, Refused: key, Args: args}
}

// Payload returns c as the payload of a button or quick reply, in the form in
// which a user could write it. It is far below the 1,000 characters that a
// payload may have. It is empty for None, Start, Unknown and a refused command.
func (c Command) Payload() string {
	if c.Refused != "" {
		return ""
	}
	switch c.Kind {
	case None, Start, Unknown, kinds:
		return ""
	case Rooms, Leave, Who, Help:
		return "/" + c.Kind.String()
	case Join:
		return strings.TrimSpace("/join " + c.Room)
	case Name, Block, Unblock, Report:
		if c.Number > 0 {
			return "/" + c.Kind.String() + " " + strconv.Itoa(c.Number)
		}
		return "/" + c.Kind.String() + " " + c.Name
	case Mute:
		if c.For == 0 {
			return "/mute off"
		}
		return "/mute " + c.For.String()
	}
	return ""
}

// String returns the command's English word, or a name for a Kind without one.
func (k Kind) String() string {
	if k < 0 || k >= kinds {
		return "kind out of range"
	}
	return names[k]
}

var names = [kinds]string{
	None: "none", Start: "start", Unknown: "unknown", Rooms: "rooms", Join: "join", Leave: "leave", Name: "name", Who: "who",
	Block: "block", Unblock: "unblock", Mute: "mute", Report: "report", Help: "help",
}
