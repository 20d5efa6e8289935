package web

import (
	"slices"
	"time"

	"chatclub/fakeapi"
)

// joinState is the state of a phone with its page.
type joinState string

const (
	notJoined joinState = "new" // it has never joined
	joining   joinState = "joining"
	joined    joinState = "joined"
	left      joinState = "left"
)

// sendState is the state of a phone's own message.
type sendState string

const (
	sending sendState = "sending" // the webhook has not answered 200 yet
	sent    sendState = "sent"
	failed  sendState = "failed"
)

// phone is one user who is played by hand. The lock of the phones guards it.
type phone struct {
	id, page, user string
	state          joinState
	typingUntil    time.Time
	next           int       // number of its next message
	messages       []message // the latest, oldest first
	outbox         []message // to be posted, whether or not they are still shown
	busy           bool      // a goroutine empties the outbox
}

// message is one message of a phone's conversation, as JSON too.
type message struct {
	N       int              `json:"n"`
	State   sendState        `json:"state,omitempty"` // of the phone's own message
	Tap     bool             `json:"tap,omitempty"`   // a button was tapped, nothing was written
	Text    string           `json:"text,omitempty"`
	Picture string           `json:"picture,omitempty"` // name of a built-in one
	URL     string           `json:"url,omitempty"`     // of any other attachment
	Buttons []fakeapi.Button `json:"buttons,omitempty"`
	At      time.Time        `json:"at"`

	// Of the phone's own message.
	start   bool   // it is "Get Started"
	quick   bool   // it is a quick reply
	payload string // of a button or quick reply
	rev     uint64 // revision of the phones in which it changed last
}

// append puts a message at the end of the conversation, and drops the oldest
// where too many are kept. It returns the message with its number.
func (f *phone) append(m message) message {
	m.N = f.next
	f.next++
	if len(f.messages) == keptMessages {
		f.messages = slices.Delete(f.messages, 0, 1)
	}
	f.messages = append(f.messages, m)
	return m
}

// first returns the number of the oldest message that is kept.
func (f *phone) first() int { return f.next - len(f.messages) }

// index returns where message n is in f.messages, if it is still kept.
func (f *phone) index(n int) (i int, kept bool) {
	i = n - f.first()
	return i, i >= 0 && i < len(f.messages)
}

// isOnPage reports whether the page can send to the phone.
func (f *phone) isOnPage() bool { return f.state == joining || f.state == joined }
