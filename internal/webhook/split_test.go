package webhook

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chatclub/internal/message"
)

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFixtures sends every body of testdata with its signature, which another
// tool made, and compares the results with the table of testdata/README.md.
func TestFixtures(t *testing.T) {
	t.Parallel()
	want := make(map[string]int)
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z-]+) \| (\d+) \|$`).FindAllSubmatch(readFile(t, "README.md"), -1) {
		n, err := strconv.Atoi(string(row[2]))
		if err != nil {
			t.Fatal(err)
		}
		want[string(row[1])] = n
	}
	bad := map[string]struct{ code, dead int }{
		"bad-truncated": {200, 1}, "bad-not-json": {400, 0}, "bad-types": {200, 1}, "bad-object": {404, 0},
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) != len(want)+len(bad) || len(want) != 13 {
		t.Fatalf("testdata has %d bodies, %v, want the README's %d good and %d bad", len(files), err, len(want), len(bad))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil)
			body := readFile(t, name+".json")
			w := f.do("POST", "/webhook", bytes.NewReader(body), SignatureHeader, string(readFile(t, name+".sig")))
			code, dead := 200, 0
			if b, ok := bad[name]; ok {
				code, dead = b.code, b.dead
			}
			if w.Code != code {
				t.Errorf("POST %s = %d, want %d", name, w.Code, code)
			}
			if got := len(events(t, f.published.inbound())); got != want[name] {
				t.Errorf("POST %s enqueued %d events, want %d", name, got, want[name])
			}
			if got := len(f.published.on("test.dead")); got != dead {
				t.Errorf("POST %s made %d dead letters, want %d", name, got, dead)
			}
			if got := len(f.published.batches); got > 1 {
				t.Errorf("POST %s published %d batches, want at most 1", name, got)
			}
		})
	}
}

func TestFixtureEvents(t *testing.T) {
	t.Parallel()
	const page, user = "106378625516323", "5276542345678901"
	rows := map[string][]message.Event{
		"text": {{Kind: message.KindMessage, Page: page, ID: "m_jv8YxTqk0001", User: user, Time: 1763600000100, Text: "oi"}},
		"text-unicode": {{
			Kind: message.KindMessage, Page: page, ID: "m_jv8YxTqk0002", User: "5276542345678902", Time: 1763600001100,
			Text: "äöå 50% <b> a/b @maria 👋🏽",
		}},
		"attachment": {{
			Kind: message.KindMessage, Page: page, ID: "m_jv8YxTqk0007", User: user, Time: 1763600004100,
			Attachments: []message.Attachment{{Type: "image", URL: "https://cdn.example/a.jpg?x=1&y=2"}, {Type: "audio", URL: "https://cdn.example/b.ogg"}},
		}},
		"postback": {{
			Kind: message.KindPostback, Page: page, ID: "m_jv8YxTqk0008", User: user, Time: 1763600005100,
			Title: "Entrar", Payload: "JOIN:praia",
		}},
		"quick-reply": {{
			Kind: message.KindMessage, Page: page, ID: "m_jv8YxTqk0009", User: user, Time: 1763600006100, Text: "Sim", Payload: "YES",
		}},
		"policy": {{Kind: message.KindPolicy, Page: page, Time: 1763600009100, Action: "block", Reason: "spam"}},
		"reply-deleted": {{
			Kind: message.KindMessage, Page: page, ID: "m_jv8YxTqk0012", User: "5276542345678902", Time: 1763600011101,
			Text: "re", ReplyTo: "m_jv8YxTqk0003",
		}},
	}
	for name, want := range rows {
		got, err := Split(readFile(t, name+".json"), time.UnixMilli(1763600020000), false)
		if err != nil {
			t.Errorf("Split(%s) = %v, want nil", name, err)
		}
		if name == "policy" {
			if id := got.Events[0].ID; !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
				t.Errorf("Split(policy) id = %q, want 32 hexadecimal digits", id)
			}
			got.Events[0].ID = ""
		}
		if diff := cmp.Diff(want, got.Events); diff != "" {
			t.Errorf("Split(%s): -want +got\n%s", name, diff)
		}
	}
}

// onPage returns a body with the items in page 1's entry.
func onPage(items ...string) string {
	return `{"object":"page","entry":[{"id":"1","time":1763600000009,"messaging":[` + strings.Join(items, ",") + `]}]}`
}

// writes returns an item in which user 2 writes the message.
func writes(m string) string {
	return `{"sender":{"id":"2"},"timestamp":1763600000004,"message":` + m + `}`
}

func TestSplit(t *testing.T) {
	t.Parallel()
	ev := func(change func(*message.Event)) []message.Event {
		e := message.Event{Kind: message.KindMessage, Page: "1", ID: "m", User: "2", Time: 1763600000004}
		change(&e)
		return []message.Event{e}
	}
	text := func(s string) []message.Event { return ev(func(e *message.Event) { e.Text = s }) }
	long := strings.Repeat("l", 181)
	rows := []struct {
		name, body string
		events     []message.Event
		skipped    map[Skip]int
		bad        []string
	}{
		{"no entries", `{"object":"page","entry":[]}`, nil, nil, nil},
		{"entry missing", `{"object":"page"}`, nil, nil, []string{`{"object":"page"}`}},
		{"entry null", `{"object":"page","entry":null}`, nil, nil, []string{`{"object":"page","entry":null}`}},
		{"two values", `{"object":"page","entry":[]}{}`, nil, nil, []string{`{"object":"page","entry":[]}{}`}},
		{"entry a string", `{"object":"page","entry":["x"]}`, nil, nil, []string{`{"object":"page","entry":["x"]}`}},
		{"entry without id", `{"object":"page","entry":[{"messaging":[]}]}`, nil, nil, []string{`{"object":"page","entry":[{"messaging":[]}]}`}},
		{"feed change", `{"object":"page","entry":[{"id":"1","changes":[{}]}]}`, nil, map[Skip]int{SkipUnknown: 1}, nil},
		{"standby and messaging", `{"object":"page","entry":[{"id":"1","standby":[1,2],"messaging":[` + writes(`{"mid":"m","text":"a"}`) + `]}]}`, text("a"), map[Skip]int{SkipStandby: 2}, nil},

		{"time of the entry", onPage(`{"sender":{"id":"2"},"message":{"mid":"m","text":"a"}}`), ev(func(e *message.Event) { e.Text, e.Time = "a", 1763600000009 }), nil, nil},
		{"no time", `{"object":"page","entry":[{"id":"1","messaging":[{"sender":{"id":"2"},"message":{"mid":"m","text":"a"}}]}]}`, ev(func(e *message.Event) { e.Text, e.Time = "a", 1763600000007 }), nil, nil},
		{"no sender", onPage(`{"message":{"mid":"m","text":"a"}}`), nil, nil, []string{onPage(`{"message":{"mid":"m","text":"a"}}`)}},
		{"no mid", onPage(writes(`{"text":"a"}`)), nil, nil, []string{onPage(writes(`{"text":"a"}`))}},
		{"mid of NULs", onPage(writes(`{"mid":"\u0000","text":"a"}`)), nil, nil, []string{onPage(writes(`{"mid":"\u0000","text":"a"}`))}},
		{"sender too long", onPage(strings.Replace(writes(`{"mid":"m","text":"a"}`), `"2"`, `"`+long+`"`, 1)), nil, nil, []string{onPage(strings.Replace(writes(`{"mid":"m","text":"a"}`), `"2"`, `"`+long+`"`, 1))}},
		{"text a number", onPage(writes(`{"mid":"m","text":1}`)), nil, nil, []string{onPage(writes(`{"mid":"m","text":1}`))}},
		{"item null", onPage(`null`), nil, map[Skip]int{SkipUnknown: 1}, nil},

		{"NULs in text", onPage(writes(`{"mid":"m","text":"a\u0000b"}`)), text("ab"), nil, nil},
		{"invalid UTF-8", onPage(writes("{\"mid\":\"m\",\"text\":\"a\xff\"}")), text("a\uFFFD"), nil, nil},
		{"half a surrogate pair", onPage(writes(`{"mid":"m","text":"a\ud83d"}`)), text("a\uFFFD"), nil, nil},
		{"mid as formerly", onPage(writes(`{"mid":"mid.$cAAD","text":"a"}`)), ev(func(e *message.Event) { e.ID, e.Text = "mid.$cAAD", "a" }), nil, nil},

		{"empty message", onPage(writes(`{"mid":"m"}`)), ev(func(e *message.Event) { e.Attachments = []message.Attachment{{Type: "unsupported"}} }), nil, nil},
		{"echo", onPage(writes(`{"mid":"m","is_echo":true,"text":"a"}`)), nil, map[Skip]int{SkipEcho: 1}, nil},
		{"page writes to itself", onPage(strings.Replace(writes(`{"mid":"m","text":"a"}`), `"2"`, `"1"`, 1)), nil, map[Skip]int{SkipEcho: 1}, nil},
		{"deleted", onPage(writes(`{"mid":"m","is_deleted":true}`)), nil, map[Skip]int{SkipDeleted: 1}, nil},
		{
			"others", onPage(`{"delivery":{}}`, `{"read":{}}`, `{"reaction":{}}`, `{"referral":{}}`, `{"optin":{}}`, `{"delivery":null}`, `{}`), nil,
			map[Skip]int{SkipDelivery: 1, SkipRead: 1, SkipReaction: 1, SkipReferral: 1, SkipOptIn: 1, SkipUnknown: 2},
			nil,
		},

		{
			"attachments of every kind",
			onPage(writes(`{"mid":"m","text":"a","attachments":[{"type":"image","payload":{"url":"u1","sticker_id":369239263222822}},{"type":"reel","payload":{"url":"u2","reel_video_id":1}},{"type":"fallback","title":"t","url":"u3","payload":null},{"type":"location","payload":{"coordinates":{"lat":1}}},{"type":"template","payload":[]},{"payload":{"url":"u4"}}]}`)),
			ev(func(e *message.Event) {
				e.Text = "a"
				e.Attachments = []message.Attachment{
					{Type: "sticker", URL: "u1"},
					{Type: "reel", URL: "u2"},
					{Type: "fallback", URL: "u3"},
					{Type: "location"},
					{Type: "template"},
					{URL: "u4"},
				}
			}),
			nil, nil,
		},
		{"sticker told twice", onPage(writes(`{"mid":"m","attachments":[{"type":"image","payload":{"url":"u1","sticker_id":7}},{"type":"sticker","payload":{"url":"u2","sticker_id":"7"}},{"type":"image","payload":{"url":"u3","sticker_id":8}}]}`)), ev(func(e *message.Event) {
			e.Attachments = []message.Attachment{{Type: "sticker", URL: "u1"}, {Type: "sticker", URL: "u3"}}
		}), nil, nil},
		{"unavailable", onPage(writes(`{"mid":"m","attachments":[{"type":"fallback","title":"Attachment Unavailable","url":null,"payload":null}]}`)), ev(func(e *message.Event) {
			e.Attachments = []message.Attachment{{Type: "fallback"}}
		}), nil, nil},
		{"location", onPage(writes(`{"mid":"m","attachments":[{"type":"location","payload":{"coordinates":{"lat":-23.5505199,"long":-46.6333094}}}]}`)), ev(func(e *message.Event) {
			e.Attachments = []message.Attachment{{Type: "location", URL: "https://www.google.com/maps?q=-23.55052,-46.633309"}}
		}), nil, nil},
		{"location beside its page", onPage(writes(`{"mid":"m","attachments":[{"type":"location","url":"https://l.facebook.com/l.php?u=x","payload":{"coordinates":{"lat":0,"long":1e-9}}}]}`)), ev(func(e *message.Event) {
			e.Attachments = []message.Attachment{{Type: "location", URL: "https://www.google.com/maps?q=0,0"}}
		}), nil, nil},
		{"location off the earth", onPage(writes(`{"mid":"m","attachments":[{"type":"location","payload":{"coordinates":{"lat":91,"long":1}}}]}`)), ev(func(e *message.Event) {
			e.Attachments = []message.Attachment{{Type: "location"}}
		}), nil, nil},

		{"ids as numbers", `{"object":"page","entry":[{"id":106378625516323,"time":"1763600000009","messaging":[{"sender":{"id":5276542345678901},"message":{"mid":17,"text":"a"}}]}]}`, []message.Event{
			{Kind: message.KindMessage, Page: "106378625516323", ID: "17", User: "5276542345678901", Time: 1763600000009, Text: "a"},
		}, nil, nil},
		{"id a fraction", onPage(`{"sender":{"id":1.5},"message":{"mid":"m","text":"a"}}`), nil, nil, []string{onPage(`{"sender":{"id":1.5},"message":{"mid":"m","text":"a"}}`)}},
		{"sender a number", onPage(`{"sender":2,"message":{"mid":"m","text":"a"}}`), nil, nil, []string{onPage(`{"sender":2,"message":{"mid":"m","text":"a"}}`)}},
		{"page's id odd", `{"object":"page","entry":[{"id":{},"messaging":[]}]}`, nil, nil, []string{`{"object":"page","entry":[{"id":{},"messaging":[]}]}`}},
		{"messaging an object", `{"object":"page","entry":[{"id":"1","messaging":{}}]}`, nil, nil, []string{`{"object":"page","entry":[{"id":"1","messaging":{}}]}`}},
		{"standby odd", `{"object":"page","entry":[{"id":"1","standby":1,"messaging":[` + writes(`{"mid":"m","text":"a"}`) + `]}]}`, text("a"), nil, nil},
		{"attachments an object", onPage(writes(`{"mid":"m","text":"a","attachments":{}}`)), ev(func(e *message.Event) { e.Text, e.Attachments = "a", []message.Attachment{{}} }), nil, nil},
		{"attachments odd", onPage(writes(`{"mid":"m","attachments":[1,null,{"type":2,"payload":{"url":{}}},{"type":"image","url":1,"payload":"x"}]}`)), ev(func(e *message.Event) {
			e.Attachments = []message.Attachment{{}, {}, {Type: "2"}, {Type: "image", URL: "1"}}
		}), nil, nil},
		{"quick reply odd", onPage(writes(`{"mid":"m","text":"a","quick_reply":{"payload":{}},"reply_to":"m2","nlp":1}`), writes(`{"mid":"m","text":"a","quick_reply":"x","reply_to":{"mid":[]}}`)), append(text("a"), text("a")...), nil, nil},
		{"quick reply a number", onPage(writes(`{"mid":"m","text":"a","quick_reply":{"payload":7}}`)), ev(func(e *message.Event) { e.Text, e.Payload = "a", "7" }), nil, nil},
		{"postback odd", onPage(`{"sender":{"id":"2"},"timestamp":1763600000004,"postback":{"mid":"m","title":[],"payload":{}}}`), ev(func(e *message.Event) { e.Kind = message.KindPostback }), nil, nil},
		{"echo as text", onPage(writes(`{"mid":"m","is_echo":"true","text":"a"}`), writes(`{"mid":"m","is_echo":"false","is_deleted":0,"text":"a"}`)), text("a"), map[Skip]int{SkipEcho: 1}, nil},
		{"echo odd", onPage(writes(`{"mid":"m","is_echo":{},"text":"a"}`)), nil, nil, []string{onPage(writes(`{"mid":"m","is_echo":{},"text":"a"}`))}},
		{"item too long", onPage(writes(`{"mid":"m","text":"` + strings.Repeat("a", 1<<20) + `"}`)), nil, nil, []string{onPage(writes(`{"mid":"m","text":"` + strings.Repeat("a", 1<<20) + `"}`))}},
		{"payload only", onPage(writes(`{"mid":"m","quick_reply":{"payload":"P"}}`)), ev(func(e *message.Event) { e.Payload = "P" }), nil, nil},
		{"language", onPage(writes(`{"mid":"m","text":"Olá","nlp":{"detected_locales":[{"locale":"xx_XX","confidence":0.3},{"locale":"pt_XX","confidence":0.97}]}}`)), ev(func(e *message.Event) {
			e.Text, e.Locale = "Olá", "pt_XX"
		}), nil, nil},
		{"language in another form", onPage(writes(`{"mid":"m","text":"a","nlp":{"detected_locales":"pt"}}`)), ev(func(e *message.Event) { e.Text = "a" }), nil, nil},

		{"postback without sender", onPage(`{"postback":{"mid":"m"}}`), nil, nil, []string{onPage(`{"postback":{"mid":"m"}}`)}},
		{"policy with sender", onPage(`{"sender":{"id":"2"},"timestamp":1763600000004,"policy_enforcement":{"action":"unblock"}}`), ev(func(e *message.Event) {
			// sha256("1" NUL item), computed with sha256sum
			e.Kind, e.ID, e.User, e.Action = message.KindPolicy, "3a7467b54f1bb68eed94199e875489b9", "", "unblock"
		}), nil, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := Split([]byte(row.body), time.UnixMilli(1763600000007), false)
			if err != nil {
				t.Fatalf("Split = %v, want nil", err)
			}
			if diff := cmp.Diff(row.events, got.Events); diff != "" {
				t.Errorf("events: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(row.skipped, got.Skipped, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("skipped: -want +got\n%s", diff)
			}
			var bad []string
			for _, b := range got.Bad {
				bad = append(bad, string(b))
			}
			if diff := cmp.Diff(row.bad, bad); diff != "" {
				t.Errorf("bad: -want +got\n%s", diff)
			}
		})
	}
}

func TestSplitOtherObject(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"object":"whatsapp_business_account","entry":[]}`, `{"object":"user","entry":{"a":1}}`} {
		if _, err := Split([]byte(body), time.Time{}, false); !errors.Is(err, ErrObject) {
			t.Errorf("Split(%s) = %v, want ErrObject", body, err)
		}
	}
}

