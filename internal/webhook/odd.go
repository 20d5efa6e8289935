package webhook

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The types of this file take a field in any type in which it has one meaning. A
// field of another type counts as absent, so that it does not cost the whole event:
// see message.Lenient, too.

// word is a text without NUL, or a whole number as it is written. It may be an id: so NUL
// becomes U+FFFD, with which no id is taken, and is not left out.
type word string

// UnmarshalJSON implements json.Unmarshaler.
func (w *word) UnmarshalJSON(b []byte) error {
	var s string
	switch {
	case strings.Trim(string(b), "0123456789") == "":
		*w = word(b)
	case json.Unmarshal(b, &s) == nil:
		*w = word(strings.ReplaceAll(s, "\x00", "\ufffd"))
	}
	return nil
}

// flag is true or false. Another type is an error, because to take it for false
// could relay our own message.
type flag bool

// UnmarshalJSON implements json.Unmarshaler.
func (f *flag) UnmarshalJSON(b []byte) error {
	switch strings.Trim(string(b), `"`) {
	case "true", "1":
		*f = true
	case "false", "0", "null":
		*f = false
	default:
		return fmt.Errorf("flag %.20s is neither true nor false", b)
	}
	return nil
}

// millis is a time in milliseconds since 1970; 0 for none.
type millis int64

const (
	// earliest is the first of 2010, before Messenger had webhooks.
	earliest = 1262304000000
	// maxAhead is more than any clock is wrong that is set at all.
	maxAhead = 24 * time.Hour
)

// UnmarshalJSON implements json.Unmarshaler. It takes a number, or one in a
// string. The unit follows from its size: below 1e11 are seconds, from 1e14 on
// microseconds, and from 1e17 on nanoseconds. Each of these is between the years
// 1973 and 5138 in its unit.
func (m *millis) UnmarshalJSON(b []byte) error {
	switch f := number(b); {
	case !(f > 0) || f >= 1e20:
	case f < 1e11:
		*m = millis(f * 1e3)
	case f < 1e14:
		*m = millis(f)
	case f < 1e17:
		*m = millis(f / 1e3)
	default:
		*m = millis(f / 1e6)
	}
	return nil
}

// number returns a number, or one in a string; 0 for none.
func number(b []byte) float64 {
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err != nil {
		return 0
	}
	return f
}

// or returns m, or other if m is years off: before 2010, or more than a day ahead. A clock
// that stands before 2010 is not set: nothing is ahead of it.
func (m millis) or(other int64, now time.Time) int64 {
	latest := now.Add(maxAhead).UnixMilli()
	if m < earliest || int64(m) > latest && latest > earliest {
		return other
	}
	return int64(m)
}
