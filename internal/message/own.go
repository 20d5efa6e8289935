package message

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"

	"chatclub/internal/plaintext"
)

// Own is the part of an Outbound that core does not use: what the Send API takes beside
// texts and files. Such messages are never joined.
type Own struct {
	Payload          Payload `json:"payload,omitempty"`           // a message object of the Send API, passed on as it is, without metadata
	MessagingType    string  `json:"messaging_type,omitempty"`    // RESPONSE, UPDATE (the default) or MESSAGE_TAG
	Tag              string  `json:"tag,omitempty"`               // such as HUMAN_AGENT; with MESSAGE_TAG alone
	NotificationType string  `json:"notification_type,omitempty"` // REGULAR (the default), SILENT_PUSH or NO_PUSH
	SenderAction     string  `json:"sender_action,omitempty"`     // typing_on, typing_off or mark_seen
}

// hasOwn reports whether anything of it is set.
func (o *Own) hasOwn() bool {
	return len(o.Payload) > 0 || o.MessagingType != "" || o.Tag != "" || o.NotificationType != "" || o.SenderAction != ""
}

// MaxPayload is the longest payload, in bytes: a template of ten elements has less.
const MaxPayload = 32 << 10

// Payload is a message object of the Send API, or an event of Messenger, as JSON.
type Payload = json.RawMessage

// canonical returns a payload as it is encoded, nil for none.
func canonical(p Payload) Payload {
	if len(p) == 0 || string(p) == "null" {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, p); err != nil { // it was part of valid JSON
		return p
	}
	return b.Bytes()
}

// payloadFields are the fields of a payload that readPayload looks at.
type payloadFields struct {
	Text       Lenient[string] `json:"text"`
	Attachment Lenient[struct {
		Type    Lenient[string] `json:"type"`
		Payload Lenient[struct {
			Elements Lenient[[]struct {
				MediaType Lenient[string] `json:"media_type"`
			}] `json:"elements"`
		}] `json:"payload"`
	}] `json:"attachment"`
	QuickReplies Lenient[[]json.RawMessage] `json:"quick_replies"`
	Metadata     json.RawMessage            `json:"metadata"`
}

// Lenient is a field whose value is the zero value if it is of another type than T.
type Lenient[T any] struct{ Value T }

// UnmarshalJSON implements json.Unmarshaler.
func (l *Lenient[T]) UnmarshalJSON(b []byte) error {
	var v T
	if json.Unmarshal(b, &v) == nil {
		l.Value = v
	}
	return nil
}

// readPayload returns the fields of an object, and none of anything else.
func readPayload(p Payload) (f payloadFields) {
	_ = json.Unmarshal(p, &f)
	return f
}

// isMedia reports whether the call counts as one with audio or video.
func (f payloadFields) isMedia() bool {
	a := f.Attachment.Value
	for _, e := range a.Payload.Value.Elements.Value {
		if isMedia(e.MediaType.Value) {
			return true
		}
	}
	return isMedia(a.Type.Value)
}

func isMedia(kind string) bool { return kind == "audio" || kind == "video" }

// count returns how many are true.
func count(all ...bool) (n int) {
	for _, is := range all {
		if is {
			n++
		}
	}
	return n
}

// tagForm is that of the platform's tags, which it adds without notice.
var tagForm = regexp.MustCompile(`^[A-Z_]{1,64}$`)

// validateOwn returns an error for each wrong field of Own.
func (o *Outbound) validateOwn() (faults []error) {
	if !o.hasOwn() {
		return nil
	}
	wrong := func(field, problem string) { faults = append(faults, &FieldError{field, problem}) }
	oneOf := func(field, value string, all ...string) {
		if value != "" && !slices.Contains(all, value) {
			wrong(field, "is none of those that the Send API has")
		}
	}
	oneOf("messaging_type", o.MessagingType, "RESPONSE", "UPDATE", "MESSAGE_TAG")
	oneOf("notification_type", o.NotificationType, "REGULAR", "SILENT_PUSH", "NO_PUSH")
	oneOf("sender_action", o.SenderAction, "typing_on", "typing_off", "mark_seen")
	if (o.MessagingType == "MESSAGE_TAG") != (o.Tag != "") {
		wrong("tag", "is needed with messaging_type MESSAGE_TAG, and with that alone")
	}
	if o.Tag != "" && !tagForm.MatchString(o.Tag) {
		wrong("tag", "must have 1 to 64 capital letters and underscores")
	}
	if o.SenderAction != "" && (o.MessagingType != "" || o.NotificationType != "") {
		wrong("sender_action", "goes without messaging_type and notification_type")
	}
	if len(o.Replies) > 0 && o.Text == "" && o.Attachment == nil {
		wrong("replies", "are for a text or attachment; a payload has its own")
	}
	if o.Payload != nil {
		faults = append(faults, validatePayload(o.Payload)...)
	}
	return faults
}

// validatePayload returns an error for each field that the Send API would refuse.
func validatePayload(p Payload) (faults []error) {
	wrong := func(field, problem string) { faults = append(faults, &FieldError{field, problem}) }
	f := readPayload(p)
	switch {
	case p[0] != '{' || string(p) == "{}":
		wrong("payload", "must be an object, and not empty")
	case len(p) > MaxPayload:
		wrong("payload", "has more than 32768 bytes")
	}
	if f.Metadata != nil {
		wrong("payload.metadata", "is where the message's id travels")
	}
	if plaintext.Len(f.Text.Value) > MaxText {
		wrong("payload.text", "has more than 2000 characters")
	}
	if len(f.QuickReplies.Value) > MaxReplies {
		wrong("payload.quick_replies", "are more than 13")
	}
	return faults
}
