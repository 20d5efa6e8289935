package command

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/phrase"
	"chatclub/internal/plaintext"
)

func TestParse(t *testing.T) {
	t.Parallel()
	text := func(s string) Command { return Command{Text: s} }
	long := strings.Repeat("x", 31)
	badRoom := Command{Kind: Join, Refused: phrase.RoomInvalid, Args: phrase.Args{"max": 32}}
	noRoom := func(room string) Command {
		return Command{Kind: Join, Refused: phrase.RoomUnknown, Args: phrase.Args{"room": room}}
	}
	badTime := Command{Kind: Mute, Refused: phrase.MuteUsage, Args: phrase.Args{"min": "1 min", "max": "7 d"}}
	unknown := func(word string) Command {
		return Command{Kind: Unknown, Refused: phrase.UnknownCommand, Args: phrase.Args{"command": word}}
	}
	for _, tt := range []struct {
		text string
		want Command
	}{
		// Ordinary text.
		{"", text("")},
		{"hello", text("hello")},
		{" hello /join ", text(" hello /join ")},
		{"/", text("/")},
		{"/ hm", text("/ hm")},
		{"/usr/bin/env", text("/usr/bin/env")},
		{"/r/golang is nice", text("/r/golang is nice")},
		{"/2", text("/2")},
		{"/:", text("/:")},
		{"/join!", text("/join!")},
		{"//", text("/")},
		{"//join jazz", text("/join jazz")},
		{" // a comment", text("/ a comment")},
		{"\u200f//rooms", text("/rooms")},
		{"\u200fhello", text("\u200fhello")},
		{"/\u200b", text("/\u200b")},
		{"／／join", text("／join")},
		{"\\join", text("\\join")},

		// Words.
		{"/rooms", Command{Kind: Rooms}},
		{" /ROOMS \n", Command{Kind: Rooms}},
		{"／ｒｏｏｍｓ", Command{Kind: Rooms}},
		{"/rooms please", Command{Kind: Rooms}},
		{"\u200b/rooms", Command{Kind: Rooms}},
		{" \u200f \ufeff/rooms\u200f", Command{Kind: Rooms}},
		{"\u202b\x01/rooms", Command{Kind: Rooms}},
		{"/\u200erooms", Command{Kind: Rooms}},
		{"\u200f/block\u200f Bo", Command{Kind: Block, Name: "Bo"}},
		{"/leave", Command{Kind: Leave}},
		{"/Sair", Command{Kind: Leave}},
		{"/who", Command{Kind: Who}},
		{"/QUIÉN", Command{Kind: Who}},
		{"/quie\u0301n", Command{Kind: Who}}, // the accent is a character of its own
		{"/help", Command{Kind: Help}},
		{"/ayuda", Command{Kind: Help}},
		{"/jion jazz", unknown("/jion")},
		{"/shrug", unknown("/shrug")},
		{"/" + strings.Repeat("ä", 50), unknown("/" + strings.Repeat("ä", 18) + "…")},

		// Rooms.
		{"/join", Command{Kind: Join}},
		{"/join jazz", Command{Kind: Join, Room: "jazz"}},
		{"/join\tJAZZ-2_a", Command{Kind: Join, Room: "jazz-2_a"}},
		{"/join #7", Command{Kind: Join, Room: "7"}},
		{"／ｊｏｉｎ　música", Command{Kind: Join, Room: "música"}},
		{"/join mu\u0301sica", Command{Kind: Join, Room: "música"}},
		{"/join jaz\u034fz", badRoom},
		{"/join jaz\u3164z", badRoom},
		{"/join jazz\ufe0f", badRoom},
		{"/join " + strings.Repeat("ö", 32), Command{Kind: Join, Room: strings.Repeat("ö", 32)}},
		{"/join " + strings.Repeat("ö", 33), badRoom},
		{"/join two words", badRoom},
		{"/join #", badRoom},
		{"/join a/b", badRoom},
		{"/join a'; DROP TABLE rooms", badRoom},
		{"/join \xff", badRoom},
		{"/join \u0301a", badRoom},
		{"/join a" + strings.Repeat("\u0301", 9), badRoom},

		// A word that looks like a number is one.
		{"/join 007", Command{Kind: Join, Room: "7"}},
		{"/join ١٢", Command{Kind: Join, Room: "12"}},
		{"/join １２", Command{Kind: Join, Room: "12"}},
		{"/join 000", Command{Kind: Join, Room: "0"}},
		{"/join 999999999", Command{Kind: Join, Room: "999999999"}},
		{"/join 1000000000", noRoom("1000000000")},
		{"/join 99999999999999999999999", noRoom("9999999999999999999…")},
		{"/join -1", noRoom("-1")},
		{"/join 7-2", Command{Kind: Join, Room: "7-2"}},
		{"/join 7th", Command{Kind: Join, Room: "7th"}},

		// Names.
		{"/name Ann  Lee", Command{Kind: Name, Name: "Ann Lee"}},
		{"/nick Ann", Command{Kind: Name, Name: "Ann"}},
		{"/name A\u034fna", Command{Kind: Name, Name: "Ana"}},
		{"/block Jose\u0301", Command{Kind: Block, Name: "José"}},
		{"/name", Command{Kind: Name, Refused: phrase.NameUsage}},
		{"/name Ann: hi", Command{Kind: Name, Refused: phrase.NameInvalid}},
		{"/name /who", Command{Kind: Name, Refused: phrase.NameInvalid}},
		{"/name \u202e", Command{Kind: Name, Refused: phrase.NameInvalid}},
		{"/name " + long, Command{Kind: Name, Refused: phrase.NameLong, Args: phrase.Args{"max": 30}}},
		{"/block Guest 17", Command{Kind: Block, Name: "Guest 17"}},
		{"/block\nGuest\n17", Command{Kind: Block, Name: "Guest 17"}},
		{"/block", Command{Kind: Block, Refused: phrase.BlockUsage}},
		{"/block \u200b", Command{Kind: Block, Refused: phrase.BlockUsage}},
		{"/block a:b", Command{Kind: Block, Refused: phrase.NoMember, Args: phrase.Args{"name": "a:b"}}},
		{"/unblock " + long, Command{Kind: Unblock, Refused: phrase.NoMember, Args: phrase.Args{"name": long[:29] + "…"}}},
		{"/unblock", Command{Kind: Unblock, Refused: phrase.UnblockUsage}},
		{"/report ann", Command{Kind: Report, Name: "ann"}},
		{"/report", Command{Kind: Report, Refused: phrase.ReportUsage}},

		{"/block 3", Command{Kind: Block, Number: 3}},
		{"/report #03", Command{Kind: Report, Number: 3}},
		{"/unblock 12.", Command{Kind: Unblock, Number: 12}},
		{"/block ٣", Command{Kind: Block, Number: 3}},
		{"/block 3 Ann", Command{Kind: Block, Name: "3 Ann"}},
		{"/block 0", Command{Kind: Block, Refused: phrase.NoNumber, Args: phrase.Args{"number": "0"}}},
		{"/block " + strings.Repeat("9", 40), Command{Kind: Block, Refused: phrase.NoNumber, Args: phrase.Args{"number": strings.Repeat("9", 29) + "…"}}},

		// Times.
		{"/mute", Command{Kind: Mute, For: time.Hour}},
		{"/mute 1h", Command{Kind: Mute, For: time.Hour}},
		{"/mute 1H 30Min", Command{Kind: Mute, For: 90 * time.Minute}},
		{"/mute 1h30m0s", Command{Kind: Mute, For: 90 * time.Minute}},
		{"/silenciar 2 horas", Command{Kind: Mute, For: 2 * time.Hour}},
		{"/mute 45", Command{Kind: Mute, For: 45 * time.Minute}},
		{"/mute 7 days", Command{Kind: Mute, For: 168 * time.Hour}},
		{"/mute off", Command{Kind: Mute}},
		{"/mute 0", Command{Kind: Mute}},
		{"/unmute", Command{Kind: Mute}},
		{"/mute 8d", badTime},
		{"/mute 30s", badTime},
		{"/mute -5m", badTime},
		{"/mute 1.5h", badTime},
		{"/mute 1y", badTime},
		{"/mute Ann", badTime},
		{"/mute 99999999999999999999h", badTime},
		{"/mute 9999999h9999999h", badTime},
	} {
		if diff := cmp.Diff(tt.want, Parse(tt.text, "")); diff != "" {
			t.Errorf("Parse(%q): -want +got\n%s", tt.text, diff)
		}
	}
}

