package message

import (
	"cmp"
	"errors"
	"fmt"
)

// Limits are calls per second that the platform takes for one page: of each quota class,
// and to each person. 0: none is known, or none is set.
type Limits struct {
	Text      float64 `json:"text,omitempty"`
	Media     float64 `json:"media,omitempty"`
	Recipient float64 `json:"recipient,omitempty"` // of one class to one person
}

// Of returns the limit of a quota class. A class that is unknown has the limit of text, as
// the platform counts all that is not media.
func (l Limits) Of(class string) float64 {
	if class == string(ClassMedia) {
		return l.Media
	}
	return l.Text
}

// Or returns l with those of others for each limit that it has none of.
func (l Limits) Or(others Limits) Limits {
	return Limits{
		Text: cmp.Or(l.Text, others.Text), Media: cmp.Or(l.Media, others.Media), Recipient: cmp.Or(l.Recipient, others.Recipient),
	}
}

const (
	// maxLimit is far above any limit that the platform has.
	maxLimit = 1_000_000
	// minRecipient is a call in 100 seconds.
	minRecipient = 0.01
)

// Validate returns an error for each limit that none can be, a *FieldError.
func (l Limits) Validate() error {
	var faults []error
	for _, f := range []struct {
		field    string
		n, least float64
	}{{"text", l.Text, 1}, {"media", l.Media, 1}, {"recipient", l.Recipient, minRecipient}} {
		if f.n != 0 && !(f.n >= f.least && f.n <= maxLimit) {
			faults = append(faults, &FieldError{f.field, fmt.Sprintf("must be %v to %d calls per second", f.least, maxLimit)})
		}
	}
	return errors.Join(faults...)
}
