package webhook

import (
	"time"

	"chatclub/fakeapi/wire"
)

// GetStarted is the payload of the button with which a conversation begins.
const GetStarted = "GET_STARTED"

// Event is one object of a webhook's messaging list. It is a message where none
// of an echo, a delivery, a read event or a postback is set.
type Event struct {
	Page, User string
	At         time.Time
	MID        string

	Text       string   // of a message
	QuickReply string   // payload of the quick reply whose tap sent the text
	Pictures   []string // addresses of a message's pictures; it may have no text then

	Payload, Title string   // of a postback
	Echo           *Echo    // of a message that the page itself sent
	Delivered      []string // mids; Instagram has no such event
	Read           bool     // everything up to At; of Instagram the message MID
}

// Echo is a message that the page sent. The platform posts it to the app, too.
type Echo struct {
	MID       string // the platform's
	Metadata  string // the sender's own id
	Text      string
	Type, URL string // of the attachment that it has in place of a text
}

// appID is the application that all echoes name.
const appID = 200000000000001

// payload is the body of a webhook, as Messenger posts it.
type payload struct {
	Object string  `json:"object"`
	Entry  []entry `json:"entry"`
}

type entry struct {
	ID        string      `json:"id"`
	Time      int64       `json:"time"`
	Messaging []messaging `json:"messaging"`
}

type messaging struct {
	Sender    id        `json:"sender"`
	Recipient id        `json:"recipient"`
	Timestamp int64     `json:"timestamp"`
	Message   *message  `json:"message,omitempty"`
	Postback  *postback `json:"postback,omitempty"`
	Delivery  *delivery `json:"delivery,omitempty"`
	Read      *read     `json:"read,omitempty"`
}

type id struct {
	ID string `json:"id"`
}

type message struct {
	MID         string       `json:"mid"`
	IsEcho      bool         `json:"is_echo,omitempty"`
	AppID       int64        `json:"app_id,omitempty"`
	Metadata    *string      `json:"metadata,omitempty"`
	Text        *string      `json:"text,omitempty"`
	QuickReply  *quickReply  `json:"quick_reply,omitempty"`
	Attachments []attachment `json:"attachments,omitempty"`
}

type quickReply struct {
	Payload string `json:"payload"`
}

type attachment struct {
	Type    string `json:"type"`
	Payload struct {
		URL string `json:"url"`
	} `json:"payload"`
}

type postback struct {
	MID     string `json:"mid"`
	Title   string `json:"title"`
	Payload string `json:"payload"`
}

type delivery struct {
	MIDs      []string `json:"mids"`
	Watermark int64    `json:"watermark"`
}

type read struct {
	MID       string `json:"mid,omitempty"`
	Watermark int64  `json:"watermark,omitempty"`
}

// bodyOf returns the body that Messenger posts.
func bodyOf(p *Post, now time.Time) []byte {
	v := payload{Object: "page"}
	if p.Instagram {
		v.Object = "instagram"
	}
	for i := range p.Events {
		e := &p.Events[i]
		if i == 0 || p.Split {
			v.Entry = append(v.Entry, entry{ID: e.Page, Time: now.UnixMilli()})
		}
		last := &v.Entry[len(v.Entry)-1]
		last.Messaging = append(last.Messaging, e.messaging(p.Instagram))
	}
	return wire.Append(nil, v)
}

func (e *Event) messaging(instagram bool) messaging {
	m := messaging{Sender: id{e.User}, Recipient: id{e.Page}, Timestamp: e.At.UnixMilli()}
	switch {
	case e.Echo != nil:
		m.Sender, m.Recipient = m.Recipient, m.Sender
		m.Message = e.Echo.message(instagram)
	case e.Delivered != nil:
		m.Delivery = &delivery{e.Delivered, m.Timestamp}
	case e.Read && instagram:
		m.Read = &read{MID: e.MID}
	case e.Read:
		m.Read = &read{Watermark: m.Timestamp}
	case e.Payload != "":
		m.Postback = &postback{e.MID, e.Title, e.Payload}
	default:
		m.Message = e.message()
	}
	return m
}

func (e *Event) message() *message {
	m := &message{MID: e.MID}
	if e.Text != "" || len(e.Pictures) == 0 {
		m.Text = &e.Text
	}
	if e.QuickReply != "" {
		m.QuickReply = &quickReply{e.QuickReply}
	}
	for _, address := range e.Pictures {
		m.attach("image", address)
	}
	return m
}

// message returns it as a message. Instagram's do not tell who sent them.
func (e *Echo) message(instagram bool) *message {
	m := &message{MID: e.MID, IsEcho: true}
	if !instagram {
		m.AppID, m.Metadata = appID, &e.Metadata
	}
	if e.Type != "" {
		m.attach(e.Type, e.URL)
	} else {
		m.Text = &e.Text
	}
	return m
}

func (m *message) attach(kind, address string) {
	a := attachment{Type: kind}
	a.Payload.URL = address
	m.Attachments = append(m.Attachments, a)
}
