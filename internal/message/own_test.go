package message

import (
	"strings"
	"testing"
)

// Each wrong field of an own bot's message is named.
func TestOwnNamesEveryFault(t *testing.T) {
	t.Parallel()
	for own, want := range map[string]string{
		`"payload":{"text":"hi"}`: "",
		`"payload":{"attachment":{"type":"template","payload":{"template_type":"generic"}},"reply_to":{"mid":"m"}}`: "",
		`"payload":{"text":7}`:                                "", // the Send API names the error
		`"payload":{"text":"hi"},"messaging_type":"RESPONSE"`: "",
		`"text":"hi","messaging_type":"MESSAGE_TAG","tag":"HUMAN_AGENT","notification_type":"NO_PUSH"`: "",
		`"sender_action":"typing_on"`:                               "",
		`"text":"hi","payload":null`:                                "",
		`"payload":null`:                                            "text or attachment, payload or sender_action must be set",
		`"payload":{"text":"hi"},"text":"hi"`:                       "only one of them",
		`"payload":{"text":"hi"},"sender_action":"typing_on"`:       "only one of them",
		`"payload":{}`:                                              "payload must be an object, and not empty",
		`"payload":"hi"`:                                            "payload must be an object",
		`"payload":[1]`:                                             "payload must be an object",
		`"payload":{"text":"hi","metadata":"x"}`:                    "payload.metadata is where",
		`"payload":{"text":"` + strings.Repeat("x", 2001) + `"}`:    "payload.text has more than 2000",
		`"payload":{"x":"` + strings.Repeat("x", MaxPayload) + `"}`: "payload has more than 32768",
		`"payload":{"text":"hi","quick_replies":[` + strings.Repeat("{},", 13) + `{}]}`:                               "payload.quick_replies are more than 13",
		`"payload":{"text":"hi"},"replies":[{"title":"a","payload":"b"}]`:                                             "replies are for a text",
		`"sender_action":"typing_on","replies":[{"title":"a","payload":"b"}]`:                                         "replies are for a text",
		`"attachment":{"type":"image","url":"u"},"replies":[{"title":"a","payload":"b"}],"messaging_type":"RESPONSE"`: "",
		`"text":"hi","messaging_type":"URGENT"`:                                                                       "messaging_type is none",
		`"text":"hi","messaging_type":"MESSAGE_TAG"`:                                                                  "tag is needed",
		`"text":"hi","tag":"HUMAN_AGENT"`:                                                                             "tag is needed",
		`"text":"hi","messaging_type":"MESSAGE_TAG","tag":"a b"`:                                                      "tag must have",
		`"text":"hi","notification_type":"LOUD"`:                                                                      "notification_type is none",
		`"sender_action":"dance"`:                                                                                     "sender_action is none",
		`"sender_action":"typing_on","messaging_type":"UPDATE"`:                                                       "sender_action goes without",
	} {
		body := `{"id":"a","page":"1","to":"2",` + own + `}`
		_, err := DecodeOutbound([]byte(body))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("DecodeOutbound(%.200s) = %v, want %q", body, err, want)
		}
	}
}

// A payload counts as it was written, here and after each queue: & is one byte.
func TestPayloadIsNotEscaped(t *testing.T) {
	t.Parallel()
	payload := `{"text":"<a&b>","x":"` + strings.Repeat("x", MaxPayload-30) + `"}`
	o, err := DecodeNew([]byte(`{"id":"a","page":"1","to":"2","payload":`+payload+`}`), func(*Outbound) {})
	if err != nil || string(o.Payload) != payload {
		t.Fatalf("DecodeNew(payload of %d bytes) = payload of %d bytes, %v, want the same", len(payload), len(o.Payload), err)
	}
	b, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := DecodeOutbound(b); err != nil || string(again.Payload) != payload {
		t.Errorf("DecodeOutbound(%.80s…) = payload of %d bytes, %v, want that of %d", b, len(again.Payload), err, len(payload))
	}
}

// The class follows from a message's content.
func TestClassByContent(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]Class{
		`"text":"hi"`: ClassText,
		`"attachment":{"type":"image","url":"u"}`:                                   ClassText,
		`"attachment":{"type":"video","url":"u"},"class":"text"`:                    ClassMedia,
		`"attachment":{"type":"audio","url":"u"}`:                                   ClassMedia,
		`"payload":{"text":"hi"}`:                                                   ClassText,
		`"payload":{"attachment":{"type":"audio","payload":{"attachment_id":"1"}}}`: ClassMedia,
		`"payload":{"attachment":{"type":"template","payload":{"template_type":"media","elements":[{"media_type":"video","attachment_id":"1"}]}}},"class":"text"`: ClassMedia,
		`"payload":{"attachment":{"type":"template","payload":{"template_type":"media","elements":[{"media_type":"image"}]}}}`:                                    ClassText,
		`"payload":{"text":"hi"},"class":"media"`: ClassMedia,
		`"sender_action":"typing_on"`:             ClassText,
	} {
		o, err := DecodeOutbound([]byte(`{"id":"a","page":"1","to":"2",` + what + `}`))
		if err != nil || o.Class != want {
			t.Errorf("class of %s = %q, %v, want %q", what, o.Class, err, want)
		}
	}
}

// A message with something of an own bot's goes by itself.
func TestOwnIsNeverJoined(t *testing.T) {
	t.Parallel()
	for i, own := range []Own{{Payload: Payload(`{"text":"x"}`)}, {MessagingType: "RESPONSE"}, {NotificationType: "NO_PUSH"}, {SenderAction: "typing_on"}} {
		list := []Outbound{
			{ID: "a", Page: "1", To: "2", Class: ClassText, Text: "one", Joins: true},
			{ID: "b", Page: "1", To: "2", Class: ClassText, Text: "two", Joins: true, Own: own},
		}
		if o, n := Join(list, 8); n != 1 || o.ID != "a" {
			t.Errorf("Join of a text and own message %d = %d of them, want the first alone", i, n)
		}
		if _, n := Join(list[1:], 8); n != 1 {
			t.Errorf("Join of own message %d = %d, want 1", i, n)
		}
	}
}
