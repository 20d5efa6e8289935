package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"chatclub/internal/message"
)

// ErrObject says that a body is of another object than a page.
var ErrObject = errors.New("object is not a page")

const (
	// maxBad bounds how many pieces of one body are kept one by one. A body of
	// 1 MiB could hold half a million; above the bound the body is kept whole.
	maxBad = 16
	// digestBytes of a SHA-256 are enough to tell events apart: at 2^64 events
	// of one page two alike become likely.
	digestBytes = 16
)

// Skip is why something in a body is not an event for us.
type Skip int

// Every Skip there is.
const (
	SkipEcho       Skip = iota // our own message, told back; relaying it would loop
	SkipDelivery               // receipt
	SkipRead                   // receipt
	SkipReaction               // a heart on a message
	SkipDeleted                // the user took a message back
	SkipStandby                // another app owns the conversation
	SkipReferral               // the user came by a link
	SkipOptIn                  // the user agreed to something
	SkipEmpty                  // a message with nothing in it that can be relayed
	SkipAttachment             // an attachment without address; the rest of its message goes on
	SkipUnknown                // what Messenger may add one day
	skips                      // how many there are
)

// skipLabels are the metric labels.
var skipLabels = [skips]string{
	SkipEcho:       "echo",
	SkipDelivery:   "delivery",
	SkipRead:       "read",
	SkipReaction:   "reaction",
	SkipDeleted:    "deleted",
	SkipStandby:    "standby",
	SkipReferral:   "referral",
	SkipOptIn:      "optin",
	SkipEmpty:      "empty",
	SkipAttachment: "attachment",
	SkipUnknown:    "unknown",
}

// String is the metric label.
func (s Skip) String() string { return skipLabels[s] }

// Parts is what a body holds.
type Parts struct {
	Events  []message.Event // in the body's order; message.DecodeEvent accepts each
	Skipped [skips]int      // how many of each Skip
	Bad     [][]byte        // raw pieces that cannot be decoded: the body, entries or events
}

// Split takes a body apart. What cannot be decoded does not stop the rest: it
// comes back raw. The only error is ErrObject. An event without a time of its
// own gets its entry's, or else now.
func Split(raw []byte, now time.Time) (Parts, error) {
	var p Parts
	var body struct {
		Object string          `json:"object"`
		Entry  json.RawMessage `json:"entry"`
	}
	if !decode(raw, &body) || body.Object == "" {
		p.Bad = [][]byte{raw}
		return p, nil
	}
	if body.Object != "page" {
		return p, ErrObject
	}
	entries, ok := elements(body.Entry)
	if !ok || !present(body.Entry) {
		p.Bad = [][]byte{raw}
		return p, nil
	}
	for _, e := range entries {
		if !p.entry(e, now) {
			p.Bad = append(p.Bad, e)
		}
	}
	if len(p.Bad) > maxBad {
		p.Bad = [][]byte{raw}
	}
	return p, nil
}

// entry adds what one page's entry holds, or returns false and adds nothing.
func (p *Parts) entry(raw []byte, now time.Time) bool {
	var e struct {
		ID        string          `json:"id"`
		Time      int64           `json:"time"`
		Messaging json.RawMessage `json:"messaging"`
		Standby   json.RawMessage `json:"standby"`
	}
	if !decode(raw, &e) {
		return false
	}
	page := clean(e.ID)
	messaging, ok1 := elements(e.Messaging)
	standby, ok2 := elements(e.Standby)
	if !ok1 || !ok2 || page == "" || len(page) > maxUserID {
		return false
	}
	if e.Messaging == nil && e.Standby == nil {
		p.Skipped[SkipUnknown]++ // such as a change of the page's feed
	}
	p.Skipped[SkipStandby] += len(standby)
	if e.Time <= 0 {
		e.Time = now.UnixMilli()
	}
	for _, raw := range messaging {
		if !p.item(page, e.Time, raw) {
			p.Bad = append(p.Bad, raw)
		}
	}
	return true
}

// elements returns those of a JSON array; absent and null have none.
func elements(raw json.RawMessage) ([]json.RawMessage, bool) {
	if !present(raw) {
		return nil, true
	}
	var all []json.RawMessage
	ok := decode(raw, &all)
	return all, ok
}

// decode tells whether raw has the shape of v. What is wrong with it does not
// matter: raw is kept for who wants to know.
func decode(raw []byte, v any) bool { return json.Unmarshal(raw, v) == nil }

// present tells whether a field is there and not null.
func present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// digest identifies by its content what has no id. Messenger repeats an event
// byte for byte, so that a repetition has the same digest.
func digest(page string, raw []byte) string {
	h := sha256.New()
	h.Write([]byte(page))
	h.Write([]byte{0}) // no page holds one
	h.Write(raw)
	return hex.EncodeToString(h.Sum(nil)[:digestBytes])
}