// TestSplitOfOthers: what the app's secret signs for others is none of Messenger's, such as
// the signed_request of a Facebook Login, or an access token.
func TestSplitOfOthers(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"eyJhbGdvcml0aG0iOiJITUFDLVNIQTI1NiIsInVzZXJfaWQiOiIxIn0", "EAAGabc123", "", " ", "null", "[]", `"{}"`, "5", `[{"object":"page"}]`,
		"{}", `{"entry":[]}`, `{"algorithm":"HMAC-SHA256","user_id":"1"}`, `{"object":""}`, `{"object":null,"entry":[]}`,
	} {
		if parts, err := Split([]byte(body), time.Time{}, true); !errors.Is(err, ErrBody) || len(parts.Bad)+len(parts.Events) > 0 {
			t.Errorf("Split(%s) = %+v, %v, want ErrBody alone", body, parts, err)
		}
	}
}

// TestReplacedIDs: no two ids become one. An item whose id, or person, is not what was
// written is kept as it is.
func TestReplacedIDs(t *testing.T) {
	t.Parallel()
	item := func(user, mid string) string {
		return onPage(`{"sender":{"id":"` + user + `"},"message":{"mid":"` + mid + `","text":"a"}}`)
	}
	for _, body := range []string{
		item("2", "m\xe9"), item("2", "m\xe8"), item("2", `m\ud800`), item("2", `m\u0000`), item("2", "m\ufffd"),
		item("2\xe9", "m"), item(`2\u0000`, "m"), strings.ReplaceAll(item("2", "m"), `"id":"1"`, `"id":"1\u0000"`),
	} {
		got, err := Split([]byte(body), time.UnixMilli(1763600000007), false)
		if err != nil || len(got.Events) != 0 || len(got.Bad) != 1 {
			t.Errorf("Split(%q) = %+v, %v, want it kept as it is", body, got, err)
		}
	}
}

