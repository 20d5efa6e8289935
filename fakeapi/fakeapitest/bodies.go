package fakeapitest

import "strings"

// Text is the body of a send of text.
func Text(to, id string) string {
	return `{"recipient":{"id":"` + to + `"},"messaging_type":"UPDATE","message":{"text":"hi","metadata":"` + id + `"}}`
}

// Buttons is the body of a template of buttons for user 42.
func Buttons(text string, list ...string) string {
	return `{"recipient":{"id":"42"},"message":{"attachment":{"type":"template","payload":{"template_type":"button","text":"` + text +
		`","buttons":[` + strings.Join(list, ",") + `]}}}}`
}

// Button is a button whose tap is a postback.
func Button(title, payload string) string {
	return `{"type":"postback","title":"` + title + `","payload":"` + payload + `"}`
}

// QuickReplies is the body of a text with quick replies for user 42.
func QuickReplies(list ...string) string {
	return `{"recipient":{"id":"42"},"message":{"text":"which?","quick_replies":[` + strings.Join(list, ",") + `]}}`
}

// QuickReply is a quick reply whose tap is a message.
func QuickReply(title, payload string) string {
	return `{"content_type":"text","title":"` + title + `","payload":"` + payload + `"}`
}
