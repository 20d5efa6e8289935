package fanout

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chatclub/internal/message"
	"chatclub/internal/phrase"
	"chatclub/internal/plaintext"
)

// TestSayProperties checks what holds for every event, name and room.
func TestSayProperties(t *testing.T) {
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
		rapid.StringOfN(rapid.RuneFrom([]rune("ab €😀 \n\x00\u202e\u0301\u200d")), 0, 9000, -1),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		ev := message.Event{
			Kind: rapid.SampledFrom([]message.Kind{message.KindMessage, message.KindPostback}).Draw(t, "kind"),
			Page: "p", ID: "m", User: psid.Draw(t, "user"), Time: 1,
			Text:        text.Draw(t, "text"),
			Attachments: rapid.SliceOfN(attachment, 0, 40).Draw(t, "attachments"),
		}
		name, to := text.Draw(t, "name"), rapid.SliceOfDistinct(psid, rapid.ID).Draw(t, "others")
		checkSay(t, ev, name, to)
	})
}

// failer is a test or a rapid test.
type failer interface {
	Fatalf(format string, args ...any)
}

func checkSay(t failer, ev message.Event, name string, to []string) {
	said, refused := Say(ev, name, ev.Text, unbounded)
	got := said.Copies(ev, to)
	again, _ := Say(ev, name, ev.Text, unbounded)
	if diff := cmp.Diff(got, again.Copies(ev, to)); diff != "" {
		t.Fatalf("Say twice: -first +second\n%s", diff)
	}
	if refused == phrase.FilesLeft || refused == phrase.FileRefused && len(said.parts) > 0 {
		refused = "" // the rest goes through
	}
	if refused != "" && (len(got) > 0 || phrase.Text("en", refused, nil) == string(refused)) {
		t.Fatalf("Say refuses with %q and makes %d messages, want a phrase or messages", refused, len(got))
	}
	seen, parts := map[string]bool{}, map[string][]string{}
	for _, o := range got {
		if seen[o.ID] {
			t.Fatalf("Say: id %q twice", o.ID)
		}
		seen[o.ID] = true
		if o.To == ev.User || !slices.Contains(to, o.To) {
			t.Fatalf("Say: message to %s, want it to a member and never to the sender %s", o.To, ev.User)
		}
		checkMessage(t, o)
		if o.Attachment == nil {
			parts[o.To] = append(parts[o.To], o.Text)
		}
	}
	for _, list := range parts {
		checkParts(t, ev.Text, list)
	}
}

// checkMessage checks that the platform takes the message and that it is safe to
// show.
func checkMessage(t failer, o message.Outbound) {
	if n := len(utf16.Encode([]rune(o.Text))); n > 2000 {
		t.Fatalf("text of %d UTF-16 units, want at most 2000", n)
	}
	if !utf8.ValidString(o.Text) {
		t.Fatalf("text %q is not UTF-8", o.Text)
	}
	if o.Attachment == nil && strings.TrimSpace(o.Text) == "" {
		t.Fatalf("text %q is empty", o.Text)
	}
	for _, r := range o.Text {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r == 0x2066 || r == 0x2067 {
			t.Fatalf("text %q holds %U", o.Text, r)
		}
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

// checkParts checks the texts of one member. Each begins with the same name, and
// the rest of them joined is the text that was written, with a mark on each line
// but the first.
func checkParts(t failer, text string, parts []string) {
	want := plaintext.Clean(text)
	if want == "" {
		return
	}
	want = regexp.MustCompile(`\n([^\n])`).ReplaceAllString(want, "\n↳ $1")
	for _, p := range parts {
		for _, l := range strings.Split(p, "\n")[1:] {
			if l != "" && !strings.HasPrefix(l, "↳ ") {
				t.Fatalf("part %q, want a mark before %q", p, l)
			}
		}
	}
	prefix, _, _ := strings.Cut(parts[0], ": ")
	prefix += ": "
	joined := ""
	for _, p := range parts {
		rest, ok := strings.CutPrefix(p, prefix)
		if joined == want { // a link, or how many attachments more there are
			break
		}
		if !ok || rest == "" || len(rest) > len(want) {
			t.Fatalf("part %q, want %q and a piece of the text", p, prefix)
		}
		joined += rest
	}
	if joined != want {
		t.Fatalf("parts joined = %q, want %q", joined, want)
	}
}

func FuzzSay(f *testing.F) {
	for _, s := range []string{
		"", "Hello", "\x00\x1b[2J", "\u202egpj.exe", "\xff\xfe", strings.Repeat("x", 64<<10), strings.Repeat("😀", 3000),
		"<script>", "'; DROP TABLE users; --", "$(reboot)", "a\nBob: b", strings.Repeat(" ", 5000) + "a", "a" + strings.Repeat("\u0301", 5000),
	} {
		f.Add(s, "Ann", "https://h/x")
		f.Add("x", s, "https://h/x")
		f.Add("", "Ann", s)
	}
	f.Fuzz(func(t *testing.T, text, name, link string) {
		ev := message.Event{Kind: message.KindMessage, Page: "p", ID: "m", User: "7", Text: text}
		for _, kind := range []string{"image", "audio", "reel"} {
			ev.Attachments = append(ev.Attachments, message.Attachment{Type: kind, URL: link})
		}
		checkSay(t, ev, name, []string{"7", "8", "9"})
	})
}