// TestSplitInstagram: the events of an Instagram account have its platform, and what
// only Instagram has is passed on or skipped like its like of Messenger.
func TestSplitInstagram(t *testing.T) {
	t.Parallel()
	const from = `"sender":{"id":"77"},"recipient":{"id":"17841"},"timestamp":1763600000001`
	body := func(items ...string) []byte {
		return []byte(`{"object":"instagram","entry":[{"id":"17841","time":1763600000007,"messaging":[` + strings.Join(items, ",") + `]}]}`)
	}
	items := []string{
		`{` + from + `,"message":{"mid":"m1","text":"hi"}}`,
		`{` + from + `,"message":{"mid":"m2","text":"nice","reply_to":{"story":{"url":"https://x.test/s","id":"9"}}}}`,
		`{` + from + `,"message":{"mid":"m3","text":"yes","reply_to":{"mid":"m1"}}}`,
		`{` + from + `,"message":{"mid":"m4","attachments":[{"type":"story_mention","payload":{"url":"https://x.test/m"}}]}}`,
		`{` + from + `,"message":{"mid":"m5","is_unsupported":true}}`,
		`{` + from + `,"postback":{"mid":"m6","title":"Prices","payload":"/prices"}}`,
		`{` + from + `,"message":{"mid":"m1","is_deleted":true}}`,
		`{"sender":{"id":"17841"},"recipient":{"id":"77"},"timestamp":1763600000001,"message":{"mid":"m7","is_echo":true,"text":"hello"}}`,
		`{` + from + `,"reaction":{"mid":"m7","action":"react","reaction":"love","emoji":"x"}}`,
		`{` + from + `,"read":{"mid":"m7"}}`,
		`{` + from + `,"message_edit":{"mid":"m1","text":"hi!","num_edit":1}}`,
	}
	e := message.Event{Platform: message.Instagram, Kind: message.KindMessage, Page: "17841", User: "77", Time: 1763600000001}
	with := func(id string, change func(*message.Event)) message.Event {
		one := e
		one.ID = id
		change(&one)
		return one
	}
	want := []message.Event{
		with("m1", func(e *message.Event) { e.Text = "hi" }),
		with("m2", func(e *message.Event) { e.Text = "nice" }),
		with("m3", func(e *message.Event) { e.Text, e.ReplyTo = "yes", "m1" }),
		with("m4", func(e *message.Event) {
			e.Attachments = []message.Attachment{{Type: "story_mention", URL: "https://x.test/m"}}
		}),
		with("m5", func(e *message.Event) { e.Attachments = []message.Attachment{{Type: "unsupported"}} }),
		with("m6", func(e *message.Event) { e.Kind, e.Title, e.Payload = message.KindPostback, "Prices", "/prices" }),
	}
	now := time.UnixMilli(1763600000009)
	got, err := Split(body(items...), now, false)
	if diff := cmp.Diff(want, got.Events); err != nil || diff != "" {
		t.Errorf("Split() = %v, events: -want +got\n%s", err, diff)
	}
	for skip, n := range map[Skip]int{SkipDeleted: 1, SkipEcho: 1, SkipReaction: 1, SkipRead: 1, SkipUnknown: 1} {
		if got.Skipped[skip] != n {
			t.Errorf("skipped %s = %d, want %d", skip, got.Skipped[skip], n)
		}
	}
	all, err := Split(body(items...), now, true)
	if err != nil || len(all.Events) != len(items) {
		t.Fatalf("all events = %d, %v, want %d", len(all.Events), err, len(items))
	}
	for _, e := range all.Events {
		if e.Platform != message.Instagram || len(e.Raw) == 0 {
			t.Errorf("event %s = platform %q with raw %s, want instagram and what was sent", e.ID, e.Platform, e.Raw)
		}
	}
	odd, err := Split(body(`{`+from+`,"message":{"mid":"m8","text":7}}`), now, false)
	if want := `{"object":"instagram","entry":[{"id":"17841","time":1763600000007,"messaging":[{` + from + `,"message":{"mid":"m8","text":7}}]}]}`; err != nil || len(odd.Bad) != 1 || string(odd.Bad[0]) != want {
		t.Errorf("what cannot be read = %q, %v, want %s", odd.Bad, err, want)
	}
}

