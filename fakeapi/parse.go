package fakeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"chatclub/fakeapi/ledger"
)

// sendBody is the body of a Send API call, from JSON or from a form.
type sendBody struct {
	Token         string              `json:"access_token"`
	Proof         string              `json:"appsecret_proof"`
	Recipient     *nested[recipient]  `json:"recipient"`
	MessagingType string              `json:"messaging_type"`
	Message       *nested[outMessage] `json:"message"`
	SenderAction  string              `json:"sender_action"`
	Tag           string              `json:"tag"`
}

type recipient struct {
	ID looseString `json:"id"`
}

type outMessage struct {
	Text         *string           `json:"text"`
	Attachment   *attachment       `json:"attachment"`
	QuickReplies []json.RawMessage `json:"quick_replies"`
	Metadata     string            `json:"metadata"`
}

type attachment struct {
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

// nested is a field that may be an object, or a string that holds one. The
// platform takes both.
type nested[T any] struct{ v T }

// UnmarshalJSON implements json.Unmarshaler.
func (n *nested[T]) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		b = []byte(s)
	}
	return json.Unmarshal(b, &n.v)
}

// looseString is a string, or a number taken as written.
type looseString string

// UnmarshalJSON implements json.Unmarshaler.
func (s *looseString) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '"' {
		var n json.Number
		if err := json.Unmarshal(b, &n); err != nil {
			return err
		}
		*s = looseString(n)
		return nil
	}
	var v string
	err := json.Unmarshal(b, &v)
	*s = looseString(v)
	return err
}

const contentForm = "application/x-www-form-urlencoded"

// parseBody reads a body by its content type. It returns a body also with an
// error. The error says what is wrong as the platform would, and quotes nothing
// of the body.
func parseBody(contentType, body []byte) (*sendBody, error) {
	var b sendBody
	if bytes.HasPrefix(contentType, []byte(contentForm)) {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return &b, errors.New("the body is not a valid form")
		}
		return &b, b.fromForm(form)
	}
	if err := json.Unmarshal(body, &b); err != nil {
		var field *json.UnmarshalTypeError
		if errors.As(err, &field) && field.Field != "" {
			return &b, fmt.Errorf("param %.40s has the wrong type", field.Field)
		}
		return &b, errors.New("the body is not valid JSON")
	}
	return &b, nil
}

func (b *sendBody) fromForm(form url.Values) error {
	b.Token = form.Get("access_token")
	b.Proof = form.Get("appsecret_proof")
	b.MessagingType = form.Get("messaging_type")
	b.SenderAction = form.Get("sender_action")
	b.Tag = form.Get("tag")
	if s := form.Get("recipient"); s != "" {
		b.Recipient = new(nested[recipient])
		if err := json.Unmarshal([]byte(s), &b.Recipient.v); err != nil {
			return errors.New("param recipient must be a JSON object")
		}
	}
	if s := form.Get("message"); s != "" {
		b.Message = new(nested[outMessage])
		if err := json.Unmarshal([]byte(s), &b.Message.v); err != nil {
			return errors.New("param message must be a JSON object")
		}
	}
	return nil
}

func (b *sendBody) recipient() string {
	if b.Recipient == nil {
		return ""
	}
	return string(b.Recipient.v.ID)
}

// id returns the sender's own message id.
func (b *sendBody) id() string {
	if b.Message == nil {
		return ""
	}
	return b.Message.v.Metadata
}

// class returns the quota class in which the call counts.
func (b *sendBody) class() ledger.Class {
	if b.Message != nil && b.Message.v.Attachment != nil {
		if t := b.Message.v.Attachment.Type; t == "audio" || t == "video" {
			return ledger.Media
		}
	}
	return ledger.Text
}

// mediaURL returns the address in an attachment's payload, and whether the
// payload names an attachment that was uploaded before.
func (a *attachment) mediaURL() (address string, reused bool) {
	var p struct {
		URL string      `json:"url"`
		ID  looseString `json:"attachment_id"`
	}
	if json.Unmarshal(a.Payload, &p) != nil {
		return "", false
	}
	return p.URL, p.ID != ""
}
