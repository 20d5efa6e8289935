package fanout

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
	"chatclub/internal/phrase"
)

// told is the part of an Outbound that the tables below spell out.
type told struct {
	ID, To string
	Class  message.Class
	Text   string
	File   string // type and address
}

// short returns the messages as told, and checks the fields that are the same in
// all of them.
func short(t *testing.T, out []message.Outbound) []told {
	t.Helper()
	var list []told
	for _, o := range out {
		if o.Page != "p" || o.Time != 1234 {
			t.Errorf("message %s is of page %q and time %d, want p and the event's", o.ID, o.Page, o.Time)
		}
		g := told{ID: o.ID, To: o.To, Class: o.Class, Text: o.Text}
		if o.Attachment != nil {
			g.File = o.Attachment.Type + " " + o.Attachment.URL
		}
		list = append(list, g)
	}
	return list
}

func event(ev message.Event) message.Event {
	ev.Page, ev.ID, ev.User, ev.Time = "p", "m", "7", 1234
	if ev.Kind == "" {
		ev.Kind = message.KindMessage
	}
	return ev
}

func TestSay(t *testing.T) {
	t.Parallel()
	file := func(kind, address string) message.Attachment { return message.Attachment{Type: kind, URL: address} }
	for _, tt := range []struct {
		name, from string
		ev         message.Event
		to         []string
		want       []told
		refused    phrase.Key
	}{
		{"text", "Ann", message.Event{Text: "Hello\nall"}, []string{"8", "9"}, []told{
			{"p/m/8", "8", "text", "Ann: Hello\n↳ all", ""},
			{"p/m/9", "9", "text", "Ann: Hello\n↳ all", ""},
		}, ""},
		{"alone", "Ann", message.Event{Text: "Hello"}, nil, nil, ""},
		{"never to the sender", "Ann", message.Event{Text: "Hello"}, []string{"7"}, nil, ""},
		{"quick reply", "Ann", message.Event{Text: "Yes", Payload: "YES"}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: Yes", ""},
		}, ""},
		{"payload only", "Ann", message.Event{Payload: "YES"}, []string{"8"}, nil, ""},
		{"button", "Ann", message.Event{Kind: message.KindPostback, Title: "Start", Text: "x"}, []string{"8"}, nil, ""},
		{"policy", "Ann", message.Event{Kind: message.KindPolicy, Text: "x"}, []string{"8"}, nil, ""},
		{"feedback", "Ann", message.Event{Kind: message.KindFeedback, Text: "x"}, []string{"8"}, nil, ""},
		{"picture", "Ann", message.Event{Attachments: []message.Attachment{file("image", "https://h/a?b=c&d")}}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: 📷", ""},
			{"p/m/8/1", "8", "text", "", "image https://h/a?b=c&d"},
		}, ""},
		{"text with files of every type", "Ann", message.Event{Text: "See", Attachments: []message.Attachment{
			file("audio", "https://h/1"), file("video", "https://h/2"), file("file", "https://h/3"),
			file("sticker", "https://h/4"), file("reel", "https://h/5"),
		}}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: See", ""},
			{"p/m/8/1", "8", "media", "", "audio https://h/1"},
			{"p/m/8/2", "8", "media", "", "video https://h/2"},
			{"p/m/8/3", "8", "text", "", "file https://h/3"},
			{"p/m/8/4", "8", "text", "", "image https://h/4"},
			{"p/m/8/5", "8", "text", "https://h/5", ""},
		}, ""},
		{"addresses that are none", "Ann", message.Event{Attachments: []message.Attachment{
			file("image", "javascript:alert(1)"), file("image", "https://h/\u0085"), file("file", "https://h/a b"),
			file("image", "/local"), file("fallback", "https://h/"+strings.Repeat("x", message.MaxText)), file("image", ""),
			file("image", "https://h/\u202egpj"), file("image", "file:///etc/passwd"), file("image", "https://h/\xff"),
		}}, []string{"8"}, nil, phrase.FileRefused},
		{"one address of two", "Ann", message.Event{Attachments: []message.Attachment{
			file("image", "data:image/png;base64,AAAA"), file("image", "http://h/a"),
		}}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: 📷", ""},
			{"p/m/8/1", "8", "text", "", "image http://h/a"},
		}, phrase.FileRefused},
		{"text with one without an address", "Ann", message.Event{Text: "See", Attachments: []message.Attachment{file("template", "")}}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: See", ""},
		}, phrase.FileRefused},
		{"nothing that can be passed on", "Ann", message.Event{Attachments: []message.Attachment{file("unsupported", "")}}, []string{"8"}, nil, phrase.FileRefused},
		{"place", "Ann", message.Event{Attachments: []message.Attachment{file("location", "https://www.google.com/maps?q=1,2")}}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: 📍", ""},
			{"p/m/8/1", "8", "text", "https://www.google.com/maps?q=1,2", ""},
		}, ""},

		// Events that the platform tells as two.
		{"sticker", "Ann", message.Event{Attachments: []message.Attachment{file("image", "https://h/a"), file("sticker", "https://h/a")}}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: 🏷️", ""},
			{"p/m/8/1", "8", "text", "", "image https://h/a"},
		}, ""},
		{"share and post", "Ann", message.Event{Attachments: []message.Attachment{
			file("share", "https://www.facebook.com/p/1/"), file("post", "http://facebook.com/p/1"), file("fallback", "https://l.facebook.com/l.php?u=https%3A%2F%2FWWW.facebook.com%2Fp%2F1%3Ffbclid%3Dx&h=AT"),
		}}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: 🔗", ""},
			{"p/m/8/1", "8", "text", "https://www.facebook.com/p/1/", ""},
		}, ""},
		{"video and reel", "Ann", message.Event{Attachments: []message.Attachment{file("reel", "https://h/v"), file("video", "https://h/v"), file("video", "https://h/w")}}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: 🎬×2", ""},
			{"p/m/8/1", "8", "media", "", "video https://h/v"},
			{"p/m/8/2", "8", "media", "", "video https://h/w"},
		}, ""},
		{"link and its preview", "Ann", message.Event{Text: "see (a.example/x?b=1&a=2), or https://B.example.", Attachments: []message.Attachment{
			file("fallback", "https://l.facebook.com/l.php?u=https%3A%2F%2Fwww.a.example%2Fx%2F%3Fa%3D2%26b%3D1%26fbclid%3Dy&h=z"), file("fallback", "http://b.example/"), file("share", "https://b.example"),
		}}, []string{"8"}, []told{{"p/m/8", "8", "text", "Ann: see (a.example/x?b=1&a=2), or https://B.example.", ""}}, ""},
		{"link joined to a word", "Ann", message.Event{Text: "look:https://a.example/x\nok", Attachments: []message.Attachment{file("fallback", "https://a.example/x")}}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: look:https://a.example/x\n↳ ok", ""},
		}, ""},
		{"preview of another link", "Ann", message.Event{Text: "https://a.example/x", Attachments: []message.Attachment{
			file("fallback", "https://a.example/y"), file("fallback", "https://b.example/l.php?u=https%3A%2F%2Fa.example%2Fx"), file("fallback", "https://a.example/X"),
		}}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: https://a.example/x", ""},
			{"p/m/8/1", "8", "text", "https://a.example/y", ""},
			{"p/m/8/2", "8", "text", "https://b.example/l.php?u=https%3A%2F%2Fa.example%2Fx", ""},
			{"p/m/8/3", "8", "text", "https://a.example/X", ""},
		}, ""},
		{"picture whose address stands in the text", "Ann", message.Event{Text: "https://h/a.png", Attachments: []message.Attachment{file("image", "https://h/a.png")}}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: https://h/a.png", ""},
			{"p/m/8/1", "8", "text", "", "image https://h/a.png"},
		}, ""},
		{"nothing readable", "Ann", message.Event{Text: "\x00\x1b \u009f\n\u200b"}, []string{"8"}, nil, phrase.TextEmpty},
		{"too long", "Ann", message.Event{Text: strings.Repeat("word ", 13_000)}, []string{"8"}, nil, phrase.TextLong},
		{"64 KB of one character", "Ann", message.Event{Text: strings.Repeat("ä", 32<<10)}, []string{"8"}, nil, phrase.TextLong},

		// Passed on, but made harmless.
		{"controls", "A\n\x00 n\tn", message.Event{Text: "a\x00b\tc\r\n<b>\xff"}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "A n n: ab\tc\n↳ <b>\ufffd", ""},
		}, ""},
		{"overrides", "Ann", message.Event{Text: "exe.\u202egpj"}, []string{"8"}, []told{{"p/m/8", "8", "text", "Ann: exe.gpj", ""}}, ""},
		{"markup and metacharacters", "<i>", message.Event{Text: `<script>$(id)</script>'; DROP TABLE rooms; --`}, []string{"8"}, []told{
			{"p/m/8", "8", "text", `<i>: <script>$(id)</script>'; DROP TABLE rooms; --`, ""},
		}, ""},
		{"a name from right to left", "محمد", message.Event{Text: "hi"}, []string{"8"}, []told{{"p/m/8", "8", "text", "\u2068محمد\u2069: hi", ""}}, ""},
		{"a line that plays another", "Ann", message.Event{Text: "ok\nBob: bye\u2028Cy: me too\r\n\r\n Di: \u0085↳ Eve: hi"}, []string{"8"}, []told{
			{"p/m/8", "8", "text", "Ann: ok\n↳ Bob: bye\n↳ Cy: me too\n\n↳  Di: \n↳ ↳ Eve: hi", ""},
		}, ""},
		{"a name that plays a line", "↳ Bob", message.Event{Text: "hi"}, []string{"8"}, []told{{"p/m/8", "8", "text", "Guest: hi", ""}}, ""},
		{"a name that plays another", "Bob: hi\nAnn", message.Event{Text: "hi"}, []string{"8"}, []told{{"p/m/8", "8", "text", "Guest: hi", ""}}, ""},
		{"no name", "", message.Event{Text: "hi"}, []string{"8"}, []told{{"p/m/8", "8", "text", "Guest: hi", ""}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ev := event(tt.ev)
			said, refused := Say(ev, tt.from, ev.Text, unbounded)
			if refused != tt.refused {
				t.Errorf("Say(%s) refuses with %q, want %q", tt.name, refused, tt.refused)
			}
			if diff := cmp.Diff(tt.want, short(t, said.Copies(ev, tt.to))); diff != "" {
				t.Errorf("Say(%s): -want +got\n%s", tt.name, diff)
			}
		})
	}
}