func TestSplitIdentities(t *testing.T) {
	t.Parallel()
	id := func(item string) string {
		t.Helper()
		p, err := Split([]byte(onPage(item)), time.UnixMilli(1763600000007), false)
		if err != nil || len(p.Events) != 1 {
			t.Fatalf("Split(%s) = %d events, %v, want 1", item, len(p.Events), err)
		}
		return p.Events[0].ID
	}
	tap := func(payload string) string {
		return `{"sender":{"id":"2"},"postback":{"payload":"` + payload + `"}}`
	}
	if a, b, c := id(tap("x")), id(tap("x")), id(tap("y")); a != b || a == c || a == "" {
		t.Errorf("ids without mid of x, x, y = %q, %q, %q, want the first two alike only", a, b, c)
	}
	fits, over := strings.Repeat("f", 180), strings.Repeat("f", 181)
	if got := id(writes(`{"mid":"` + fits + `","text":"a"}`)); got != fits {
		t.Errorf("id of a mid of 180 = %q, want the mid", got)
	}
	if got := id(writes(`{"mid":"` + over + `","text":"a"}`)); len(got) != 32 {
		t.Errorf("id of a mid of 181 = %q, want a digest of 32", got)
	}
	if got := id(writes(`{"mid":"m 1","text":"a"}`)); len(got) != 32 {
		t.Errorf("id of a mid with a space = %q, want a digest of 32", got)
	}
}

