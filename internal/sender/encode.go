package sender

import (
	"cmp"
	"unicode/utf8"

	"chatclub/internal/message"
	"chatclub/internal/plaintext"
)

// encodeSlack is the room for everything in a body but its values, so that most
// bodies are one allocation. The longest fixed text, of an attachment, has 166
// bytes, and 34 are left for escapes.
const encodeSlack = 200

// Messenger's bounds for a template of buttons, in UTF-16 units. A text that is
// longer, or has more to tap, goes as a text with quick replies.
const (
	maxButtons    = 3
	maxButtonText = 640
)

// encode returns the body of a Send API call. Fan-out happens inside the 24-hour
// window and answers no one directly. The platform calls that UPDATE.
//
// The buffer is not pooled. A transport may read a body after RoundTrip has
// returned, so a buffer could be used again only after the body's Close. But
// net/http writes header and body in one system call only for the in-memory
// readers that it knows. None of them tells its Close. The second write costs
// far more than the allocation.
func encode(o message.Outbound) []byte {
	n := encodeSlack + len(o.To) + len(o.ID) + len(o.Text) + len(o.Payload)
	if o.Attachment != nil {
		n += len(o.Attachment.Type) + len(o.Attachment.URL)
	}
	b := make([]byte, 0, n)
	b = append(b, `{"recipient":`...)
	b = appendRecipient(b, o)
	if o.SenderAction != "" {
		b = append(b, `,"sender_action":`...)
		return append(appendString(b, o.SenderAction), '}')
	}
	b = append(b, `,"messaging_type":`...)
	b = appendString(b, cmp.Or(o.MessagingType, "UPDATE"))
	if o.Tag != "" {
		b = append(b, `,"tag":`...)
		b = appendString(b, o.Tag)
	}
	if o.NotificationType != "" {
		b = append(b, `,"notification_type":`...)
		b = appendString(b, o.NotificationType)
	}
	b = append(b, `,"message":`...)
	b = appendMessage(b, o)
	return append(b, '}')
}

func appendRecipient(b []byte, o message.Outbound) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, o.To)
	return append(b, '}')
}

func appendMessage(b []byte, o message.Outbound) []byte {
	b = append(b, '{')
	if len(o.Payload) > 2 { // an object that is not empty; its id goes before all else
		b = append(b, `"metadata":`...)
		b = append(appendString(b, o.ID), ',')
		return append(b, o.Payload[1:]...)
	}
	switch a := o.Attachment; {
	case a != nil:
		b = append(b, `"attachment":{"type":`...)
		b = appendString(b, a.Type)
		b = append(b, `,"payload":{"url":`...)
		b = appendString(b, a.URL)
		b = append(b, `,"is_reusable":false}}`...)
	case len(o.Replies) > 0 && len(o.Replies) <= maxButtons && plaintext.Len(o.Text) <= maxButtonText:
		b = append(b, `"attachment":{"type":"template","payload":{"template_type":"button","text":`...)
		b = appendString(b, o.Text)
		b = append(b, `,"buttons":`...)
		b = appendReplies(b, `{"type":"postback","title":`, o.Replies)
		b = append(b, `}}`...)
	default:
		b = append(b, `"text":`...)
		b = appendString(b, o.Text)
		if len(o.Replies) > 0 {
			b = append(b, `,"quick_replies":`...)
			b = appendReplies(b, `{"content_type":"text","title":`, o.Replies)
		}
	}
	b = append(b, `,"metadata":`...)
	b = appendString(b, o.ID)
	return append(b, '}')
}

// appendReplies appends the list of what there is to tap, each of which begins
// in its kind's way.
func appendReplies(b []byte, begin string, replies []message.QuickReply) []byte {
	b = append(b, '[')
	for i, r := range replies {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, begin...)
		b = appendString(b, r.Title)
		b = append(b, `,"payload":`...)
		b = appendString(b, r.Payload)
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendString appends s as a JSON string. Like encoding/json it escapes
// quotes, backslashes and control characters, and replaces each byte that is
// not UTF-8 by U+FFFD; unlike it, it leaves <, > and & alone.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, s[start:i]...)
				b = utf8.AppendRune(b, utf8.RuneError)
				start = i + 1
			}
			i += size
			continue
		}
		if c < ' ' || c == '"' || c == '\\' {
			b = append(b, s[start:i]...)
			start = i + 1
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			default:
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
			}
		}
		i++
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
