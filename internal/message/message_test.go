package message

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEventRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []Event{
		{Kind: KindMessage, Page: "1", ID: "m_1", User: "2", Time: 3, Text: "ä <b> 👋🏽", ReplyTo: "m_0", Payload: "YES"},
		{Kind: KindMessage, Page: "1", ID: "m_2", User: "2", Attachments: []Attachment{{Type: "image", URL: "https://x/?a=1&b=2"}}},
		{Kind: KindPostback, Page: "1", ID: "m_3", User: "2", Payload: "JOIN:praia", Title: "Entrar"},
		{Kind: KindPolicy, Page: "1", ID: "digest", Action: "block", Reason: "spam"},
		{Kind: KindOther, Page: "1", ID: "digest", Raw: Payload(`{"x":"<a&b>"}`)},
		{Kind: KindDeletion, ID: "code", User: "2", Time: 3},
		{Kind: KindFeedback, Page: "1", ID: "feedback/1/m/2", User: "2", Reason: string(ReasonGone)},
	} {
		b, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeEvent(b)
		if err != nil {
			t.Fatalf("DecodeEvent(%s) = %v", b, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event round trip (-want +got):\n%s", diff)
		}
	}
}

func TestOutboundRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []Outbound{
		{ID: "1/m/2", Page: "1", To: "2", Class: ClassText, Text: "Maria: \u2028 hi", Time: 4},
		{ID: "1/m/2/1", Page: "1", To: "2", Class: ClassMedia, Attachment: &Attachment{Type: "audio", URL: "https://x/b.ogg"}, Attempts: 2, FirstCode: "2"},
		{ID: "a", Page: "1", To: "2", Class: ClassText, Own: Own{SenderAction: "typing_on"}},
		{ID: "a", Page: "1", To: "2", Class: ClassText, Own: Own{Payload: Payload(`{"text":"x"}`), MessagingType: "MESSAGE_TAG", Tag: "HUMAN_AGENT", NotificationType: "NO_PUSH"}},
		{ID: "1/b/2", Page: "1", To: "2", Class: ClassText, Text: "news", Broadcast: "b", Deadline: 9},
	} {
		b, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeOutbound(b)
		if err != nil {
			t.Fatalf("DecodeOutbound(%s) = %v", b, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("outbound round trip (-want +got):\n%s", diff)
		}
	}
}

func TestDecodeNamesEveryFault(t *testing.T) {
	t.Parallel()
	event := func(b []byte) error { _, err := DecodeEvent(b); return err }
	outbound := func(b []byte) error { _, err := DecodeOutbound(b); return err }
	for _, row := range []struct {
		decode func([]byte) error
		in     string
		want   []string
	}{
		{event, `{`, []string{"decode event"}},
		{event, `{}`, []string{"kind", "page is empty", "id is empty", "user is empty"}},
		{event, `{"kind":"policy","page":"1","id":"2"}`, nil},
		{event, `{"kind":"message","page":"1","id":"2"}`, []string{"user is empty"}},
		{event, `{"kind":"message","page":7}`, []string{"page"}},
		{event, `{"kind":"feedback","page":"1","id":"2","reason":"waiting","rate":80,"limits":{"text":80}}`, nil},
		{event, `{"kind":"feedback","page":"1","id":"2","reason":"waiting","limits":{"text":-1,"media":0.1}}`, []string{"limits: text", "media"}},
		{outbound, ``, []string{"decode outbound"}},
		{outbound, `{}`, []string{"id is empty", "page is empty", "to is empty", "text or attachment, payload or sender_action must be set"}},
		{outbound, `{"id":"a","page":"1","to":"2","class":"text","text":"x","attachment":{"type":"image","url":"u"}}`, []string{"only one of them"}},
		{outbound, `{"id":"a","page":"1","to":"2","class":"text","attachment":{"type":"image"}}`, []string{"attachment lacks"}},
		{outbound, `{"id":"a","page":"1","to":"2","class":"text","text":"x","attempts":-1}`, []string{"attempts is negative"}},
		{outbound, `{"id":"a","page":"1","to":"2","class":"video","text":"x"}`, []string{"class"}},
		// A core of an older version writes a rate.
		{outbound, `{"id":"a","page":"1","to":"2","class":"text","text":"x","broadcast":"b","rate":12.5}`, nil},
		{outbound, `{"id":"a","page":"1","to":"2","class":"text","text":"x","broadcast":"b"}`, nil},
		{outbound, `{"id":"a","page":"1","to":"2","class":"media","text":"x"}`, nil},
	} {
		err := row.decode([]byte(row.in))
		if (err == nil) != (row.want == nil) {
			t.Errorf("decode %s = %v, want faults %q", row.in, err, row.want)
			continue
		}
		for _, w := range row.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("decode %s = %q, does not say %q", row.in, err, w)
			}
		}
	}
}