// TestSplitBoundsDeadLetters checks that a body full of garbage makes one dead
// letter, not half a million, and that its good event goes through.
func TestSplitBoundsDeadLetters(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{16: 16, 17: 1, 9_999: 1, 100_000: 1, 1_000_000: 1} {
		body := onPage(writes(`{"mid":"m","text":"a"}`) + strings.Repeat(",1", n))
		events := 1
		if n > 9_999 { // more than Messenger sends by far
			events = 0
		}
		got, err := Split([]byte(body), time.UnixMilli(1763600000007), false)
		if err != nil || len(got.Events) != events || len(got.Bad) != want {
			t.Errorf("Split with %d bad items = %d events, %d bad, %v, want %d, %d, nil", n, len(got.Events), len(got.Bad), err, events, want)
		}
		if want == 1 && string(got.Bad[0]) != body {
			t.Errorf("Split with %d bad items keeps %.40q…, want the body", n, got.Bad[0])
		}
	}
}

func FuzzSplit(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("seeds = %d, %v", len(files), err)
	}
	for _, file := range files {
		f.Add(readFile(f, filepath.Base(file)))
	}
	f.Add([]byte(onPage(writes(`{"mid":"m","text":"\u0000","attachments":[{"type":"a","url":"b"}]}`))))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Split(raw, time.UnixMilli(1763600000007), false)
		if err != nil {
			return
		}
		for _, e := range p.Events {
			b, err := e.Encode()
			if err != nil {
				t.Fatalf("Encode(%+v) = %v, want nil", e, err)
			}
			back, err := message.DecodeEvent(b)
			if err != nil {
				t.Fatalf("DecodeEvent(Encode(%+v)) = %v, want nil", e, err)
			}
			if diff := cmp.Diff(e, back); diff != "" {
				t.Fatalf("DecodeEvent(Encode): -want +got\n%s", diff)
			}
			if bytes.ContainsRune(b, 0) || bytes.Contains(b, []byte(`\u0000`)) && !bytes.Contains(b, []byte(`\\u0000`)) || !utf8.Valid(b) {
				t.Fatalf("event %q holds NUL or invalid UTF-8", b)
			}
			if id := message.CopyID(e.Page, e.ID, strings.Repeat("9", 32), 999); len(id) > 255 {
				t.Fatalf("a copy's id has %d bytes, want at most 255", len(id))
			}
		}
		if len(p.Bad) > 16 {
			t.Fatalf("Split kept %d bad pieces, want at most 16", len(p.Bad))
		}
	})
}

