package message

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"chatclub/internal/plaintext"
)

// FieldError says what is wrong with a field.
type FieldError struct{ Field, Problem string }

// Error implements error.
func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

const (
	// MaxID is the longest id of a message, in bytes: it is a message id of AMQP, too.
	MaxID = 255
	// maxAhead is more than any clock is wrong that is set at all.
	maxAhead = 24 * time.Hour
	// MaxDelay is the furthest time ahead at which a message may be told to be sent.
	// Clocks may differ by maxDelaySlack.
	MaxDelay      = 7 * 24 * time.Hour
	maxDelaySlack = 5 * time.Minute
)

// epoch is the first of 2010, before Messenger had a Send API: an earlier time is none,
// or in another unit than milliseconds.
var epoch = time.Date(2010, time.January, 1, 0, 0, 0, 0, time.UTC)

// attachmentTypes are those that the Send API fetches from an address.
var attachmentTypes = []string{"audio", "file", "image", "video"}

// IsReplaced reports whether a text is no UTF-8, or has the character U+FFFD, which JSON's
// decoder and encoder put in the place of what is none. Two ids that differ there would
// become one.
func IsReplaced(s string) bool { return strings.ContainsRune(s, utf8.RuneError) }

func isBlank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// Check returns an error that names every field of a decoded message with a value that
// cannot be meant, or that the Send API would refuse. A clock that stands before 2010
// is not set: it judges no time.
func (o *Outbound) Check(now time.Time) error {
	var faults []error
	wrong := func(field, format string, args ...any) {
		faults = append(faults, &FieldError{field, fmt.Sprintf(format, args...)})
	}
	for _, f := range []struct{ name, value string }{{"page", o.Page}, {"to", o.To}} {
		if len(f.value) > MaxUserID || strings.ContainsFunc(f.value, isBlank) || IsReplaced(f.value) {
			wrong(f.name, "must have at most %d bytes of UTF-8, and no white space or U+FFFD", MaxUserID)
		}
	}
	if len(o.ID) > MaxID || strings.ContainsFunc(o.ID, isBlank) || IsReplaced(o.ID) {
		wrong("id", "must have at most %d bytes of UTF-8, and no white space or U+FFFD", MaxID)
	}
	if now.After(epoch) {
		switch at := time.UnixMilli(o.Time); {
		case o.Time == 0:
			wrong("time", "is missing: it is when the message was made, in Unix milliseconds")
		case at.Before(epoch):
			wrong("time", "%d is before 2010: it is in Unix milliseconds", o.Time)
		case at.Sub(now) > maxAhead:
			wrong("time", "%d is more than a day ahead: it is in Unix milliseconds", o.Time)
		}
		if at := time.UnixMilli(o.NotBefore); o.NotBefore != 0 && (at.Before(epoch) || at.Sub(now) > MaxDelay+maxDelaySlack) {
			wrong("not_before", "%d is before 2010, or more than seven days ahead: it is in Unix milliseconds", o.NotBefore)
		}
		if o.Deadline != 0 && time.UnixMilli(o.Deadline).Before(epoch) {
			wrong("deadline", "%d is before 2010: it is in Unix milliseconds", o.Deadline)
		}
	}
	if o.Deadline != 0 && o.Deadline < o.NotBefore {
		wrong("deadline", "is before not_before")
	}
	if n := plaintext.Len(o.Text); n > MaxText {
		wrong("text", "has %d characters, at most %d are possible", n, MaxText)
	}
	if o.Attachment != nil && !slices.Contains(attachmentTypes, o.Attachment.Type) {
		wrong("attachment", "is of type %.40q, which is none of %v", o.Attachment.Type, attachmentTypes)
	}
	if len(faults) > 0 {
		return fmt.Errorf("check outbound: %w", errors.Join(faults...))
	}
	return nil
}