func TestSayInParts(t *testing.T) {
	t.Parallel()
	x, y := strings.Repeat("x", 1994), strings.Repeat("y", 1500)
	ev := event(message.Event{Attachments: []message.Attachment{{Type: "image", URL: "https://h/a"}}})
	said, refused := Say(ev, "Ann", x+" "+y+" "+y, unbounded)
	want := []told{
		{"p/m/8", "8", "text", "Ann: " + x + " ", ""},
		{"p/m/8/1", "8", "text", "Ann: " + y + " ", ""},
		{"p/m/8/2", "8", "text", "Ann: " + y, ""},
		{"p/m/8/3", "8", "text", "", "image https://h/a"},
	}
	if diff := cmp.Diff(want, short(t, said.Copies(ev, []string{"8"}))); diff != "" || refused != "" {
		t.Errorf("Say(5,000 characters and a picture), refused %q: -want +got\n%s", refused, diff)
	}
}

// TestMarksBelongToTheirLines: a piece never ends with the mark of the next one's
// line, and none is longer than the platform takes.
func TestMarksBelongToTheirLines(t *testing.T) {
	t.Parallel()
	for _, lines := range []string{strings.Repeat("a\n", 2000), strings.Repeat("\n"+strings.Repeat("y", 990), 9), strings.Repeat(strings.Repeat("y", 985)+"\n😀", 9)} {
		for fill := range 12 {
			ev := event(message.Event{Text: strings.Repeat("x", fill) + lines})
			said, _ := Say(ev, "Ann", ev.Text, unbounded)
			for i, part := range said.parts {
				if units := len(utf16.Encode([]rune(part.Text))); units > 2000 || strings.HasSuffix(part.Text, "↳ ") {
					t.Errorf("part %d of %.12q… has %d units and ends with %q", i, ev.Text, units, part.Text[len(part.Text)-8:])
				}
			}
		}
	}
}