// TestTimes: a time in any unit and in any form of a number is read. A text that
// is no time, or is years off, costs nobody a message.
func TestTimes(t *testing.T) {
	t.Parallel()
	const at, entry, now = 1763600000123, 1763600000006, 1763600000007
	for timestamp, want := range map[string]int64{
		"1763600000123": at, "1763600000123.0": at, "1.763600000123e12": at, "1763600000123.7": at, `"1763600000123"`: at,
		"1763600000": 1763600000000, "1763600000.123": at, `"1763600000"`: 1763600000000, "1763600000123456": at, "1763600000123456789": at,
		"1763686400007": 1763686400007, "1763686400008": entry, // a day ahead
		"1262304000000": 1262304000000, "1262303999999": entry, "1262304000": 1262304000000, "1262303999": entry, // 2010
		"null": entry, "0": entry, "-5": entry, "1e400": entry, "9223372036854775808": entry, "0.5e-3": entry, "1e20": entry, "4": entry,
		"{}": entry, "true": entry, `"x"`: entry, `"NaN"`: entry, `"Inf"`: entry, `""`: entry, `"2025-11-20T00:53:20Z"`: entry, "[1]": entry,
	} {
		item := `{"sender":{"id":"2"},"timestamp":` + timestamp + `,"message":{"mid":"m","text":"a"}}`
		for ofEntry, want := range map[string]int64{"1763600000006": want, "1763600000006.0": want, `"1763600000.006"`: want, "6": cmpOr(want, entry, now)} {
			got, err := Split([]byte(`{"object":"page","entry":[{"id":"1","time":`+ofEntry+`,"messaging":[`+item+`]}]}`), time.UnixMilli(now), false)
			if err != nil || len(got.Events) != 1 || got.Events[0].Time != want {
				t.Errorf("Split with the time %s in an entry of %s = %+v, %v, want an event of %d", timestamp, ofEntry, got, err, want)
			}
		}
	}
}