// TestParsePayload checks that a payload with a command counts before the text,
// and any other payload for nothing.
func TestParsePayload(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text, payload string
		want          Command
	}{
		{"jazz: 3 people", "/join jazz", Command{Kind: Join, Room: "jazz"}},
		{"/leave", "/join jazz", Command{Kind: Join, Room: "jazz"}},
		{"Yes", "YES", Command{Text: "Yes"}},
		{"/who", "YES", Command{Kind: Who}},
		{"", "GET_STARTED", Command{}},
		{"", "/bogus", Command{Kind: Unknown, Refused: phrase.UnknownCommand, Args: phrase.Args{"command": "/bogus"}}},
	} {
		if diff := cmp.Diff(tt.want, Parse(tt.text, tt.payload)); diff != "" {
			t.Errorf("Parse(%q, %q): -want +got\n%s", tt.text, tt.payload, diff)
		}
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Command{
		"/rooms":                            {Kind: Rooms},
		"/join":                             {Kind: Join},
		"/join jazz":                        {Kind: Join, Room: "jazz"},
		"/leave":                            {Kind: Leave},
		"/name Ann Lee":                     {Kind: Name, Name: "Ann Lee"},
		"/who":                              {Kind: Who},
		"/block " + strings.Repeat("日", 30): {Kind: Block, Name: strings.Repeat("日", 30)},
		"/unblock 🦊":                        {Kind: Unblock, Name: "🦊"},
		"/unblock 7":                        {Kind: Unblock, Number: 7},
		"/mute 1h30m0s":                     {Kind: Mute, For: 90 * time.Minute},
		"/mute off":                         {Kind: Mute},
		"/report Ann":                       {Kind: Report, Name: "Ann"},
		"/help":                             {Kind: Help},
	} {
		if got := c.Payload(); got != want {
			t.Errorf("Payload of %v = %q, want %q", c, got, want)
		}
		if diff := cmp.Diff(c, Parse("", want)); diff != "" {
			t.Errorf("Parse of payload %q: -want +got\n%s", want, diff)
		}
	}
	for _, c := range []Command{{}, {Text: "hi"}, {Kind: Start}, {Kind: Unknown}, {Kind: kinds}, {Kind: Block, Refused: phrase.BlockUsage}} {
		if got := c.Payload(); got != "" {
			t.Errorf("Payload of %v = %q, want none", c, got)
		}
	}
}

