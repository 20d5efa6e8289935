package webhook

import (
	"strconv"
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

// bodyOf returns the body that Messenger posts: ASCII only and escaped as Messenger
// does.
func bodyOf(p *Post, now time.Time) []byte {
	object := "page"
	if p.Instagram {
		object = "instagram"
	}
	b := []byte(`{"object":"` + object + `","entry":[`)
	for i := range p.Events {
		e := &p.Events[i]
		switch {
		case i == 0:
			b = appendEntry(b, now, e.Page)
		case p.Split:
			b = append(b, `]},`...)
			b = appendEntry(b, now, e.Page)
		default:
			b = append(b, ',')
		}
		b = e.append(b, p.Instagram)
	}
	return append(b, `]}]}`...)
}

func appendEntry(b []byte, now time.Time, page string) []byte {
	b = append(b, `{"id":`...)
	b = wire.AppendString(b, page)
	b = append(b, `,"time":`...)
	b = strconv.AppendInt(b, now.UnixMilli(), 10)
	return append(b, `,"messaging":[`...)
}

func (e *Event) append(b []byte, instagram bool) []byte {
	from, to := e.User, e.Page
	if e.Echo != nil {
		from, to = e.Page, e.User
	}
	b = append(b, `{"sender":{"id":`...)
	b = wire.AppendString(b, from)
	b = append(b, `},"recipient":{"id":`...)
	b = wire.AppendString(b, to)
	b = append(b, `},"timestamp":`...)
	b = strconv.AppendInt(b, e.At.UnixMilli(), 10)
	switch {
	case e.Echo != nil:
		b = e.Echo.append(b, instagram)
	case e.Delivered != nil:
		b = e.appendDelivery(b)
	case e.Read && instagram:
		b = append(b, `,"read":{"mid":`...)
		b = wire.AppendString(b, e.MID)
		b = append(b, '}')
	case e.Read:
		b = append(b, `,"read":{"watermark":`...)
		b = strconv.AppendInt(b, e.At.UnixMilli(), 10)
		b = append(b, '}')
	case e.Payload != "":
		b = e.appendPostback(b)
	default:
		b = e.appendMessage(b)
	}
	return append(b, '}')
}

func (e *Event) appendDelivery(b []byte) []byte {
	b = append(b, `,"delivery":{"mids":[`...)
	for i, mid := range e.Delivered {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendString(b, mid)
	}
	b = append(b, `],"watermark":`...)
	b = strconv.AppendInt(b, e.At.UnixMilli(), 10)
	return append(b, '}')
}

func (e *Event) appendPostback(b []byte) []byte {
	b = append(b, `,"postback":{"mid":`...)
	b = wire.AppendString(b, e.MID)
	b = append(b, `,"title":`...)
	b = wire.AppendString(b, e.Title)
	b = append(b, `,"payload":`...)
	b = wire.AppendString(b, e.Payload)
	return append(b, '}')
}

func (e *Event) appendMessage(b []byte) []byte {
	b = append(b, `,"message":{"mid":`...)
	b = wire.AppendString(b, e.MID)
	if e.Text != "" || len(e.Pictures) == 0 {
		b = append(b, `,"text":`...)
		b = wire.AppendString(b, e.Text)
	}
	if e.QuickReply != "" {
		b = append(b, `,"quick_reply":{"payload":`...)
		b = wire.AppendString(b, e.QuickReply)
		b = append(b, '}')
	}
	for i, address := range e.Pictures {
		if i == 0 {
			b = append(b, `,"attachments":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"type":"image","payload":{"url":`...)
		b = wire.AppendString(b, address)
		b = append(b, `}}`...)
	}
	if len(e.Pictures) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// appID is the application that all echoes name.
const appID = "200000000000001"

// append appends it. Instagram's do not tell who sent them.
func (e *Echo) append(b []byte, instagram bool) []byte {
	b = append(b, `,"message":{"mid":`...)
	b = wire.AppendString(b, e.MID)
	b = append(b, `,"is_echo":true`...)
	if !instagram {
		b = append(b, `,"app_id":`+appID+`,"metadata":`...)
		b = wire.AppendString(b, e.Metadata)
	}
	if e.Type != "" {
		b = append(b, `,"attachments":[{"type":`...)
		b = wire.AppendString(b, e.Type)
		b = append(b, `,"payload":{"url":`...)
		b = wire.AppendString(b, e.URL)
		b = append(b, `}}]`...)
	} else {
		b = append(b, `,"text":`...)
		b = wire.AppendString(b, e.Text)
	}
	return append(b, '}')
}
