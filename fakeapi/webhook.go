package fakeapi

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Messenger sends this signature, too
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
	"time"

	"chatclub/fakeapi/wire"
)

// happening is one object of a webhook's messaging list.
type happening struct {
	page, user string
	at         time.Time
	mid        string
	text       string   // a message; else the fields below
	quick      string   // payload of the quick reply that the text stood on
	pictures   []string // addresses of a message's pictures; it may have no text then
	payload    string   // a postback
	title      string
	echo       *Acceptance // what the page itself sent
	delivered  []string    // mids
	read       bool        // everything up to at
}

// webhookBody is the body that Messenger posts for the happenings, which are
// of one page: ASCII only and escaped as Messenger does. split makes an entry
// of each happening, otherwise they share one.
func webhookBody(now time.Time, list []happening, split bool) []byte {
	b := append(make([]byte, 0, 256+300*len(list)), `{"object":"page","entry":[`...)
	for i, h := range list {
		switch {
		case i == 0:
			b = appendEntry(b, now, h.page)
		case split:
			b = append(b, `]},`...)
			b = appendEntry(b, now, h.page)
		default:
			b = append(b, ',')
		}
		b = h.append(b)
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

func (h happening) append(b []byte) []byte {
	from, to := h.user, h.page
	if h.echo != nil {
		from, to = h.page, h.user
	}
	b = append(b, `{"sender":{"id":`...)
	b = wire.AppendString(b, from)
	b = append(b, `},"recipient":{"id":`...)
	b = wire.AppendString(b, to)
	b = append(b, `},"timestamp":`...)
	b = strconv.AppendInt(b, h.at.UnixMilli(), 10)
	switch {
	case h.echo != nil:
		b = h.echo.appendEcho(b)
	case h.delivered != nil:
		b = append(b, `,"delivery":{"mids":[`...)
		for i, mid := range h.delivered {
			if i > 0 {
				b = append(b, ',')
			}
			b = wire.AppendString(b, mid)
		}
		b = append(b, `],"watermark":`...)
		b = strconv.AppendInt(b, h.at.UnixMilli(), 10)
		b = append(b, '}')
	case h.read:
		b = append(b, `,"read":{"watermark":`...)
		b = strconv.AppendInt(b, h.at.UnixMilli(), 10)
		b = append(b, '}')
	case h.payload != "":
		b = append(b, `,"postback":{"mid":`...)
		b = wire.AppendString(b, h.mid)
		b = append(b, `,"title":`...)
		b = wire.AppendString(b, h.title)
		b = append(b, `,"payload":`...)
		b = wire.AppendString(b, h.payload)
		b = append(b, '}')
	default:
		b = append(b, `,"message":{"mid":`...)
		b = wire.AppendString(b, h.mid)
		if h.text != "" || len(h.pictures) == 0 {
			b = append(b, `,"text":`...)
			b = wire.AppendString(b, h.text)
		}
		if h.quick != "" {
			b = append(b, `,"quick_reply":{"payload":`...)
			b = wire.AppendString(b, h.quick)
			b = append(b, '}')
		}
		b = appendPictures(b, h.pictures)
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendPictures appends the attachments of a message that has any.
func appendPictures(b []byte, addresses []string) []byte {
	for i, address := range addresses {
		if i == 0 {
			b = append(b, `,"attachments":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"type":"image","payload":{"url":`...)
		b = wire.AppendString(b, address)
		b = append(b, `}}`...)
	}
	if len(addresses) > 0 {
		b = append(b, ']')
	}
	return b
}

// appID is the application that all echoes name.
const appID = "200000000000001"

func (x *Acceptance) appendEcho(b []byte) []byte {
	b = append(b, `,"message":{"mid":`...)
	b = wire.AppendString(b, x.MID)
	b = append(b, `,"is_echo":true,"app_id":`+appID+`,"metadata":`...)
	b = wire.AppendString(b, x.ID)
	if x.Type != "" {
		b = append(b, `,"attachments":[{"type":`...)
		b = wire.AppendString(b, x.Type)
		b = append(b, `,"payload":{"url":`...)
		b = wire.AppendString(b, x.URL)
		b = append(b, `}}]`...)
	} else {
		b = append(b, `,"text":`...)
		b = wire.AppendString(b, x.Text)
	}
	return append(b, '}')
}

// sign returns the values of X-Hub-Signature-256 and, for receivers of before
// 2022, X-Hub-Signature.
func sign(secret string, body []byte) (sha2, legacy string) {
	return "sha256=" + hexMAC(sha256.New, secret, body), "sha1=" + hexMAC(sha1.New, secret, body)
}

func hexMAC(h func() hash.Hash, secret string, body []byte) string {
	mac := hmac.New(h, []byte(secret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}