// TestEveryKindHasAWord checks that no command is without a word.
func TestEveryKindHasAWord(t *testing.T) {
	t.Parallel()
	for k := Rooms; k < kinds; k++ {
		w, ok := words[k.String()]
		if !ok || w.kind != k {
			t.Errorf("word /%s means %v, want %v", k, w.kind, k)
		}
		if c := Parse("/"+k.String()+" 1h", ""); c.Kind != k || c.Refused != "" {
			t.Errorf("Parse(/%s 1h) = %v, want a valid %v", k, c, k)
		}
	}
	for w := range words {
		if plaintext.Fold(w) != w {
			t.Errorf("word %q is not folded, so no user can write it", w)
		}
	}
	if got := kinds.String(); got != "kind out of range" {
		t.Errorf("kinds.String() = %q, want no name", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "hello", "/", "//x", "/join jazz", "/join #\xff", "/mute 1h30m", "/mute 99999999999h", "/block \u202eAnn",
		"／ｎａｍｅ　Ann", "/name " + strings.Repeat("x", 1<<16), "/name Ann: x", "/\x00", "/unmute", "/ſhort", "/report '; DROP TABLE users; --",
	} {
		f.Add(s, "")
		f.Add("x", s)
	}
	f.Fuzz(func(t *testing.T, text, payload string) {
		c := Parse(text, payload)
		switch {
		case c.Kind == None:
			if c.Refused != "" || c.Payload() != "" || !strings.HasSuffix(text, c.Text) && !strings.HasSuffix(payload, c.Text) {
				t.Errorf("Parse(%q, %q) = %+v, want the text", text, payload, c)
			}
		case c.Refused != "":
			if c.Room != "" || c.Name != "" || c.For != 0 || c.Payload() != "" {
				t.Errorf("Parse(%q, %q) = %+v, want no argument in a refused command", text, payload, c)
			}
			for name, v := range c.Args {
				s, ok := v.(string)
				if ok && (!utf8.ValidString(s) || utf8.RuneCountInString(s) > 40 || plaintext.Clean(s) != s) {
					t.Errorf("Parse(%q, %q): %s is %q, want it short and harmless", text, payload, name, s)
				}
			}
			if said := phrase.Text("en", c.Refused, c.Args); said == string(c.Refused) || strings.Contains(said, "{") && !strings.Contains(text+payload, "{") {
				t.Errorf("Parse(%q, %q) is answered %q, want a text with all values", text, payload, said)
			}
		default:
			back := Parse("", c.Payload())
			if diff := cmp.Diff(c, back); diff != "" {
				t.Errorf("Parse of the payload %q of Parse(%q, %q): -want +got\n%s", c.Payload(), text, payload, diff)
			}
			if n := utf8.RuneCountInString(c.Payload()); n > 1000 {
				t.Errorf("payload of Parse(%q, %q) has %d characters, want at most 1,000", text, payload, n)
			}
		}
	})
}
