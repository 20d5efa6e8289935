// Package command reads what a user wants of chatclub: from a text that begins
// with a slash, or from the payload of a button or quick reply. Every input
// becomes one Command of a closed set, whose arguments are checked; what is
// wrong with it is a phrase for the user. Parse never panics, and the Payload
// of a valid command parses to that command again.
//
// A command is a slash and a word of letters alone, in upper or lower case,
// with white space around it or not. So "/usr/bin" and "/ hm" are ordinary
// text, and so is what follows two slashes: "//rooms" says "/rooms". A word
// that is no command is Unknown and not passed on, since it is most often a
// command misspelt. The slash and the letters may be fullwidth, as Asian
// keyboards write them. The words exist in Portuguese and Spanish, too.
package command

import (
	"strings"
	"time"
	"unicode"

	"chatclub/internal/phrase"
	"chatclub/internal/plaintext"
)

// Kind is what is wanted.
type Kind int

// Every Kind there is. The zero Kind is None.
const (
	None    Kind = iota // no command but ordinary text
	Unknown             // a command that there is not
	Rooms               // list the rooms
	Join                // go to Room; if that is empty, to any
	Leave               // leave the room
	Name                // be called Name
	Who                 // list the members
	Block               // exchange nothing with Name any more
	Unblock             // undo that
	Mute                // get nothing for the time For; if that is 0, get everything again
	Report              // tell the operators about Name
	Help                // list the commands
	kinds               // how many there are
)

const (
	// MaxRoom is the most characters (runes) of a room's name or code.
	MaxRoom = 32
	// MinMute and MaxMute bound For. Who wants peace for longer leaves.
	MinMute = time.Minute
	MaxMute = 7 * 24 * time.Hour
	// defaultMute is that of /mute alone.
	defaultMute = time.Hour
	// maxEcho is how much of an unknown command is told back.
	maxEcho = 20
)

// Command is what a user wants. Of the arguments only those of its Kind are
// set, and when Fault is set none is.
type Command struct {
	Kind Kind
	Text string        // None: what to pass on, still as the user wrote it
	Room string        // Join: letters and digits, - and _, in lower case
	Name string        // Name, Block, Unblock, Report: as plaintext.Name gives it
	For  time.Duration // Mute: 0, or MinMute to MaxMute

	// Fault is what to tell the user instead of doing anything, "" if the
	// command is valid; Args are its values.
	Fault phrase.Key
	Args  phrase.Args
}

// Parse reads a message or the tap of a button. A payload that holds a command
// is one; of any other payload, which is somebody else's, the text counts.
func Parse(text, payload string) Command {
	if payload != "" {
		if c := parse(payload); c.Kind != None {
			return c
		}
	}
	return parse(text)
}

func parse(text string) Command {
	line, ok := strings.CutPrefix(narrow(strings.TrimSpace(text)), "/")
	if !ok {
		return Command{Text: text}
	}
	if strings.HasPrefix(line, "/") {
		return Command{Text: escaped(text)}
	}
	word, argument := line, ""
	if i := strings.IndexFunc(line, unicode.IsSpace); i >= 0 {
		word, argument = line[:i], strings.TrimSpace(line[i:])
	}
	folded := plaintext.Fold(word) // in which a letter with its accent is one character
	if word == "" || strings.ContainsFunc(folded, func(r rune) bool { return !unicode.IsLetter(r) }) {
		return Command{Text: text}
	}
	w, ok := words[folded]
	if !ok {
		return fault(Unknown, phrase.UnknownCommand, phrase.Args{"command": plaintext.Shorten("/"+word, maxEcho)})
	}
	return w.command(argument)
}

// escaped is the text behind the first of two slashes.
func escaped(text string) string {
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

func fault(kind Kind, key phrase.Key, args phrase.Args) Command {
	return Command{Kind: kind, Fault: key, Args: args}
}

// Payload is c as the payload of a button or quick reply, which is what a user
// could write. It is empty for None, Unknown and a command with a Fault, and
// far below the 1,000 characters that a payload may have.
func (c Command) Payload() string {
	if c.Fault != "" {
		return ""
	}
	switch c.Kind {
	case None, Unknown, kinds:
		return ""
	case Rooms, Leave, Who, Help:
		return "/" + c.Kind.String()
	case Join:
		return strings.TrimSpace("/join " + c.Room)
	case Name, Block, Unblock, Report:
		return "/" + c.Kind.String() + " " + c.Name
	case Mute:
		if c.For == 0 {
			return "/mute off"
		}
		return "/mute " + c.For.String()
	}
	return ""
}

// String is the command's English word, for a Kind that has none a name for it.
func (k Kind) String() string {
	if k < 0 || k >= kinds {
		return "kind out of range"
	}
	return names[k]
}

var names = [kinds]string{
	None: "none", Unknown: "unknown", Rooms: "rooms", Join: "join", Leave: "leave", Name: "name", Who: "who",
	Block: "block", Unblock: "unblock", Mute: "mute", Report: "report", Help: "help",
}
