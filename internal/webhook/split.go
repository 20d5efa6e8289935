package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// ErrObject says that a body is about another object than a page of Messenger or an
// account of Instagram.
var ErrObject = errors.New("object is neither page nor instagram")

// ErrBody says that a body is none of Messenger's, although the app's secret signs it: not
// an object of JSON, or one that is about nothing. The secret also signs the signed_request
// of every user of a Facebook Login, which is base64.
var ErrBody = errors.New("body is not of Messenger")

// platformOf returns the platform of a body's object, and whether webhook takes it.
func platformOf(object string) (message.Platform, bool) {
	switch object {
	case "page":
		return message.Messenger, true
	case "instagram":
		return message.Instagram, true
	}
	return "", false
}

const (
	// maxBad bounds how many pieces of one body are kept one by one. A body of
	// 16 MiB could hold eight million. With more bad pieces the body is kept
	// whole.
	maxBad = 16
	// maxUpdates bounds the items of one body, of which Messenger's have 1,000 at
	// most. To decode the millions that 16 MiB could hold would take minutes.
	maxUpdates = 10_000
	// digestBytes of a SHA-256 are enough to tell events apart. A collision
	// becomes likely at 2^64 events of one page.
	digestBytes = 16
)

// Skip says why a part of a body makes no event. It is a metric label.
type Skip string

// Every Skip there is.
const (
	SkipEcho     Skip = "echo"     // our own message, which Messenger reports back; relaying it would loop
	SkipDelivery Skip = "delivery" // receipt
	SkipRead     Skip = "read"     // receipt
	SkipReaction Skip = "reaction" // a heart on a message
	SkipDeleted  Skip = "deleted"  // the user deleted a message
	SkipStandby  Skip = "standby"  // another app owns the conversation
	SkipReferral Skip = "referral" // the user came by a link
	SkipOptIn    Skip = "optin"    // the user agreed to something
	SkipUnknown  Skip = "unknown"  // a kind that we do not know
)

// skips has every Skip.
var skips = []Skip{
	SkipEcho, SkipDelivery, SkipRead, SkipReaction, SkipDeleted, SkipStandby, SkipReferral, SkipOptIn, SkipUnknown,
}

// Parts is the content of a body.
type Parts struct {
	Events   []message.Event  // in the body's order; message.DecodeEvent accepts each
	Skipped  map[Skip]int     // how many of each Skip
	object   string           // that the body is about
	platform message.Platform // of the object
	updates  int              // items that were taken from their entries
	all      bool             // items that core does not know become events, too
	Bad      [][]byte         // bodies, each with a piece that cannot be decoded: an event, an entry or all
}

// Split decodes a body into its parts. A piece that cannot be decoded does not
// stop the rest. It is returned in a body of its own, byte for byte, which a version
// that can decode it may Split. An event without a time that can be right
// gets its entry's, or else now. With all there is an event of KindOther for each item of
// another kind, and each event has its Raw. The only errors are ErrObject and ErrBody.
func Split(raw []byte, now time.Time, all bool) (Parts, error) {
	p := Parts{Skipped: make(map[Skip]int), all: all}
	var body struct {
		Object string          `json:"object"`
		Entry  json.RawMessage `json:"entry"`
	}
	switch begins := bytes.TrimLeft(raw, " \t\r\n"); {
	case len(begins) == 0 || begins[0] != '{':
		return p, ErrBody
	case !decode(raw, &body):
		p.Bad = [][]byte{raw}
		return p, nil
	case body.Object == "":
		return p, ErrBody
	}
	platform, ok := platformOf(body.Object)
	if !ok {
		return p, ErrObject
	}
	p.object, p.platform = body.Object, platform
	entries, ok := elements(body.Entry)
	if !ok || !present(body.Entry) || len(entries) > maxUpdates {
		p.Bad = [][]byte{raw}
		return p, nil
	}
	for _, e := range entries {
		if !p.addEntry(e, now) {
			p.keep(`{"object":%q,"entry":[%s]}`, p.object, e)
		}
	}
	if len(p.Bad) > maxBad || slices.ContainsFunc(p.Bad, func(b []byte) bool { return len(b) > queue.MaxBody }) {
		p.Bad = [][]byte{raw}
	}
	return p, nil
}

// keep keeps a piece that cannot be decoded, in a body of its own.
func (p *Parts) keep(format string, args ...any) {
	if len(p.Bad) <= maxBad {
		p.Bad = append(p.Bad, fmt.Appendf(nil, format, args...))
	}
}

// addEntry adds the events of one page's entry, or returns false and adds
// nothing.
func (p *Parts) addEntry(raw []byte, now time.Time) bool {
	var e struct {
		ID        word            `json:"id"`
		Time      millis          `json:"time"`
		Messaging json.RawMessage `json:"messaging"`
		Standby   json.RawMessage `json:"standby"`
	}
	if !decode(raw, &e) {
		return false
	}
	page := string(e.ID)
	messaging, ok := elements(e.Messaging)
	if !ok || page == "" || len(page) > message.MaxUserID || message.IsReplaced(page) || p.updates+len(messaging) > maxUpdates {
		return false
	}
	p.updates += len(messaging)
	if e.Messaging == nil && e.Standby == nil {
		p.Skipped[SkipUnknown]++ // for example a change of the page's feed
	}
	standby, _ := elements(e.Standby)
	at := e.Time.or(now.UnixMilli(), now)
	if p.all && p.updates+len(standby) <= maxUpdates {
		p.updates += len(standby)
		for _, raw := range standby {
			if !p.addOther(page, at, now, raw, "standby") {
				p.Skipped[SkipStandby]++
			}
		}
	} else if len(standby) > 0 {
		p.Skipped[SkipStandby] += len(standby)
	}
	for _, raw := range messaging {
		if !p.addItem(page, at, now, raw) {
			id, _ := json.Marshal(page) // a string always can
			p.keep(`{"object":%q,"entry":[{"id":%s,"time":%d,"messaging":[%s]}]}`, p.object, id, at, raw)
		}
	}
	return true
}

// elements returns the elements of a JSON array, but no more than one above
// maxUpdates. An absent array and null have none.
func elements(raw json.RawMessage) (all []json.RawMessage, ok bool) {
	if !present(raw) {
		return nil, true
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return nil, false
	}
	for d.More() && len(all) <= maxUpdates {
		var one json.RawMessage
		if d.Decode(&one) != nil {
			return nil, false
		}
		all = append(all, one)
	}
	return all, true
}

// decode decodes raw into v and reports whether it could. The error does not
// matter, because raw is kept.
func decode(raw []byte, v any) bool { return json.Unmarshal(raw, v) == nil }

// present reports whether a field is there and not null.
func present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// digest returns an id for an event without one, computed from its content.
// Messenger repeats an event byte for byte, so a repetition has the same digest.
func digest(page string, raw []byte) string {
	h := sha256.New()
	h.Write([]byte(page))
	h.Write([]byte{0}) // no page's id holds a NUL
	h.Write(raw)
	return hex.EncodeToString(h.Sum(nil)[:digestBytes])
}
