package webhook

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"chatclub/internal/message"
)

// maxMID is the longest mid in bytes, of which today's have about 100: copies' ids have at
// most the 255 bytes of an AMQP message's id (message.MaxCopyID).
const maxMID = 180 // a longer one is replaced by its digest

// maxItem is the longest item that becomes an event, in bytes; Messenger's have at
// most 20,000 characters of 6 bytes each. An event may be ten times as long as its
// item, and the broker takes 16 MiB.
const maxItem = 1 << 20

// item is one element of an entry's messaging array.
type item struct {
	Sender    message.Lenient[party] `json:"sender"`
	Timestamp millis                 `json:"timestamp"`
	Message   *wireText              `json:"message"`
	Postback  *wireTap               `json:"postback"`
	Policy    *wirePolicy            `json:"policy_enforcement"`

	// Only the presence of these matters.
	Delivery json.RawMessage `json:"delivery"`
	Read     json.RawMessage `json:"read"`
	Reaction json.RawMessage `json:"reaction"`
	Referral json.RawMessage `json:"referral"`
	OptIn    json.RawMessage `json:"optin"`
}

type party struct {
	ID word `json:"id"`
}

// wireText has a text of one type only: an item with another one is kept as
// undecodable, because the user wrote it. The other fields are optional.
type wireText struct {
	MID        word   `json:"mid"`
	Text       string `json:"text"`
	IsEcho     flag   `json:"is_echo"`
	IsDeleted  flag   `json:"is_deleted"`
	QuickReply message.Lenient[struct {
		Payload word `json:"payload"`
	}] `json:"quick_reply"`
	ReplyTo message.Lenient[struct {
		MID word `json:"mid"`
	}] `json:"reply_to"`
	Attachments json.RawMessage `json:"attachments"`
	NLP         json.RawMessage `json:"nlp"` // set if Messenger's built-in language processing is on
}

type wireTap struct {
	MID     word `json:"mid"`
	Title   word `json:"title"`
	Payload word `json:"payload"`
}

type wirePolicy struct {
	Action word `json:"action"`
	Reason word `json:"reason"`
}

// addItem adds one event, or returns false if it cannot be decoded.
func (p *Parts) addItem(page string, entryTime int64, now time.Time, raw []byte) bool {
	var it item
	if len(raw) > maxItem || !decode(raw, &it) {
		return false
	}
	e := message.Event{Page: page, User: string(it.Sender.Value.ID), Time: it.Timestamp.or(entryTime, now)}
	if p.all {
		e.Raw = message.Payload(raw)
	}
	switch {
	case it.Message != nil && p.all && it.Message.isOther(page, e.User):
		return p.addOther(page, entryTime, now, raw, "")
	case it.Message != nil:
		return p.addText(e, it.Message)
	case it.Postback != nil:
		e.Kind, e.ID = message.KindPostback, identity(it.Postback.MID)
		e.Title, e.Payload = string(it.Postback.Title), string(it.Postback.Payload)
		if e.ID == "" {
			e.ID = digest(page, raw)
		}
		return p.add(e)
	case it.Policy != nil:
		e.Kind, e.ID, e.User = message.KindPolicy, digest(page, raw), ""
		e.Action, e.Reason = string(it.Policy.Action), string(it.Policy.Reason)
		return p.add(e)
	case p.all:
		return p.addOther(page, entryTime, now, raw, "")
	default:
		p.Skipped[it.skip()]++
		return true
	}
}

// addOther adds an item as it is, or returns false if it cannot be decoded.
func (p *Parts) addOther(page string, entryTime int64, now time.Time, raw []byte, action string) bool {
	var it item
	if len(raw) > maxItem || !decode(raw, &it) || raw[0] != '{' {
		return false
	}
	return p.add(message.Event{
		Kind: message.KindOther, Page: page, ID: digest(page, raw), User: string(it.Sender.Value.ID),
		Time: it.Timestamp.or(entryTime, now), Action: action, Raw: message.Payload(raw),
	})
}

// skip returns why an item without message, postback or policy is left out.
func (it *item) skip() Skip {
	switch {
	case present(it.Delivery):
		return SkipDelivery
	case present(it.Read):
		return SkipRead
	case present(it.Reaction):
		return SkipReaction
	case present(it.Referral):
		return SkipReferral
	case present(it.OptIn):
		return SkipOptIn
	default:
		return SkipUnknown
	}
}

// isOther reports whether a message is no user's to pass on: our own, or one deleted.
func (m *wireText) isOther(page, user string) bool {
	return bool(m.IsEcho) || user == page || bool(m.IsDeleted)
}

