package fakeapi

import (
	"net/url"
	"strings"
	"unicode/utf16"
)

// MaxText is the number of characters that the documents allow in one text, as Units
// counts them. Of Instagram they allow so many bytes of UTF-8.
const (
	MaxText          = 2000
	MaxInstagramText = 1000
)

// Units returns the length of a text in UTF-16 units. The documents do not say what
// a character is. No other reading of theirs counts more, except bytes.
func Units(text string) (n int) {
	for _, r := range text { // never half a pair
		n += utf16.RuneLen(r)
	}
	return n
}

// The documents' other bounds of one message.
const (
	maxMetadata     = 999 // "less than 1000 characters"
	maxQuickReplies = 13
)

// validate returns the documented answer to a body that the platform refuses, and nil
// for any other.
func (b *sendBody) validate(instagram bool) *answer {
	if b.recipient() == "" {
		return errParam.because("The parameter recipient is required.")
	}
	switch b.MessagingType {
	case "", "RESPONSE", "UPDATE":
	case "MESSAGE_TAG":
		if b.Tag == "" {
			return errParam.because("The parameter tag is required with messaging_type MESSAGE_TAG.")
		}
	default:
		return errParam.because("Param messaging_type must be one of {RESPONSE, UPDATE, MESSAGE_TAG}.")
	}
	if b.SenderAction != "" {
		return b.validateAction()
	}
	if b.Message == nil {
		return errEmpty
	}
	return b.Message.v.validate(instagram)
}

func (b *sendBody) validateAction() *answer {
	if b.Message != nil {
		return errParam.because("Param sender_action cannot be combined with message.")
	}
	switch strings.ToLower(b.SenderAction) {
	case "typing_on", "typing_off", "mark_seen":
		return nil
	}
	return errParam.because("Param sender_action must be one of {TYPING_ON, TYPING_OFF, MARK_SEEN}.")
}

func (m *outMessage) validate(instagram bool) *answer {
	text := ""
	if m.Text != nil {
		text = *m.Text
	}
	switch {
	case text == "" && m.Attachment == nil:
		return errEmpty
	case text != "" && m.Attachment != nil:
		return errParam.because("Message cannot contain both text and attachment.")
	case instagram && len(text) > MaxInstagramText:
		return errParam.because("Length of param message[text] must be less than or equal to %d bytes", MaxInstagramText)
	case Units(text) > MaxText:
		return errParam.because("Length of param message[text] must be less than or equal to %d", MaxText)
	case Units(m.Metadata) > maxMetadata:
		return errParam.because("Length of param message[metadata] must be less than %d", maxMetadata+1)
	}
	if why := m.validateReplies(); why != nil || m.Attachment == nil {
		return why
	}
	return m.Attachment.validate()
}

func (a *attachment) validate() *answer {
	switch a.Type {
	case "template":
		return a.validateTemplate()
	case "audio", "file", "image", "video":
	default:
		return errParam.because("Param message[attachment][type] must be one of {audio, file, image, template, video}.")
	}
	address, reused := a.mediaURL()
	if reused {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errMediaURL
	}
	return nil
}
