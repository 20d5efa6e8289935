package sender

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"chatclub/internal/message"
	"chatclub/internal/plaintext"
)

// Messenger's bounds for a template of buttons, in UTF-16 units. A text that is
// longer, or has more to tap, goes as a text with quick replies.
const (
	maxButtons    = 3
	maxButtonText = 640
)

// body is that of a Send API call.
type body struct {
	Recipient        recipient `json:"recipient"`
	SenderAction     string    `json:"sender_action,omitempty"`
	MessagingType    string    `json:"messaging_type,omitempty"`
	Tag              string    `json:"tag,omitempty"`
	NotificationType string    `json:"notification_type,omitempty"`
	Message          any       `json:"message,omitempty"` // a content, or an own bot's payload
}

type recipient struct {
	ID string `json:"id"`
}

// content is a message.
type content struct {
	Attachment   *attachment `json:"attachment,omitempty"`
	Text         *string     `json:"text,omitempty"`
	QuickReplies []tap       `json:"quick_replies,omitempty"`
	Metadata     string      `json:"metadata"`
}

type attachment struct {
	Type    string `json:"type"`
	Payload any    `json:"payload"` // a file or buttons
}

type file struct {
	URL      string `json:"url"`
	Reusable bool   `json:"is_reusable"`
}

type buttons struct {
	Type    string `json:"template_type"`
	Text    string `json:"text"`
	Buttons []tap  `json:"buttons"`
}

// tap is a button, which has a type, or a quick reply.
type tap struct {
	Type        string `json:"type,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	Title       string `json:"title"`
	Payload     string `json:"payload"`
}

// encode returns the body of a Send API call. Fan-out happens inside the 24-hour
// window and answers no one directly. The platform calls that UPDATE. The characters
// <, > and & stay as they are.
func encode(o message.Outbound) []byte {
	call := body{Recipient: recipient{o.To}, SenderAction: o.SenderAction, Tag: o.Tag, NotificationType: o.NotificationType}
	if o.SenderAction == "" {
		call.MessagingType, call.Message = cmp.Or(o.MessagingType, "UPDATE"), contentOf(o)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(call) // texts and decoded values can be encoded
	return b.Bytes()
}

// contentOf returns the message of a call. The id goes along as metadata.
func contentOf(o message.Outbound) any {
	if len(o.Payload) > 2 { // an object that is not empty; its id goes before all else
		id, _ := json.Marshal(o.ID) // a string always can
		return slices.Concat(json.RawMessage(`{"metadata":`), id, []byte(","), o.Payload[1:])
	}
	c := content{Metadata: o.ID}
	switch a := o.Attachment; {
	case a != nil:
		c.Attachment, c.QuickReplies = &attachment{a.Type, file{URL: a.URL}}, taps(o.Replies, tap{ContentType: "text"})
	case len(o.Replies) > 0 && len(o.Replies) <= maxButtons && plaintext.Len(o.Text) <= maxButtonText:
		c.Attachment = &attachment{"template", buttons{"button", o.Text, taps(o.Replies, tap{Type: "postback"})}}
	default:
		c.Text, c.QuickReplies = &o.Text, taps(o.Replies, tap{ContentType: "text"})
	}
	return c
}

// taps returns the buttons and quick replies, each of a kind.
func taps(replies []message.QuickReply, kind tap) (list []tap) {
	for _, r := range replies {
		kind.Title, kind.Payload = r.Title, r.Payload
		list = append(list, kind)
	}
	return list
}
