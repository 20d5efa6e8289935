package fanout

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chatclub/internal/message"
	"chatclub/internal/rooms"
)

// told is the part of an Outbound that the table below spells out.
type told struct {
	ID, To string
	Class  message.Class
	Text   string
	File   string // type and address
}

func TestCopies(t *testing.T) {
	t.Parallel()
	member := rooms.Result{Room: 3, Name: "Ann", Others: []string{"8", "9"}}
	joined := rooms.Result{Room: 3, Name: "Ann", Joined: true, Others: []string{"8"}}
	file := func(kind, address string) message.Attachment { return message.Attachment{Type: kind, URL: address} }
	const welcome = "Welcome to room 3, Ann! You are with 1 other. Everything you write goes to everybody here."
	for _, tt := range []struct {
		name string
		ev   message.Event
		res  rooms.Result
		want []told
	}{
		{"text", message.Event{Text: "Hello\nall"}, member, []told{
			{"p/m/8", "8", "text", "Ann: Hello\nall", ""},
			{"p/m/9", "9", "text", "Ann: Hello\nall", ""},
		}},
		{"alone", message.Event{Text: "Hello"}, rooms.Result{Room: 3, Name: "Ann"}, nil},
		{"never to the sender", message.Event{Text: "Hello"}, rooms.Result{Name: "Ann", Others: []string{"7"}}, nil},
		{"quick reply", message.Event{Text: "Yes", Payload: "YES"}, joined, []told{
			{"p/m/7", "7", "text", welcome, ""},
			{"p/m/8", "8", "text", "Ann: Yes", ""},
		}},
		{"payload only", message.Event{Payload: "YES"}, member, nil},
		{"first in a room", message.Event{Text: "Hello"}, rooms.Result{Room: 1, Name: "Ann", Joined: true}, []told{
			{"p/m/7", "7", "text", "Welcome to room 1, Ann! You are the first one here. Everything you write goes to everybody here.", ""},
		}},
		{"button of a member", message.Event{Kind: message.KindPostback, Title: "Start", Payload: "START"}, member, []told{
			{"p/m/7", "7", "text", "You are in room 3 with 2 others.", ""},
		}},
		{"button of a newcomer", message.Event{Kind: message.KindPostback}, joined, []told{
			{"p/m/7", "7", "text", welcome, ""},
		}},
		{"picture", message.Event{Attachments: []message.Attachment{file("image", "https://h/a?b=c&d")}}, joined, []told{
			{"p/m/7", "7", "text", welcome, ""},
			{"p/m/8", "8", "text", "Ann sent a picture", ""},
			{"p/m/8/1", "8", "text", "", "image https://h/a?b=c&d"},
		}},
		{"text with files of every type", message.Event{Text: "See", Attachments: []message.Attachment{
			file("audio", "https://h/1"), file("video", "https://h/2"), file("file", "https://h/3"),
			file("sticker", "https://h/4"), file("reel", "https://h/5"),
		}}, joined, []told{
			{"p/m/7", "7", "text", welcome, ""},
			{"p/m/8", "8", "text", "Ann: See", ""},
			{"p/m/8/1", "8", "media", "", "audio https://h/1"},
			{"p/m/8/2", "8", "media", "", "video https://h/2"},
			{"p/m/8/3", "8", "text", "", "file https://h/3"},
			{"p/m/8/4", "8", "text", "", "image https://h/4"},
			{"p/m/8/5", "8", "text", "https://h/5", ""},
		}},
		{"addresses that are none", message.Event{Attachments: []message.Attachment{
			file("image", "javascript:alert(1)"), file("image", "https://h/\u0085"), file("file", "https://h/a b"),
			file("image", "/local"), file("fallback", "https://h/"+strings.Repeat("x", MaxText)), file("image", ""),
		}}, member, nil},
		{"text of control characters", message.Event{Text: "\x00\x1b \u009f\n"}, member, nil},
		{"hostile text and name", message.Event{Text: "a\x00b\tc\r\n<b>\xff"}, rooms.Result{Name: "A\n\x00 n\tn", Others: []string{"8"}}, []told{
			{"p/m/8", "8", "text", "A n n: ab\tc\n<b>\ufffd", ""},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ev := tt.ev
			ev.Page, ev.ID, ev.User, ev.Time = "p", "m", "7", 1234
			if ev.Kind == "" {
				ev.Kind = message.KindMessage
			}
			var got []told
			for _, o := range Copies(ev, tt.res) {
				if o.Page != "p" || o.Time != 1234 {
					t.Errorf("Copies(...) page %q time %d, want p and the event's", o.Page, o.Time)
				}
				g := told{ID: o.ID, To: o.To, Class: o.Class, Text: o.Text}
				if o.Attachment != nil {
					g.File = o.Attachment.Type + " " + o.Attachment.URL
				}
				got = append(got, g)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Copies(%s): -want +got\n%s", tt.name, diff)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	for types, want := range map[string]string{
		"image":            "a picture",
		"audio":            "a voice message",
		"video":            "a video",
		"file":             "a file",
		"sticker":          "a sticker",
		"location":         "a link",
		"image image":      "2 pictures",
		"audio file audio": "3 attachments",
	} {
		var files []file
		for kind := range strings.FieldsSeq(types) {
			files = append(files, relayOne(message.Attachment{Type: kind, URL: "https://h/"}))
		}
		if got := describe(files); got != want {
			t.Errorf("describe(%s) = %q, want %q", types, got, want)
		}
	}
}

func TestTooManyAttachments(t *testing.T) {
	t.Parallel()
	ev := message.Event{Kind: message.KindMessage, Page: "p", ID: "m", User: "7"}
	for i := range 32 {
		ev.Attachments = append(ev.Attachments, message.Attachment{Type: "image", URL: fmt.Sprintf("https://h/%d", i)})
	}
	got := Copies(ev, rooms.Result{Name: "Ann", Others: []string{"8"}})
	if len(got) != 32 || got[0].Text != "Ann sent 30 pictures" || got[31].Text != "… and 2 more" {
		t.Errorf("Copies(32 pictures) = %d messages, %q … %q, want 32 from the words to the rest", len(got), got[0].Text, got[len(got)-1].Text)
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	x, y, euro := strings.Repeat("x", 1999), strings.Repeat("y", 1000), strings.Repeat("€", 1999)
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"fits exactly", x[:1998], []string{"A:" + x[:1998]}},
		{"one too long, one word", x, []string{"A:" + x[:1998], "A:x"}},
		{"characters, not bytes", euro, []string{"A:" + euro[:1998*3], "A:€"}},
		{"at white space", y + " " + y, []string{"A:" + y, "A:" + y}},
		{"white space just behind", x[:1998] + " \n b", []string{"A:" + x[:1998], "A:b"}},
		{"word after an early space is cut", "a " + x, []string{"A:a " + x[:1996], "A:xxx"}},
	} {
		if diff := cmp.Diff(tt.want, split("A:", tt.text)); diff != "" {
			t.Errorf("split(%s): -want +got\n%s", tt.name, diff)
		}
	}
	long := split("A:", strings.Repeat("word ", 100_000))
	if n := len(long); n != 10 || !strings.HasSuffix(long[9], "word…") || utf8.RuneCountInString(long[9]) > 2000 {
		t.Errorf("split(500,000 characters) = %d pieces, the last ending in %q, want 10 and an ellipsis", n, long[n-1][len(long[n-1])-10:])
	}
}

// TestCopiesProperties holds what every event and room must give.
func TestCopiesProperties(t *testing.T) {
	t.Parallel()
	psid := rapid.StringMatching(`[1-9][0-9]{0,2}`)
	attachment := rapid.Custom(func(t *rapid.T) message.Attachment {
		return message.Attachment{
			Type: rapid.SampledFrom([]string{"image", "audio", "video", "file", "sticker", "reel", ""}).Draw(t, "type"),
			URL:  rapid.OneOf(rapid.Just("https://h/x"), rapid.String()).Draw(t, "url"),
		}
	})
	text := rapid.OneOf(
		rapid.String(),
		rapid.StringOfN(rapid.RuneFrom([]rune("ab €😀 \n\x00")), 0, 9000, -1),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		ev := message.Event{
			Kind: rapid.SampledFrom([]message.Kind{message.KindMessage, message.KindPostback}).Draw(t, "kind"),
			Page: "p", ID: "m", User: psid.Draw(t, "user"), Time: 1,
			Text:        text.Draw(t, "text"),
			Attachments: rapid.SliceOfN(attachment, 0, 40).Draw(t, "attachments"),
		}
		res := rooms.Result{
			Room: 1, Name: text.Draw(t, "name"), Joined: rapid.Bool().Draw(t, "joined"),
			Others: rapid.SliceOfDistinct(psid, rapid.ID).Draw(t, "others"),
		}
		got := Copies(ev, res)
		if diff := cmp.Diff(got, Copies(ev, res)); diff != "" {
			t.Fatalf("Copies twice: -first +second\n%s", diff)
		}
		seen := map[string]bool{}
		toSender := 0
		for _, o := range got {
			if seen[o.ID] {
				t.Fatalf("Copies: id %q twice", o.ID)
			}
			seen[o.ID] = true
			if o.To == ev.User {
				toSender++
			}
			if n := utf8.RuneCountInString(o.Text); n > 2000 {
				t.Fatalf("Copies: text of %d characters, want at most 2000", n)
			}
			for _, r := range o.Text {
				if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
					t.Fatalf("Copies: text holds %U", r)
				}
			}
			if !utf8.ValidString(o.Text) {
				t.Fatal("Copies: text is not UTF-8")
			}
			body, err := o.Encode()
			if err != nil {
				t.Fatalf("Encode: %v", err)
			}
			back, err := message.DecodeOutbound(body)
			if err != nil {
				t.Fatalf("DecodeOutbound: %v", err)
			}
			if diff := cmp.Diff(o, back); diff != "" {
				t.Fatalf("decode of the encoded copy: -want +got\n%s", diff)
			}
		}
		wantToSender := 0
		if res.Joined || ev.Kind == message.KindPostback {
			wantToSender = 1
		}
		if toSender != wantToSender {
			t.Fatalf("Copies: %d messages to the sender, want %d", toSender, wantToSender)
		}
	})
}

func BenchmarkCopies(b *testing.B) {
	res := rooms.Result{Room: 1, Name: "Guest 17"}
	for i := range rooms.MaxCapacity - 1 {
		res.Others = append(res.Others, fmt.Sprintf("72057594037927%03d", i))
	}
	ev := message.Event{Kind: message.KindMessage, Page: "100", ID: "m_x", User: "1", Text: "Hello everybody"}
	for b.Loop() {
		if n := len(Copies(ev, res)); n != 99 {
			b.Fatalf("Copies = %d, want 99", n)
		}
	}
}