func TestCopyID(t *testing.T) {
	t.Parallel()
	if got, want := CopyID("1", "m_x", "2", 0), "1/m_x/2"; got != want {
		t.Errorf("CopyID(part 0) = %q, want %q", got, want)
	}
	if got, want := CopyID("1", "m_x", "2", 3), "1/m_x/2/3"; got != want {
		t.Errorf("CopyID(part 3) = %q, want %q", got, want)
	}
}

func TestAgeIsNeverNegative(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(10_000)
	for _, row := range []struct {
		at   int64
		want time.Duration
	}{{9_000, time.Second}, {10_000, 0}, {11_000, 0}} {
		if got := (Outbound{Time: row.at}).Age(now); got != row.want {
			t.Errorf("Age of %d at 10000 = %v, want %v", row.at, got, row.want)
		}
	}
}

func TestDeathRoundTrip(t *testing.T) {
	t.Parallel()
	old := Death{Reason: ReasonGone, Queue: "q", Attempts: 3, FirstCode: "2", LastCode: "100/2018001"}
	full := old
	full.Error = "send api answered 100"
	full.Time, full.Page, full.Recipient = time.UnixMilli(1_700_000_000_123).UTC(), "1", "2"
	for _, want := range []Death{old, full} {
		got, err := DeathFromHeaders(want.Headers())
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("DeathFromHeaders(Headers()) = %+v, want %+v", got, want)
		}
	}
	for header, text := range map[string]string{HeaderAttempts: "", HeaderTime: "yesterday"} {
		h := full.Headers()
		h[header] = text
		if _, err := DeathFromHeaders(h); err == nil || !strings.Contains(err.Error(), header) {
			t.Errorf("DeathFromHeaders() with %s %q = %v, want an error that names it", header, text, err)
		}
	}
	if got := old.Headers(); len(got) != 5 {
		t.Errorf("Headers() of a death without time, page and recipient = %v, want 5", got)
	}
}

// A page or recipient that is too long for a frame stays out of the headers.
func TestDeathHeadersFitAFrame(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("1", maxHeaderID+1)
	got := Death{Reason: ReasonGone, Page: long, Recipient: long}.Headers()
	if got[HeaderPage] != "" || got[HeaderRecipient] != "" {
		t.Errorf("Headers() has a page of %d and a recipient of %d bytes, want none", len(got[HeaderPage]), len(got[HeaderRecipient]))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"kind":"message","page":"1","id":"2","user":"3","text":"x"}`))
	f.Add([]byte(`{"id":"a","page":"1","to":"2","class":"text","text":"x"}`))
	f.Add([]byte("\xff\x00{"))
	f.Add([]byte(`{"id":"a","page":"1","to":"2","payload": {"text":"<x>"},"messaging_type":"RESPONSE"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := DecodeEvent(b); err == nil {
			again, err := e.Encode()
			if err != nil {
				t.Fatalf("Encode of a decoded event: %v", err)
			}
			if got, err := DecodeEvent(again); err != nil || !cmp.Equal(e, got) {
				t.Fatalf("event %+v came back as %+v, %v", e, got, err)
			}
		}
		if o, err := DecodeOutbound(b); err == nil {
			again, err := o.Encode()
			if err != nil {
				t.Fatalf("Encode of a decoded outbound: %v", err)
			}
			if got, err := DecodeOutbound(again); err != nil || !cmp.Equal(o, got) {
				t.Fatalf("outbound %+v came back as %+v, %v", o, got, err)
			}
		}
	})
}

func TestCarryTrace(t *testing.T) {
	t.Parallel()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if got := CarryTrace(nil, map[string]string{HeaderTrace: trace, "other": "x"}); len(got) != 1 || got[HeaderTrace] != trace {
		t.Errorf("CarryTrace(nil, trace and another) = %v, want the trace alone", got)
	}
	if got := CarryTrace(map[string]string{"mine": "y"}, map[string]string{HeaderTrace: trace}); len(got) != 2 || got["mine"] != "y" || got[HeaderTrace] != trace {
		t.Errorf("CarryTrace(mine, trace) = %v, want both", got)
	}
	for _, broken := range []string{"", trace + "0", trace[1:], strings.Repeat("a", 3000), strings.ToUpper(trace), trace[:54] + "\n"} {
		if got := CarryTrace(nil, map[string]string{HeaderTrace: broken}); got != nil {
			t.Errorf("CarryTrace(nil, %.60q) = %v, want nil", broken, got)
		}
	}
	if got := CarryTrace(nil, nil); got != nil {
		t.Errorf("CarryTrace(nil, nil) = %v, want nil", got)
	}
}
