package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/webhook"
)

// hostile holds inputs that no user means well with.
var hostile = map[string]string{
	"markup":             `<script>alert("1")</script><img src=x onerror=alert(1)>`,
	"sql":                `'; DROP TABLE users; -- " OR 1=1`,
	"shell":              "$(reboot) `id` && rm -rf / | cat > /dev/sda; %s%n",
	"template":           "{name} {{7*7}} ${7*7} {room}",
	"controls":           "a\x01b\x1b[2Jc\x7fd\u009be\x00f",
	"controls alone":     "\x01\x02\x1b\u0085",
	"override":           "exe.\u202egpj \u2066x\u2067y",
	"invisible":          "\u200b\u2060\u00ad\ufeff",
	"blank letters":      "\u3164\u2800\u115f",
	"stack of marks":     "Z" + strings.Repeat("\u0336\u0301", 200),
	"marks alone":        strings.Repeat("\u0301", 50),
	"invalid utf-8":      "a\xff\xfe\xc0\x80\xed\xa0\x80b\xf0\x9f",
	"noncharacters":      "\ufdd0\uffff\U0010ffff\ue000",
	"lines":              "hi\nGuest 2: I quit\r\n\r\n\r\n\r\nGuest 3: me too",
	"another's words":    "Guest 2: hello",
	"a colon like one":   "Guest 2\u2236 hello",
	"slashes":            "////// / /",
	"a command":          "/leave now",
	"from right to left": "שלום \u05d0\u061c",
	"64 KB of words":     strings.Repeat("word ", 13108),
	"64 KB of one word":  strings.Repeat("x", 64<<10),
	"64 KB of emoji":     strings.Repeat("😀", 16<<10),
	"64 KB of spaces":    strings.Repeat(" ", 64<<10) + "x",
	"64 KB of lines":     strings.Repeat("\n", 64<<10) + "x",
	"10,000 characters":  strings.Repeat("wörd ", 2000),
	"quotes":             `"'\ \u0000 \\ ` + "`",
	"empty":              "",
	"white space":        " \t\n ",
}

// forms are the places in an event for a user's input. %s is a JSON string.
var forms = map[string]string{
	"text":        `"message":{"mid":%q,"text":%s}`,
	"quick reply": `"message":{"mid":%q,"text":"x","quick_reply":{"payload":%s}}`,
	"postback":    `"postback":{"mid":%q,"title":"x","payload":%s}`,
	"picture":     `"message":{"mid":%q,"attachments":[{"type":"image","payload":{"url":%s}}]}`,
	"type":        `"message":{"mid":%q,"attachments":[{"type":%s,"payload":{"url":"https://h/x"}}]}`,
}

// commands are the beginnings of commands with an argument.
var commands = []string{"/name ", "/block ", "/unblock ", "/report ", "/mute ", "/join ", "//", "/"}

// quote returns s as a JSON string. Bytes that are not UTF-8 stay, which
// encoding/json would replace.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// attack is a room of three users, of whom user 1 is hostile.
type attack struct {
	t    testing.TB
	rig  *rig
	out  queue.Subscription
	next int // event
}

// post gives core the event that webhook makes of an input, and returns the
// messages. ok is false if webhook leaves the event out.
func (a *attack) post(user, form, value string) (out []message.Outbound, ok bool) {
	a.t.Helper()
	a.next++
	mid := fmt.Sprintf("m%d", a.next)
	body := fmt.Sprintf(`{"object":"page","entry":[{"id":"p","messaging":[{"sender":{"id":%q},"timestamp":%d,`+form+`}]}]}`,
		user, 1_000_000+a.next*1000, mid, quote(value))
	parts, err := webhook.Split([]byte(body), time.UnixMilli(1), false)
	if err != nil || len(parts.Bad) > 0 {
		a.t.Fatalf("Split(%.300q) = %v, %d bad, want an event", body, err, len(parts.Bad))
	}
	a.rig.say(a.t, parts.Events...)
	synctest.Wait()
	for _, o := range a.arrived() {
		if !strings.HasPrefix(o.ID, "p/"+mid+"/"+o.To) || len(o.ID) > 255 {
			a.t.Errorf("id of a message = %q, want one of p/%s/%s", o.ID, mid, o.To)
		}
		out = append(out, o)
	}
	return out, len(parts.Events) > 0
}

// arrived takes the messages on the partition.
func (a *attack) arrived() (out []message.Outbound) {
	a.t.Helper()
	for {
		select {
		case d := <-a.out.Deliveries():
			o, err := message.DecodeOutbound(d.Body)
			if err == nil {
				err = d.Ack()
			}
			if err != nil {
				a.t.Fatalf("take a message: %v", err)
			}
			out = append(out, o)
			synctest.Wait()
		default:
			return out
		}
	}
}