// TestLinks checks that a report's addresses are each there once.
func TestLinks(t *testing.T) {
	t.Parallel()
	got := Links([]message.Attachment{{Type: "image", URL: "https://h/a"}, {Type: "x", URL: ""}, {Type: "sticker", URL: "https://h/a"}, {Type: "reel", URL: "https://h/b"}})
	if diff := cmp.Diff([]string{"https://h/a", "https://h/b"}, got); diff != "" {
		t.Errorf("Links: -want +got\n%s", diff)
	}
}

// TestJoins checks which messages may go out in one with others: what a member
// wrote, or words for its files. Files, links and answers go out alone.
func TestJoins(t *testing.T) {
	t.Parallel()
	image, reel := message.Attachment{Type: "image", URL: "https://h/a"}, message.Attachment{Type: "reel", URL: "https://h/b"}
	joins := func(list []message.Outbound) (got string) {
		for _, o := range list {
			got += fmt.Sprintf("%t ", o.Joins)
		}
		return got
	}
	for _, tt := range []struct {
		name, want string
		ev         message.Event
	}{
		{"text", "true true ", message.Event{Text: "Hello"}},
		{"text in two parts", "true true true true ", message.Event{Text: strings.Repeat("word ", 500)}},
		{"text with files", "true false false true false false ", message.Event{Text: "See", Attachments: []message.Attachment{image, reel}}},
		{"files alone", "true false true false ", message.Event{Attachments: []message.Attachment{image}}},
	} {
		ev := event(tt.ev)
		said, _ := Say(ev, "Ann", ev.Text, unbounded)
		if got := joins(said.Copies(ev, []string{"8", "9"})); got != tt.want {
			t.Errorf("%s for two members joins %s, want %s", tt.name, got, tt.want)
		}
	}
	if got := joins(Notice(event(message.Event{}), "7", strings.Repeat("Room 1\n", 500))); got != "false false " {
		t.Errorf("the two parts of an answer join %s, want neither", got)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	for types, want := range map[string]string{
		"image":                  "📷",
		"audio":                  "🎤",
		"video":                  "🎬",
		"file":                   "📎",
		"sticker":                "🏷️",
		"location":               "📍",
		"share":                  "🔗",
		"image image":            "📷×2",
		"audio file audio image": "🎤×2 📎 📷",
	} {
		var files []file
		for kind := range strings.FieldsSeq(types) {
			files = append(files, relayOne(message.Attachment{Type: kind, URL: "https://h/"}))
		}
		if got := describe(files, 0); got != want {
			t.Errorf("describe(%s) = %q, want %q", types, got, want)
		}
	}
}

// unbounded is the Most of a page without limits.
var unbounded = MostOf(message.Limits{}, 1)

// TestMost checks what one message may take of its page: at most 1.7 s of the
// limit of texts, and 10 s of that of media, whose one file is always passed on.
func TestMost(t *testing.T) {
	t.Parallel()
	usual := message.Limits{Text: 300, Media: 10}
	for _, tt := range []struct {
		recipients int
		limits     message.Limits
		want       Most
	}{
		{99, usual, Most{5, 1}},
		{49, usual, Most{10, 2}},
		{19, usual, Most{26, 5}},
		{1, usual, Most{510, 100}},
		{99, message.Limits{Text: 10, Media: 1}, Most{2, 1}},
		{0, usual, unbounded},
	} {
		if got := MostOf(tt.limits, tt.recipients); got != tt.want {
			t.Errorf("MostOf(%v, %d) = %+v, want %+v", tt.limits, tt.recipients, got, tt.want)
		}
	}
	files := func(kind string, n int) (list []message.Attachment) {
		for i := range n {
			list = append(list, message.Attachment{Type: kind, URL: fmt.Sprintf("https://h/%d", i)})
		}
		return list
	}
	long := func(pieces int) string { return strings.Repeat("x", 1990*pieces) }
	for _, tt := range []struct {
		name         string
		ev           message.Event
		recipients   int
		parts        int
		told         phrase.Key
		texts, media time.Duration
	}{
		{"a text", message.Event{Text: "hi"}, 99, 1, "", 330 * time.Millisecond, 0},
		{"a text of five parts", message.Event{Text: long(5)}, 99, 5, "", 1650 * time.Millisecond, 0},
		{"a text of six parts", message.Event{Text: long(6)}, 99, 0, phrase.TextLong, 0, 0},
		{"the same for a few", message.Event{Text: long(6)}, 10, 6, "", 200 * time.Millisecond, 0},
		{"an album", message.Event{Attachments: files("image", 30)}, 99, 5, phrase.FilesLeft, 1650 * time.Millisecond, 0},
		{"the same for a few", message.Event{Attachments: files("image", 30)}, 10, 31, "", 1033333333 * time.Nanosecond, 0},
		{"an album with words", message.Event{Text: "See", Attachments: files("image", 30)}, 99, 5, phrase.FilesLeft, 1650 * time.Millisecond, 0},
		{"a voice message", message.Event{Attachments: files("audio", 1)}, 99, 2, "", 330 * time.Millisecond, 9900 * time.Millisecond},
		{"thirty of them", message.Event{Attachments: files("audio", 30)}, 99, 2, phrase.FilesLeft, 330 * time.Millisecond, 9900 * time.Millisecond},
		{"thirty for one", message.Event{Attachments: files("audio", 30)}, 1, 31, "", 3333333 * time.Nanosecond, 3 * time.Second},
	} {
		ev := event(tt.ev)
		said, told := Say(ev, "Ann", ev.Text, MostOf(usual, tt.recipients))
		if len(said.parts) != tt.parts || told != tt.told {
			t.Errorf("%s for %d makes %d messages for each and tells %q, want %d, %q", tt.name, tt.recipients, len(said.parts), told, tt.parts, tt.told)
		}
		if texts, media := Time(ev, ev.Text, usual, tt.recipients); texts != tt.texts || media != tt.media {
			t.Errorf("Time(%s, %d) = %v, %v, want %v, %v", tt.name, tt.recipients, texts, media, tt.texts, tt.media)
		}
	}
}

// TestAnswersAreMarked: dispatchers let answers pass, but not the word that
// somebody silent has left.
func TestAnswersAreMarked(t *testing.T) {
	t.Parallel()
	said, _ := Say(event(message.Event{Text: "hi"}), "Ann", "hi", unbounded)
	for _, tt := range []struct {
		name string
		out  message.Outbound
		want message.Priority
	}{
		{"a notice", Notice(event(message.Event{}), "7", "Welcome")[0], message.PriorityAnswer},
		{"a notice to somebody silent", Notice(event(message.Event{Kind: message.KindIdle}), "7", "Bye")[0], message.PriorityCopy},
		{"a copy", said.Copies(event(message.Event{}), []string{"8"})[0], message.PriorityCopy},
		{"a broadcast", message.Outbound{Broadcast: "b"}, message.PriorityBroadcast},
	} {
		if got := tt.out.Priority(); got != tt.want {
			t.Errorf("priority of %s = %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestTooManyAttachments(t *testing.T) {
	t.Parallel()
	ev := event(message.Event{})
	for i := range 32 {
		ev.Attachments = append(ev.Attachments, message.Attachment{Type: "image", URL: fmt.Sprintf("https://h/%d", i)})
	}
	said, told := Say(ev, "Ann", "", unbounded)
	if told != phrase.FilesLeft {
		t.Errorf("Say(32 pictures) tells %q, want that files are left", told)
	}
	got := said.Copies(ev, []string{"8"})
	if len(got) != 31 || got[0].Text != "Ann: 📷×30 +2" || got[30].Attachment.URL != "https://h/29" {
		t.Errorf("Say(32 pictures) = %d messages, the first %q, want 31 and the rest in words", len(got), got[0].Text)
	}
	said, _ = Say(ev, "Ann", "See", unbounded)
	got = said.Copies(ev, []string{"8"})
	if len(got) != 32 || got[0].Text != "Ann: See" || got[31].Text != "Ann: +2" {
		t.Errorf("Say(text and 32 pictures) = %d messages, %q … %q, want 32 and the rest in words", len(got), got[0].Text, got[len(got)-1].Text)
	}
}

func TestNotice(t *testing.T) {
	t.Parallel()
	ev := event(message.Event{})
	yes, no := message.QuickReply{Title: "Yes", Payload: "/who"}, message.QuickReply{Title: "No", Payload: "/help"}
	got := Notice(ev, "7", " Really?\x00 ", yes, no)
	if diff := cmp.Diff([]told{{"p/m/7", "7", "text", "Really?", ""}}, short(t, got)); diff != "" {
		t.Errorf("Notice: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]message.QuickReply{yes, no}, got[0].Replies); diff != "" {
		t.Errorf("replies of Notice: -want +got\n%s", diff)
	}
	long := Notice(ev, "7", strings.Repeat("Room 1\n", 500), yes)
	if len(long) != 2 || long[0].ID != "p/m/7" || long[1].ID != "p/m/7/1" || long[0].Replies != nil || len(long[1].Replies) != 1 {
		t.Errorf("Notice(3,500 characters) = %v, want two with the reply below the last", short(t, long))
	}
	many := Notice(ev, "7", "Which?", make([]message.QuickReply, 20)...)
	if n := len(many[0].Replies); n != 13 {
		t.Errorf("Notice with 20 replies has %d, want 13", n)
	}
	if got := Notice(ev, "7", " \x00", yes); got != nil {
		t.Errorf("Notice of nothing = %v, want none", got)
	}
}

func TestReply(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		title, payload string
		want           message.QuickReply
		ok             bool
	}{
		{"jazz: 3 people", "/join jazz", message.QuickReply{Title: "jazz: 3 people", Payload: "/join jazz"}, true},
		{"Block " + strings.Repeat("ä", 30), "/block x", message.QuickReply{Title: "Block ää" + "äääääääääää…", Payload: "/block x"}, true},
		{"two\nlines \u202e", "/who", message.QuickReply{Title: "two lines", Payload: "/who"}, true},
		{"x", strings.Repeat("x", 1000), message.QuickReply{Title: "x", Payload: strings.Repeat("x", 1000)}, true},
		{"x", strings.Repeat("x", 1001), message.QuickReply{}, false},
		{"", "/who", message.QuickReply{}, false},
		{"\x00", "/who", message.QuickReply{}, false},
		{"x", "", message.QuickReply{}, false},
	} {
		got, ok := Reply(tt.title, tt.payload)
		if diff := cmp.Diff(tt.want, got); diff != "" || ok != tt.ok {
			t.Errorf("Reply(%.30q, %.30q) ok %t, want %t: -want +got\n%s", tt.title, tt.payload, ok, tt.ok, diff)
		}
	}
}

func BenchmarkCopies(b *testing.B) {
	var others []string
	for i := range 99 {
		others = append(others, fmt.Sprintf("72057594037927%03d", i))
	}
	ev := message.Event{Kind: message.KindMessage, Page: "100", ID: "m_x", User: "1", Text: "Hello everybody"}
	for b.Loop() {
		said, _ := Say(ev, "Guest 17", ev.Text, unbounded)
		if n := len(said.Copies(ev, others)); n != 99 {
			b.Fatalf("Copies = %d, want 99", n)
		}
	}
}

// TestRename checks the line that tells of another name, and that no member can
// write one.
func TestRename(t *testing.T) {
	t.Parallel()
	ev := event(message.Event{Text: "hi\n↻ Cy → Di"})
	said, _ := Say(ev, "↻ Ann → Bob", ev.Text, unbounded)
	want := []told{
		{"p/m/8", "8", "text", "↻ Ann → \u2068محمد\u2069", ""},
		{"p/m/8/1", "8", "text", "Guest: hi\n↳ ↻ Cy → Di", ""},
	}
	if diff := cmp.Diff(want, short(t, Rename("Ann", "محمد").Then(said).Copies(ev, []string{"7", "8"}))); diff != "" {
		t.Errorf("Rename().Then(Say()): -want +got\n%s", diff)
	}
}

// TestJoinedLines checks that of texts that go out as one message each line is
// somebody's, or is marked.
func TestJoinedLines(t *testing.T) {
	t.Parallel()
	var list []message.Outbound
	for i, text := range []string{"ok\nBob: my number is 555", "\nBob: hello\n\nBob: bye\n", "one"} {
		ev := event(message.Event{Text: text})
		ev.ID = fmt.Sprint("m", i)
		said, _ := Say(ev, "Ann", text, unbounded)
		list = append(list, said.Copies(ev, []string{"8"})...)
	}
	o, n := message.Join(list, 8)
	if want := "Ann: ok\n↳ Bob: my number is 555\nAnn: Bob: hello\n\n↳ Bob: bye\nAnn: one"; o.Text != want || n != 3 {
		t.Errorf("Join() = %q of %d, want %q of 3", o.Text, n, want)
	}
}
