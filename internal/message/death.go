package message

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Reason says why a message is on the dead-letter queue.
type Reason string

// Every reason there is. They are metric labels and header values.
const (
	ReasonUndecodable  Reason = "undecodable"   // the body is not one of our messages
	ReasonGone         Reason = "gone"          // the recipient left, blocked the page or never existed
	ReasonWindowClosed Reason = "window_closed" // the recipient was silent for longer than the platform allows
	ReasonNotOurs      Reason = "not_ours"      // another app owns the conversation
	ReasonBadMessage   Reason = "bad_message"   // the platform will never take this content
	ReasonPageStopped  Reason = "page_stopped"  // the page's token or permission is lost
	ReasonExhausted    Reason = "exhausted"     // every allowed attempt failed
	ReasonAmbiguous    Reason = "ambiguous"     // the platform answered an error that comes with delivery: trying again would double it
	ReasonExpired      Reason = "expired"       // it can no longer arrive in time
	ReasonFailing      Reason = "failing"       // an earlier message to the recipient used up its attempts, a short while ago
)

// Reasons lists every Reason, for metrics that must exist from the start.
func Reasons() []Reason {
	return []Reason{
		ReasonUndecodable, ReasonGone, ReasonWindowClosed, ReasonNotOurs, ReasonBadMessage,
		ReasonPageStopped, ReasonExhausted, ReasonAmbiguous, ReasonExpired, ReasonFailing,
	}
}

// Death is what the dead-letter queue keeps beside the body.
type Death struct {
	Reason    Reason
	Queue     string // where the message came from
	Attempts  int    // calls made
	FirstCode string // of the first failed attempt, "code/subcode"; empty when no call was made
	LastCode  string // of the last failed attempt

	// What operators look for; each may be missing.
	Time      time.Time // when it was found dead, in milliseconds
	Page      string
	Recipient string // PSID; empty for an event
}

// Names of the headers on a dead letter.
const (
	HeaderReason    = "chatclub-reason"
	HeaderQueue     = "chatclub-queue"
	HeaderAttempts  = "chatclub-attempts"
	HeaderFirstCode = "chatclub-first-code"
	HeaderLastCode  = "chatclub-last-code"
	HeaderTime      = "chatclub-time" // RFC 3339, UTC
	HeaderPage      = "chatclub-page"
	HeaderRecipient = "chatclub-recipient"
)

// timeLayout is RFC 3339 with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// maxHeaderID is the longest page or recipient that is a header: all headers
// travel in one frame, and one that does not fit would keep the dead letter from
// being published. Messenger's ids have some 20 bytes.
const maxHeaderID = 255

// HeaderDead marks a message on a partition that is dead, and waits for the
// dead-letter queue to take it. Its other headers are those of the dead letter.
const HeaderDead = "chatclub-dead"

// HeaderLane marks a message on a partition that is no copy but a lane's token:
// whoever holds it consumes the lane that it names, by its LaneID. In a lane it is a
// marker: nothing was in the lane before it any more once it is delivered.
const HeaderLane = "chatclub-lane"

// LaneID names a lane of a page, among all that it ever has, by when it is made.
func LaneID(page string, made time.Time) string { return fmt.Sprintf("%s.%d", page, made.UnixNano()) }

// LanePage is the page of a LaneID. Lanes that an earlier version made have their
// page's name alone.
func LanePage(id string) string {
	if i := strings.LastIndexByte(id, '.'); i >= 0 && strings.Trim(id[i+1:], "0123456789") == "" {
		return id[:i]
	}
	return id
}

// HeaderHello marks a message on a partition that is no copy and has no body: whoever
// it is delivered to learns that the partition is its own.
const HeaderHello = "chatclub-hello"

// HeaderTrace tells of the trace that a message belongs to, and of the span that made
// the message, as W3C's Trace Context has it. Only sampled traces have it. It stays with
// a message wherever that goes.
const HeaderTrace = "traceparent"

// CarryTrace adds the trace of a message's headers to those of another one, which may
// be nil, and returns them. A trace that is not of the form that we write is left
// behind: a long one might keep the message from being published.
func CarryTrace(to, from map[string]string) map[string]string {
	text := from[HeaderTrace]
	if len(text) != lenTrace || strings.Trim(text, "0123456789abcdef-") != "" {
		return to
	}
	if to == nil {
		to = make(map[string]string, 1)
	}
	to[HeaderTrace] = text
	return to
}

// lenTrace is how long version 00 of a traceparent is: version, trace, span and flags
// in hexadecimal, with - between them.
const lenTrace = 2 + 1 + 32 + 1 + 16 + 1 + 2

// The headers of an event in an overflow queue: the core that moved it there, and
// whether it had been delivered to another core before.
const (
	HeaderMovedBy     = "chatclub-moved-by"
	HeaderRedelivered = "chatclub-redelivered"
)

// Headers returns d as message headers.
func (d Death) Headers() map[string]string {
	h := map[string]string{
		HeaderReason:    string(d.Reason),
		HeaderQueue:     d.Queue,
		HeaderAttempts:  strconv.Itoa(d.Attempts),
		HeaderFirstCode: d.FirstCode,
		HeaderLastCode:  d.LastCode,
	}
	if !d.Time.IsZero() {
		h[HeaderTime] = d.Time.UTC().Format(timeLayout)
	}
	for name, id := range map[string]string{HeaderPage: d.Page, HeaderRecipient: d.Recipient} {
		if id != "" && len(id) <= maxHeaderID {
			h[name] = id
		}
	}
	return h
}

// DeathFromHeaders is the inverse of Death.Headers. Dead letters of versions
// before have neither time nor page nor recipient.
func DeathFromHeaders(h map[string]string) (Death, error) {
	attempts, err := strconv.Atoi(h[HeaderAttempts])
	if err != nil {
		return Death{}, fmt.Errorf("decode death: header %s: %w", HeaderAttempts, err)
	}
	var at time.Time
	if text := h[HeaderTime]; text != "" {
		if at, err = time.Parse(timeLayout, text); err != nil {
			return Death{}, fmt.Errorf("decode death: header %s: %w", HeaderTime, err)
		}
	}
	return Death{
		Reason:    Reason(h[HeaderReason]),
		Queue:     h[HeaderQueue],
		Attempts:  attempts,
		FirstCode: h[HeaderFirstCode],
		LastCode:  h[HeaderLastCode],
		Time:      at,
		Page:      h[HeaderPage],
		Recipient: h[HeaderRecipient],
	}, nil
}
