package sender

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
)

// standard is the same body made by encoding/json.
func standard(t testing.TB, o message.Outbound) []byte {
	t.Helper()
	type object = map[string]any
	msg := object{"metadata": o.ID}
	if o.Attachment != nil {
		msg["attachment"] = object{
			"type":    o.Attachment.Type,
			"payload": object{"url": o.Attachment.URL, "is_reusable": false},
		}
	} else {
		msg["text"] = o.Text
	}
	for _, r := range o.Replies {
		list, _ := msg["quick_replies"].([]object) // nil at first
		msg["quick_replies"] = append(list, object{"content_type": "text", "title": r.Title, "payload": r.Payload})
	}
	b, err := json.Marshal(object{"recipient": object{"id": o.To}, "messaging_type": "UPDATE", "message": msg})
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return b
}

func decoded(t testing.TB, b []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("unmarshal %q: %v", b, err)
	}
	return v
}

func TestEncode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		in   message.Outbound
		want string
	}{
		{
			"text",
			message.Outbound{ID: "1/m_a/2", Page: "1", To: "2", Text: "Yo \"you\"\n\t\\ ä 😀 </b>\x00\x1f\x7f \xff\xfe."},
			`{"recipient":{"id":"2"},"messaging_type":"UPDATE","message":{"text":"Yo \"you\"\n\u0009\\ ä 😀 </b>\u0000\u001f` + "\x7f" + ` ` + "\ufffd\ufffd" + `.","metadata":"1/m_a/2"}}`,
		},
		{
			"attachment",
			message.Outbound{ID: "1/m_a/2/1", To: "2", Attachment: &message.Attachment{Type: "image", URL: "https://x/y?a=1&b=2"}},
			`{"recipient":{"id":"2"},"messaging_type":"UPDATE","message":{"attachment":{"type":"image","payload":{"url":"https://x/y?a=1&b=2","is_reusable":false}},"metadata":"1/m_a/2/1"}}`,
		},
		{
			"quick replies",
			message.Outbound{ID: "1/m_a/2", To: "2", Text: "Where?", Replies: []message.QuickReply{{Title: "jazz", Payload: "/join jazz"}, {Title: "\"x\"", Payload: "/leave"}}},
			`{"recipient":{"id":"2"},"messaging_type":"UPDATE","message":{"text":"Where?","quick_replies":[{"content_type":"text","title":"jazz","payload":"/join jazz"},{"content_type":"text","title":"\"x\"","payload":"/leave"}],"metadata":"1/m_a/2"}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := encode(tt.in)
			if string(got) != tt.want {
				t.Errorf("encode(%s) = %s, want %s", tt.name, got, tt.want)
			}
			if diff := cmp.Diff(decoded(t, standard(t, tt.in)), decoded(t, got)); diff != "" {
				t.Errorf("encode(%s) differs from encoding/json (-want +got):\n%s", tt.name, diff)
			}
		})
	}
}

func TestEncodeAllocatesOnce(t *testing.T) {
	o := message.Outbound{
		ID: strings.Repeat("i", 80), To: "1234567890123456",
		Attachment: &message.Attachment{Type: "image", URL: strings.Repeat("u", 300)},
	}
	if got := testing.AllocsPerRun(100, func() { encode(o) }); got != 1 {
		t.Errorf("encode allocates %v times, want 1", got)
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("2", "1/m/2", "hello", "")
	f.Add("2\\", "1/\"m\"/2", "\u2028 \x00\x1b ä \xf0\x9f\x98\x80 \xf0\x9f", "https://example.org/\"x")
	f.Add("", "\xed\xa0\x80", "\ufffd", "")
	f.Fuzz(func(t *testing.T, to, id, text, link string) {
		o := message.Outbound{ID: id, To: to, Text: text}
		if link != "" {
			o.Attachment = &message.Attachment{Type: text, URL: link}
		}
		if diff := cmp.Diff(decoded(t, standard(t, o)), decoded(t, encode(o))); diff != "" {
			t.Errorf("encode differs from encoding/json (-want +got):\n%s", diff)
		}
	})
}
