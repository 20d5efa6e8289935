// Package orders has the operators' orders about pages: pauses, and limits of their own.
// An order is a message on a stream of the broker. Every dispatcher and core reads all of
// them when it starts, and then those that come. So an order is in force everywhere a
// moment later, and stays in force after any restart.
//
// The last order of a kind about a page counts. The places in the stream decide which is
// the last, and no clock.
package orders

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// Kind says what an order changes.
type Kind string

// The kinds.
const (
	Pause  Kind = "pause"  // nothing is sent for the page; Until, Reason
	Resume Kind = "resume" // it is again
	Limit  Kind = "limit"  // the page has the Limits, in place of those that it has without an order
)

// Order is one order.
type Order struct {
	Kind   Kind           `json:"kind"`
	Page   string         `json:"page"`
	Time   int64          `json:"time"`             // when it was given, Unix milliseconds
	Until  int64          `json:"until,omitempty"`  // of Pause, Unix milliseconds; 0: until Resume
	Reason string         `json:"reason,omitempty"` // of Pause, for people
	Limits message.Limits `json:"limits,omitzero"`  // of Limit; those that are 0 are not ordered
}

// The bounds of an order's fields.
const (
	maxPage   = 255
	maxReason = 500
)

// Validate returns an error that names every wrong field, each a *message.FieldError.
func (o Order) Validate() error {
	var faults []error
	wrong := func(field, format string, args ...any) {
		faults = append(faults, &message.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	if o.Kind != Pause && o.Kind != Resume && o.Kind != Limit {
		wrong("kind", "%.40q is unknown", string(o.Kind))
	}
	if o.Page == "" || !isPrintable(o.Page, maxPage) || message.IsReplaced(o.Page) {
		wrong("page", "must have 1 to %d bytes that can be printed", maxPage)
	}
	if !isPrintable(o.Reason, maxReason) {
		wrong("reason", "must have at most %d bytes that can be printed", maxReason)
	}
	if o.Kind == Pause && o.Until != 0 && o.Until <= o.Time {
		wrong("until", "must be later than now")
	}
	faults = append(faults, o.Limits.Validate())
	return errors.Join(faults...)
}

func isPrintable(s string, most int) bool {
	if len(s) > most || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// Length returns the length of a pause; 0: until it is resumed.
func (o Order) Length() time.Duration {
	if o.Until == 0 {
		return 0
	}
	return time.Duration(o.Until-o.Time) * time.Millisecond
}

// Message returns the order as a message on the stream, or why it is none.
func (o Order) Message(top queue.Topology) (queue.Message, error) {
	if err := o.Validate(); err != nil {
		return queue.Message{}, err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return queue.Message{}, fmt.Errorf("encode order: %w", err)
	}
	return queue.Message{Queue: top.Orders(), ID: fmt.Sprintf("order/%s/%d", o.Kind, o.Time), Body: body}, nil
}

// decode returns the order of a message.
func decode(body []byte) (o Order, err error) {
	if err := json.Unmarshal(body, &o); err != nil {
		return o, fmt.Errorf("decode order: %w", message.ExplainJSON(err))
	}
	return o, o.Validate()
}

// span is a time in which a page was paused.
type span struct{ from, until time.Time }

// Page holds the orders about a page. It does not change once it is in a Book.
type Page struct {
	Since  time.Time // of its pause; zero: it has none
	Until  time.Time // of its pause; zero: until it is resumed
	Reason string    // of its pause
	Limits message.Limits

	past []span // pauses that were ended
}

// maxPast is the number of ended pauses of a page that are remembered.
const maxPast = 16

// Paused reports whether nothing is sent for the page, and for how long at least: a
// pause without an end may be ended at any moment.
func (p *Page) Paused(now time.Time) (left time.Duration, paused bool) {
	if p == nil || p.Since.IsZero() {
		return 0, false
	}
	if p.Until.IsZero() {
		return 1 << 62, true
	}
	left = p.Until.Sub(now)
	return left, left > 0
}

// Held returns the paused part of a time: a message grows no older meanwhile.
func (p *Page) Held(from, until time.Time) (sum time.Duration) {
	if p == nil {
		return 0
	}
	for _, s := range p.past {
		sum += s.within(from, until)
	}
	if !p.Since.IsZero() {
		s := span{p.Since, p.Until}
		if p.Until.IsZero() {
			s.until = until
		}
		sum += s.within(from, until)
	}
	return sum
}

// within returns the part of a span that lies in a time.
func (s span) within(from, until time.Time) time.Duration {
	if s.from.After(from) {
		from = s.from
	}
	if s.until.Before(until) {
		until = s.until
	}
	return max(0, until.Sub(from))
}

// with returns the page after one order more.
func (p *Page) with(o Order) *Page {
	next := Page{}
	if p != nil {
		next = *p
	}
	at := time.UnixMilli(o.Time)
	switch o.Kind {
	case Pause:
		next.end(at)
		next.Since, next.Reason = at, o.Reason
		if o.Until != 0 {
			next.Until = time.UnixMilli(o.Until)
		}
	case Resume:
		next.end(at)
	case Limit:
		next.Limits = o.Limits
	}
	return &next
}

// end ends the page's pause, if it has one.
func (p *Page) end(at time.Time) {
	if p.Since.IsZero() {
		return
	}
	if !p.Until.IsZero() && p.Until.Before(at) {
		at = p.Until
	}
	p.past = append(slices.Clip(p.past), span{p.Since, at}) // a copy: others read the old one
	p.past = p.past[max(0, len(p.past)-maxPast):]
	p.Since, p.Until, p.Reason = time.Time{}, time.Time{}, ""
}
