package sender

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

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
	var list []object
	buttons := o.Attachment == nil && len(o.Replies) > 0 && len(o.Replies) <= 3 && len(utf16.Encode([]rune(o.Text))) <= 640
	for _, r := range o.Replies {
		if buttons {
			list = append(list, object{"type": "postback", "title": r.Title, "payload": r.Payload})
		} else {
			list = append(list, object{"content_type": "text", "title": r.Title, "payload": r.Payload})
		}
	}
	switch {
	case buttons:
		delete(msg, "text")
		msg["attachment"] = object{"type": "template", "payload": object{"template_type": "button", "text": o.Text, "buttons": list}}
	case list != nil:
		msg["quick_replies"] = list
	}
	b, err := json.Marshal(object{"recipient": object{"id": o.To}, "messaging_type": "UPDATE", "message": msg})
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return b
}

func replies(n int) []message.QuickReply {
	var list []message.QuickReply
	for i := range n {
		list = append(list, message.QuickReply{Title: fmt.Sprintf("%q", strconv.Itoa(i)), Payload: fmt.Sprintf("/join %d", i)})
	}
	return list
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
			`{"recipient":{"id":"2"},"messaging_type":"UPDATE","message":{"text":"Yo \"you\"\n\t\\ ä 😀 </b>\u0000\u001f` + "\x7f" + ` \ufffd\ufffd.","metadata":"1/m_a/2"}}`,
		},
		{
			"attachment",
			message.Outbound{ID: "1/m_a/2/1", To: "2", Attachment: &message.Attachment{Type: "image", URL: "https://x/y?a=1&b=2"}},
			`{"recipient":{"id":"2"},"messaging_type":"UPDATE","message":{"attachment":{"type":"image","payload":{"url":"https://x/y?a=1&b=2","is_reusable":false}},"metadata":"1/m_a/2/1"}}`,
		},
		{
			"quick replies, below an attachment",
			message.Outbound{ID: "1/m_a/2/1", To: "2", Attachment: &message.Attachment{Type: "image", URL: "https://x/y"}, Replies: replies(1)},
			`{"recipient":{"id":"2"},"messaging_type":"UPDATE","message":{"attachment":{"type":"image","payload":{"url":"https://x/y","is_reusable":false}},` +
				`"quick_replies":[{"content_type":"text","title":"\"0\"","payload":"/join 0"}],"metadata":"1/m_a/2/1"}}`,
		},
		{
			"buttons",
			message.Outbound{ID: "1/m_a/2", To: "2", Text: "Where?", Replies: replies(1)},
			`{"recipient":{"id":"2"},"messaging_type":"UPDATE","message":{"attachment":{"type":"template","payload":{"template_type":"button","text":"Where?","buttons":[{"type":"postback","title":"\"0\"","payload":"/join 0"}]}},"metadata":"1/m_a/2"}}`,
		},
		{
			"buttons below 640 letters of two bytes",
			message.Outbound{ID: "1/m_a/2", To: "2", Text: strings.Repeat("я", 640), Replies: replies(1)},
			`{"recipient":{"id":"2"},"messaging_type":"UPDATE","message":{"attachment":{"type":"template","payload":{"template_type":"button","text":"` +
				strings.Repeat("я", 640) + `","buttons":[{"type":"postback","title":"\"0\"","payload":"/join 0"}]}},"metadata":"1/m_a/2"}}`,
		},
		{
			"quick replies, more than buttons",
			message.Outbound{ID: "1/m_a/2", To: "2", Text: "Where?", Replies: replies(4)},
			`{"recipient":{"id":"2"},"messaging_type":"UPDATE","message":{"text":"Where?","quick_replies":[` +
				`{"content_type":"text","title":"\"0\"","payload":"/join 0"},{"content_type":"text","title":"\"1\"","payload":"/join 1"},` +
				`{"content_type":"text","title":"\"2\"","payload":"/join 2"},{"content_type":"text","title":"\"3\"","payload":"/join 3"}],"metadata":"1/m_a/2"}}`,
		},
		{
			"quick replies, below more text",
			message.Outbound{ID: "1/m_a/2", To: "2", Text: strings.Repeat("x", 641), Replies: replies(1)},
			`{"recipient":{"id":"2"},"messaging_type":"UPDATE","message":{"text":"` + strings.Repeat("x", 641) +
				`","quick_replies":[{"content_type":"text","title":"\"0\"","payload":"/join 0"}],"metadata":"1/m_a/2"}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := encode(tt.in)
			if string(got) != tt.want+"\n" {
				t.Errorf("encode(%s) = %s, want %s", tt.name, got, tt.want)
			}
			if diff := cmp.Diff(decoded(t, standard(t, tt.in)), decoded(t, got)); diff != "" {
				t.Errorf("encode(%s) differs from encoding/json (-want +got):\n%s", tt.name, diff)
			}
		})
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("2", "1/m/2", "hello", "")
	f.Add("2\\", "1/\"m\"/2", "\u2028 \x00\x1b ä \xf0\x9f\x98\x80 \xf0\x9f", "https://example.org/\"x")
	f.Add("", "\xed\xa0\x80", "\ufffd", "")
	f.Fuzz(func(t *testing.T, to, id, text, link string) {
		o := message.Outbound{ID: id, To: to, Text: text}
		for range len(id) % 5 {
			o.Replies = append(o.Replies, message.QuickReply{Title: text, Payload: link})
		}
		if link != "" {
			o.Attachment = &message.Attachment{Type: text, URL: link}
		}
		if diff := cmp.Diff(decoded(t, standard(t, o)), decoded(t, encode(o))); diff != "" {
			t.Errorf("encode differs from encoding/json (-want +got):\n%s", diff)
		}
	})
}

// A message of an own bot reaches the Send API as it is.
func TestEncodeOwn(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		own  message.Own
		text string
		want string
	}{
		{message.Own{SenderAction: "typing_on"}, "", `{"recipient":{"id":"2"},"sender_action":"typing_on"}`},
		{
			message.Own{Payload: message.Payload(`{"attachment":{"type":"template"},"reply_to":{"mid":"m"}}`), MessagingType: "RESPONSE"},
			"",
			`{"recipient":{"id":"2"},"messaging_type":"RESPONSE","message":{"metadata":"a\"b","attachment":{"type":"template"},"reply_to":{"mid":"m"}}}`,
		},
		{
			message.Own{MessagingType: "MESSAGE_TAG", Tag: "HUMAN_AGENT", NotificationType: "NO_PUSH"},
			"hi",
			`{"recipient":{"id":"2"},"messaging_type":"MESSAGE_TAG","tag":"HUMAN_AGENT","notification_type":"NO_PUSH","message":{"text":"hi","metadata":"a\"b"}}`,
		},
	} {
		got := encode(message.Outbound{ID: `a"b`, Page: "1", To: "2", Text: row.text, Own: row.own})
		if string(got) != row.want+"\n" {
			t.Errorf("encode(%+v) = %s, want %s", row.own, got, row.want)
		}
	}
}
