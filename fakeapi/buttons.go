package fakeapi

import (
	"encoding/json"
	"fmt"
	"slices"
)

// The documents' bounds of buttons and quick replies.
const (
	maxButtons      = 3
	maxButtonTitle  = 20
	maxPayload      = 1000
	maxTemplateText = 640
)

// Button can be tapped and came with a message. It is a quick reply, whose tap is
// a message with a payload, or a button of a template, whose tap is a postback.
type Button struct {
	Title   string `json:"title"`
	Payload string `json:"-"` // of a quick reply or a button of type postback
	Quick   bool   `json:"quick,omitempty"`
	URL     string `json:"url,omitempty"` // of a button that opens a web address, which no phone does
}

// quickReply is a quick reply as it is sent.
type quickReply struct {
	ContentType string `json:"content_type"`
	Title       string `json:"title"`
	Payload     string `json:"payload"`
}

// template is the payload of a template of buttons. Of other templates only the
// type is read.
type template struct {
	Type    string           `json:"template_type"`
	Text    string           `json:"text"`
	Buttons []templateButton `json:"buttons"`
}

type templateButton struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Payload string `json:"payload"`
	URL     string `json:"url"`
}

// validateReplies returns the answer to quick replies that the platform
// refuses.
func (m *outMessage) validateReplies() *answer {
	if len(m.QuickReplies) > maxQuickReplies {
		return errParam.because("Length of param message[quick_replies] must be less than or equal to %d", maxQuickReplies)
	}
	for i, raw := range m.QuickReplies {
		var r quickReply
		if json.Unmarshal(raw, &r) != nil {
			return errParam.because("Param message[quick_replies][%d] must be an object.", i)
		}
		switch r.ContentType {
		case "user_phone_number", "user_email": // the platform writes their titles
		case "text":
			if why := validateTap(fmt.Sprintf("message[quick_replies][%d]", i), r.Title, "payload", r.Payload); why != nil {
				return why
			}
		default:
			return errParam.because("Param message[quick_replies][%d][content_type] must be one of {text, user_email, user_phone_number}.", i)
		}
	}
	return nil
}

// validateTap checks the title of a button, and the field with what its tap does.
func validateTap(param, title, field, value string) *answer {
	switch {
	case title == "":
		return errParam.because("The parameter %s[title] is required.", param)
	case Units(title) > maxButtonTitle:
		return errParam.because("Length of param %s[title] must be less than or equal to %d", param, maxButtonTitle)
	case value == "":
		return errParam.because("The parameter %s[%s] is required.", param, field)
	case Units(value) > maxPayload:
		return errParam.because("Length of param %s[%s] must be less than or equal to %d", param, field, maxPayload)
	}
	return nil
}

// validateTemplate checks a template of buttons. Others are taken as they are.
func (a *attachment) validateTemplate() *answer {
	const payload = "message[attachment][payload]"
	var t template
	if json.Unmarshal(a.Payload, &t) != nil || t.Type == "" {
		return errParam.because("The parameter %s[template_type] is required.", payload)
	}
	if t.Type != "button" {
		return nil
	}
	switch {
	case t.Text == "":
		return errParam.because("The parameter %s[text] is required.", payload)
	case Units(t.Text) > maxTemplateText:
		return errParam.because("Length of param %s[text] must be less than or equal to %d", payload, maxTemplateText)
	case len(t.Buttons) == 0 || len(t.Buttons) > maxButtons:
		return errParam.because("Param %s[buttons] must have 1 to %d items.", payload, maxButtons)
	}
	for i, b := range t.Buttons {
		param := fmt.Sprintf("%s[buttons][%d]", payload, i)
		switch b.Type {
		case "postback":
			if why := validateTap(param, b.Title, "payload", b.Payload); why != nil {
				return why
			}
		case "web_url":
			if why := validateTap(param, b.Title, "url", b.URL); why != nil {
				return why
			}
		case "phone_number", "account_link", "account_unlink", "game_play":
		default:
			return errParam.because("Param %s[type] is not known.", param)
		}
	}
	return nil
}

// buttons returns the buttons that came with a message, the template's before the
// quick replies, and the template's text. Buttons without a title are left out.
func (m *outMessage) buttons() (list []Button, text string) {
	var t template
	if m.Attachment != nil && m.Attachment.Type == "template" && json.Unmarshal(m.Attachment.Payload, &t) == nil {
		for _, b := range t.Buttons {
			list = append(list, Button{Title: b.Title, Payload: b.Payload, URL: b.URL})
		}
	}
	for _, raw := range m.QuickReplies {
		var r quickReply
		if json.Unmarshal(raw, &r) == nil && r.ContentType == "text" {
			list = append(list, Button{Title: r.Title, Payload: r.Payload, Quick: true})
		}
	}
	return slices.DeleteFunc(list, func(b Button) bool { return b.Title == "" }), t.Text
}
