package webhook

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"chatclub/internal/message"
)

// A copy's id, page/mid/recipient/part, is a message id of AMQP, which has at
// most 255 bytes. Ids of pages and users have up to 17 digits today, and mids
// about 100 characters. 32 + 1 + 180 + 1 + 32 + 4 for the part makes 250.
const (
	maxUserID = 32  // of a page's or user's id; an event with a longer one is undecodable
	maxMID    = 180 // a longer mid is replaced by its digest
)

// item is one element of an entry's messaging array.
type item struct {
	Sender    party       `json:"sender"`
	Timestamp millis      `json:"timestamp"`
	Message   *wireText   `json:"message"`
	Postback  *wireTap    `json:"postback"`
	Policy    *wirePolicy `json:"policy_enforcement"`

	// Only the presence of these matters.
	Delivery json.RawMessage `json:"delivery"`
	Read     json.RawMessage `json:"read"`
	Reaction json.RawMessage `json:"reaction"`
	Referral json.RawMessage `json:"referral"`
	OptIn    json.RawMessage `json:"optin"`
}

// millis is a time in milliseconds since 1970, in any form that JSON has for a
// number; 0 for one that cannot be a time.
type millis int64

// maxMillis is the greatest whole number that a float64 holds exactly.
const maxMillis = 1 << 53

// UnmarshalJSON implements json.Unmarshaler.
func (m *millis) UnmarshalJSON(b []byte) error {
	if !present(b) {
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64) // b is JSON, so no "0x1" or "Inf"
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return err
	}
	if f > 0 && f <= maxMillis {
		*m = millis(f)
	}
	return nil
}

type party struct {
	ID string `json:"id"`
}

type wireText struct {
	MID        string `json:"mid"`
	Text       string `json:"text"`
	IsEcho     bool   `json:"is_echo"`
	IsDeleted  bool   `json:"is_deleted"`
	QuickReply struct {
		Payload string `json:"payload"`
	} `json:"quick_reply"`
	ReplyTo struct {
		MID string `json:"mid"`
	} `json:"reply_to"`
	Attachments json.RawMessage `json:"attachments"`
	NLP         json.RawMessage `json:"nlp"` // set if Messenger's built-in language processing is on
}

type wireTap struct {
	MID     string `json:"mid"`
	Title   string `json:"title"`
	Payload string `json:"payload"`
}

type wirePolicy struct {
	Action string `json:"action"`
	Reason string `json:"reason"`
}

// addItem adds one event, or returns false if it cannot be decoded.
func (p *Parts) addItem(page string, entryTime int64, raw []byte) bool {
	var it item
	if !decode(raw, &it) {
		return false
	}
	e := message.Event{Page: page, User: clean(it.Sender.ID), Time: int64(it.Timestamp)}
	if e.Time <= 0 {
		e.Time = entryTime
	}
	switch {
	case it.Message != nil:
		return p.addText(e, it.Message)
	case it.Postback != nil:
		e.Kind, e.ID = message.KindPostback, identity(it.Postback.MID)
		e.Title, e.Payload = clean(it.Postback.Title), clean(it.Postback.Payload)
		if e.ID == "" {
			e.ID = digest(page, raw)
		}
		return p.add(e)
	case it.Policy != nil:
		e.Kind, e.ID, e.User = message.KindPolicy, digest(page, raw), ""
		e.Action, e.Reason = clean(it.Policy.Action), clean(it.Policy.Reason)
		return p.add(e)
	default:
		p.Skipped[it.skip()]++
		return true
	}
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

// addText adds a user's message, or returns false if it cannot be decoded.
func (p *Parts) addText(e message.Event, m *wireText) bool {
	switch {
	case m.IsEcho || e.User == e.Page:
		p.Skipped[SkipEcho]++
		return true
	case m.IsDeleted:
		p.Skipped[SkipDeleted]++
		return true
	}
	attachments, dropped, ok := attachments(m.Attachments)
	if !ok {
		return false
	}
	e.Kind, e.ID = message.KindMessage, identity(m.MID)
	e.Text, e.Payload = clean(m.Text), clean(m.QuickReply.Payload)
	e.ReplyTo, e.Attachments = identity(m.ReplyTo.MID), attachments
	e.Locale = locale(m.NLP)
	if !valid(e) {
		return false
	}
	p.Skipped[SkipAttachment] += dropped
	if e.Text == "" && e.Payload == "" && len(e.Attachments) == 0 {
		p.Skipped[SkipEmpty]++
		return true
	}
	return p.add(e)
}

const (
	// minConfidence is how confident the platform must be of a language. Below it
	// "ok" is found to be any language.
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

// attachments returns those that have an address, and counts the others.
func attachments(raw json.RawMessage) (kept []message.Attachment, dropped int, ok bool) {
	all, ok := elements(raw)
	if !ok {
		return nil, 0, false
	}
	for _, one := range all {
		var a struct {
			Type    string          `json:"type"`
			URL     string          `json:"url"` // of a fallback, beside a null payload
			Payload json.RawMessage `json:"payload"`
		}
		if !decode(one, &a) {
			return nil, 0, false
		}
		// A payload's shape depends on its type. Only the address is used.
		var payload struct {
			URL string `json:"url"`
		}
		if present(a.Payload) && decode(a.Payload, &payload) && payload.URL != "" {
			a.URL = payload.URL
		}
		att := message.Attachment{Type: clean(a.Type), URL: clean(a.URL)}
		if att.Type == "" || att.URL == "" {
			dropped++
			continue
		}
		kept = append(kept, att)
	}
	return kept, dropped, true
}

// add appends an event, or returns false if the queue's readers would refuse it.
func (p *Parts) add(e message.Event) bool {
	if !valid(e) {
		return false
	}
	p.Events = append(p.Events, e)
	return true
}

// valid reports whether e meets message.DecodeEvent's rules and the bounds of
// ids, for the kinds that this package makes.
func valid(e message.Event) bool {
	if e.ID == "" || len(e.User) > maxUserID {
		return false
	}
	return e.User != "" || e.Kind == message.KindPolicy
}

// identity returns the event id of a mid, "" for none.
func identity(mid string) string {
	mid = clean(mid)
	if len(mid) > maxMID {
		return digest("", []byte(mid))
	}
	return mid
}

// clean removes NUL, which PostgreSQL refuses in text. The JSON decoder has
// already replaced invalid UTF-8.
func clean(s string) string {
	if strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(s, "\x00", "")
}