// check checks that a message got to both others with the writer's name, or that
// the writer was told why not. Either way the texts are harmless.
func (a *attack) check(what string, out []message.Outbound) {
	a.t.Helper()
	to := map[string]int{}
	for _, o := range out {
		renamed := o.To != "1" && strings.HasPrefix(o.Text, "↻ ") // beside the writer's answer
		if !renamed {
			to[o.To]++
		}
		if n := len(utf16.Encode([]rune(o.Text))); n > 2000 || !utf8.ValidString(o.Text) {
			a.t.Errorf("%s: text of %d UTF-16 units, want at most 2000 and UTF-8", what, n)
		}
		if strings.ContainsFunc(o.Text, dangerous) || o.Attachment == nil && strings.TrimSpace(o.Text) == "" {
			a.t.Errorf("%s: text %.200q, want it harmless and not empty", what, o.Text)
		}
		if o.Attachment != nil && !strings.HasPrefix(o.Attachment.URL, "http") {
			a.t.Errorf("%s: attachment at %.80q, want a web address", what, o.Attachment.URL)
		}
		if lines := strings.Split(o.Text, "\n"); o.To != "1" && slices.ContainsFunc(lines[1:], func(l string) bool { return l != "" && !strings.HasPrefix(l, "↳ ") }) {
			a.t.Errorf("%s: copy %.80q, want a mark before each line but the first", what, o.Text)
		}
		name, _, ok := strings.Cut(o.Text, ": ")
		if o.To == "1" || renamed || o.Attachment != nil || strings.HasPrefix(o.Text, "http") {
			continue
		}
		if !ok || utf8.RuneCountInString(name) > 32 || strings.ContainsAny(name, "\n\t:") || name == "Guest 2" || name == "Guest 3" {
			a.t.Errorf("%s: copy %.80q, want it to begin with the writer's name", what, o.Text)
		}
	}
	if told := to["1"] > 0; told == (to["2"] > 0) || to["2"] != to["3"] {
		a.t.Errorf("%s: messages to the writer %d, to the others %d and %d, want either the writer told or both others reached", what, to["1"], to["2"], to["3"])
	}
}

// dangerous reports whether r may not be in a message. It spells out code points.
func dangerous(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r == 0x2066 || r == 0x2067
}

// withAttack runs a test with three users in a room, and then checks that they can
// still chat and that no message is left.
func withAttack(t *testing.T, test func(*attack)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &attack{t: t, rig: newRig(t)}
		stop := a.rig.start(t)
		var err error
		if a.out, err = a.rig.broker.Consume(a.rig.broker.Topology().Outbound(0), queue.ConsumeOptions{Prefetch: 100}); err != nil {
			t.Fatal(err)
		}
		for _, user := range []string{"1", "2", "3"} {
			a.post(user, forms["postback"], "GET_STARTED")
		}
		test(a)
		a.post("1", forms["text"], "/join 1")
		a.post("1", forms["text"], "/name Mallory")
		var got []string
		out, _ := a.post("1", forms["text"], "bye")
		for _, o := range out {
			got = append(got, o.To+": "+o.Text)
		}
		wantSent(t, "after the attack", got, "2: Mallory: bye", "3: Mallory: bye")
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		if err := a.out.Close(); err != nil {
			t.Errorf("close subscription: %v", err)
		}
		for _, name := range []string{"test.inbound.00", "test.outbound.00", "test.dead"} {
			a.rig.wantQueue(t, name, 0)
		}
	})
}

// TestHostileInput puts each hostile input in each place for input. The short run
// puts it in every fourth place, beginning with another one for each input.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	every := 1
	if testing.Short() {
		every = 4
	}
	for i, name := range slices.Sorted(maps.Keys(hostile)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withAttack(t, func(a *attack) { a.put(hostile[name], i%every, every) })
		})
	}
}

// put puts an input in every n-th place for input.
func (a *attack) put(value string, first, n int) {
	a.t.Helper()
	place := 0
	for _, form := range slices.Sorted(maps.Keys(forms)) {
		if place++; place%n != first {
			continue
		}
		if out, ok := a.post("1", forms[form], value); ok {
			a.check(fmt.Sprintf("%s %.40q", form, value), out)
		}
		a.home()
	}
	for _, command := range commands {
		if place++; place%n != first {
			continue
		}
		out, _ := a.post("1", forms["text"], command+value)
		a.check(fmt.Sprintf("%s%.40q", command, value), out)
		a.home()
	}
}

// home brings the writer back to the others.
func (a *attack) home() {
	a.t.Helper()
	for _, command := range []string{"/join 1", "/mute off", "/unblock Guest 2", "/unblock Guest 3"} {
		a.post("1", forms["text"], command)
	}
}

func FuzzHostileInput(f *testing.F) {
	if testing.Short() {
		f.Skip("long: make test-long; the seeds are the inputs of TestHostileInput")
	}
	for _, value := range hostile {
		if len(value) < 1000 {
			f.Add(value)
		}
	}
	f.Fuzz(func(t *testing.T, value string) {
		withAttack(t, func(a *attack) { a.put(value, 0, 1) })
	})
}