// TestTimesWithoutClock: a clock that is not set judges no time.
func TestTimesWithoutClock(t *testing.T) {
	t.Parallel()
	body := onPage(writes(`{"mid":"m","text":"a"}`), `{"sender":{"id":"2"},"message":{"mid":"n","text":"b"}}`)
	got, err := Split([]byte(body), time.Unix(0, 0), false)
	if err != nil || len(got.Events) != 2 {
		t.Fatalf("Split() = %+v, %v, want two events", got, err)
	}
	for i, want := range []int64{1763600000004, 1763600000009} { // its own, and its entry's
		if at := got.Events[i].Time; at != want {
			t.Errorf("time of event %d in 1970 = %d, want %d", i, at, want)
		}
	}
}

// cmpOr returns other in place of one value.
func cmpOr(got, value, other int64) int64 {
	if got == value {
		return other
	}
	return got
}

// TestNestedTooDeep: a body of many opening brackets is kept too.
func TestNestedTooDeep(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	body := append([]byte(`{"object":"page","entry":`), bytes.Repeat([]byte("["), 20_000)...)
	w := f.do("POST", "/webhook", bytes.NewReader(body), SignatureHeader, sign256(body))
	if dead := f.published.on("test.dead"); w.Code != 200 || len(dead) != 1 {
		t.Errorf("POST = %d with %d dead letters, want 200 with one", w.Code, len(dead))
	}
}

// TestUndecodableIsKept: another version can decode an item that this one cannot, as it is
// kept with its page and its time, byte for byte.
func TestUndecodableIsKept(t *testing.T) {
	t.Parallel()
	odd := `{"sender":{"id":"2"}, "message":{"mid":"m","text":{"new":"a"}}}`
	got, err := Split([]byte(onPage(odd)), time.UnixMilli(1763600000007), false)
	if err != nil || len(got.Bad) != 1 || string(got.Bad[0]) != onPage(odd) {
		t.Fatalf("Split = %q, %v, want %q kept", got.Bad, err, onPage(odd))
	}
	readable := bytes.Replace(got.Bad[0], []byte(`{"new":"a"}`), []byte(`"a"`), 1)
	again, err := Split(readable, time.UnixMilli(1763700000000), false)
	want := []message.Event{{Kind: message.KindMessage, Page: "1", ID: "m", User: "2", Time: 1763600000009, Text: "a"}}
	if diff := cmp.Diff(want, again.Events); err != nil || diff != "" {
		t.Errorf("Split of what was kept: %v, -want +got\n%s", err, diff)
	}
}