// addText adds a user's message, or returns false if it cannot be decoded. One
// with nothing in it is of a kind that the platform does not pass on: it becomes
// an event with one attachment that has no address, and its sender is told.
func (p *Parts) addText(e message.Event, m *wireText) bool {
	switch {
	case bool(m.IsEcho) || e.User == e.Page:
		p.Skipped[SkipEcho]++
		return true
	case bool(m.IsDeleted):
		p.Skipped[SkipDeleted]++
		return true
	}
	e.Kind, e.ID = message.KindMessage, identity(m.MID)
	e.Text, e.Payload = clean(m.Text), string(m.QuickReply.Value.Payload)
	e.ReplyTo, e.Attachments = identity(m.ReplyTo.Value.MID), attachments(m.Attachments)
	e.Locale = locale(m.NLP)
	if e.Text == "" && e.Payload == "" && len(e.Attachments) == 0 {
		e.Attachments = []message.Attachment{{Type: "unsupported"}}
	}
	return p.add(e)
}

const (
	// minConfidence is the platform's confidence from which on a language is believed.
	// Below it "ok" is found to be any language.
	minConfidence = 0.8
	maxLocale     = 20 // the longest registered language tags in use are shorter
)

// locale returns the language that the platform found in a text. It is empty if
// the platform is not confident, found none, or uses another form.
func locale(nlp json.RawMessage) string {
	var found struct {
		Locales []struct {
			Locale     string  `json:"locale"`
			Confidence float64 `json:"confidence"`
		} `json:"detected_locales"`
	}
	if !present(nlp) || !decode(nlp, &found) {
		return ""
	}
	for _, l := range found.Locales {
		if l.Confidence >= minConfidence && len(l.Locale) <= maxLocale {
			return clean(l.Locale)
		}
	}
	return ""
}

// maxAttachments bounds the attachments of one message. Messenger's own clients stop
// at 30, and no more go to the others.
const maxAttachments = 1000

// attachments returns the attachments. One without an address has an empty URL;
// fanout tells its sender that it cannot be passed on. A sticker is told as an image,
// as a sticker, or as both at two addresses, with one id.
func attachments(raw json.RawMessage) (list []message.Attachment) {
	all, ok := elements(raw)
	if !ok {
		all = []json.RawMessage{raw}
	}
	stickers := make(map[word]bool)
	for _, one := range all[:min(len(all), maxAttachments)] {
		var a message.Lenient[wireAttachment]
		decode(one, &a)
		if id := a.Value.Payload.Value.StickerID; id != "" {
			if stickers[id] {
				continue
			}
			stickers[id], a.Value.Type = true, "sticker"
		}
		list = append(list, message.Attachment{Type: string(a.Value.Type), URL: a.Value.link()})
	}
	return list
}

// wireAttachment has a payload whose shape depends on its type. Only an address is
// used, and a location's coordinates.
type wireAttachment struct {
	Type    word `json:"type"`
	URL     word `json:"url"` // of a fallback, beside a null payload
	Payload message.Lenient[struct {
		URL         word `json:"url"`
		StickerID   word `json:"sticker_id"`
		Coordinates message.Lenient[struct {
			Lat  *float64 `json:"lat"`
			Long *float64 `json:"long"`
		}] `json:"coordinates"`
	}] `json:"payload"`
}

// link returns a map of the coordinates, or else the attachment's address.
func (a wireAttachment) link() string {
	at := a.Payload.Value.Coordinates.Value
	if at.Lat != nil && at.Long != nil && math.Abs(*at.Lat) <= 90 && math.Abs(*at.Long) <= 180 {
		return "https://www.google.com/maps?q=" + degrees(*at.Lat) + "," + degrees(*at.Long)
	}
	return string(cmp.Or(a.Payload.Value.URL, a.URL))
}

// degrees returns a coordinate with six decimals at most, which are 11 cm.
func degrees(f float64) string { return strconv.FormatFloat(math.Round(f*1e6)/1e6, 'f', -1, 64) }

// add appends an event, or returns false if the queue's readers would refuse it.
func (p *Parts) add(e message.Event) bool {
	if !valid(e) {
		return false
	}
	e.Platform = p.platform
	p.Events = append(p.Events, e)
	return true
}

// valid reports whether e meets message.DecodeEvent's rules and the bounds of
// ids, for the kinds that this package makes.
func valid(e message.Event) bool {
	if e.ID == "" || len(e.User) > message.MaxUserID || message.IsReplaced(e.ID) || message.IsReplaced(e.User) {
		return false
	}
	return e.User != "" || e.Kind == message.KindPolicy || e.Kind == message.KindOther
}

// identity returns the event id of a mid, "" for none. The ids of its copies have no
// white space, because several travel with spaces between them.
func identity(mid word) string {
	if len(mid) > maxMID || strings.ContainsFunc(string(mid), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return digest("", []byte(mid))
	}
	return string(mid)
}

// clean removes NUL, which PostgreSQL refuses in text. The JSON decoder has
// already replaced invalid UTF-8.
func clean(s string) string {
	if strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(s, "\x00", "")
}
