package message

import (
	"fmt"
	"slices"
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

// WorthReplay lists the reasons of messages that can be sent once their cause is repaired. Those
// of others would die again, or arrive twice.
func WorthReplay() []Reason {
	return []Reason{ReasonExpired, ReasonPageStopped, ReasonExhausted, ReasonUndecodable}
}

// NoReason is the word for the reason of letters that the broker itself put on the queue.
const NoReason = "none"

// ReadReasons reads a list of reasons with commas between them; "" is no list. NoReason is the
// empty reason.
func ReadReasons(list string) (reasons []Reason, err error) {
	if list == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(list, ",") {
		reason := Reason(strings.TrimSpace(word))
		switch {
		case reason == NoReason:
			reason = ""
		case !slices.Contains(Reasons(), reason):
			return nil, &FieldError{Field: "reason", Problem: fmt.Sprintf("%.40q is none of %v %s", reason, Reasons(), NoReason)}
		}
		reasons = append(reasons, reason)
	}
	return reasons, nil
}

// Death is the record that the dead-letter queue keeps beside the body.
type Death struct {
	Reason    Reason    `json:"reason"`
	Time      time.Time `json:"time,omitzero"`        // when it was found dead, in milliseconds; may be missing, as page and recipient
	Page      string    `json:"page,omitempty"`       //
	Recipient string    `json:"recipient,omitempty"`  // PSID; empty for an event
	Queue     string    `json:"queue,omitempty"`      // where the message came from
	Attempts  int       `json:"attempts"`             // calls made
	FirstCode string    `json:"first_code,omitempty"` // of the first failed attempt, "code/subcode"; empty when no call was made
	LastCode  string    `json:"last_code,omitempty"`  // of the last failed attempt
	Error     string    `json:"error,omitempty"`      // why, in a sentence without a token or a text of people's; Headers shortens it
}

// Names of the headers on a dead letter.
const (
	HeaderReason    = "chatclub-reason"
	HeaderQueue     = "chatclub-queue"
	HeaderAttempts  = "chatclub-attempts"
	HeaderFirstCode = "chatclub-first-code"
	HeaderLastCode  = "chatclub-last-code"
	HeaderError     = "chatclub-error"
	HeaderTime      = "chatclub-time" // RFC 3339, UTC
	HeaderPage      = "chatclub-page"
	HeaderRecipient = "chatclub-recipient"
)

// timeLayout is RFC 3339 with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// maxHeaderID is the longest page or recipient that is a header: all headers
// travel in one frame, and a longer one would keep the dead letter from being
// published. Messenger's ids have some 20 bytes.
const maxHeaderID = 255

// maxHeaderError bounds the sentence in HeaderError, in bytes. Messenger's have less
// than 200.
const maxHeaderError = 400

// HeaderDead marks a message on a partition that is dead, and waits for the
// dead-letter queue to take it. Its other headers are those of the dead letter.
const HeaderDead = "chatclub-dead"

// HeaderMarker marks a message in a lane or partition that is no copy: its owner's own. Its value
// is empty.
const HeaderMarker = "chatclub-marker"

// HeaderOwner marks a message in a partition that asks who its owner is; its value is the
// queue for the answer, whose value is the partition. The question is a marker, too: owners
// of versions before take it off, and do not answer.
const HeaderOwner = "chatclub-owner"

// IsMarker reports whether a message with these headers is an owner's own.
func IsMarker(headers map[string]string) bool {
	_, is := headers[HeaderMarker]
	return is
}

// HeaderRetry marks a message that failed and went to a retry queue: once it comes back
// it goes before those that waited for it.
const HeaderRetry = "chatclub-retry"

// HeaderRouted marks a message that came on another partition than its page's, and was
// sent on to that one. It is not sent on again: programs with different numbers of
// partitions would do so for ever.
const HeaderRouted = "chatclub-routed"

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

// lenTrace is the length of a traceparent of version 00: version, trace, span and flags
// in hexadecimal, with - between them.
const lenTrace = 2 + 1 + 32 + 1 + 16 + 1 + 2

// Headers returns d as message headers.
func (d Death) Headers() map[string]string {
	h := map[string]string{
		HeaderReason:    string(d.Reason),
		HeaderQueue:     d.Queue,
		HeaderAttempts:  strconv.Itoa(d.Attempts),
		HeaderFirstCode: d.FirstCode,
		HeaderLastCode:  d.LastCode,
	}
	if d.Error != "" {
		h[HeaderError] = shorten(d.Error)
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

// shorten returns a sentence as one line of at most maxHeaderError bytes.
func shorten(sentence string) string {
	line := strings.ReplaceAll(strings.ToValidUTF8(sentence, "\ufffd"), "\n", "; ")
	if len(line) <= maxHeaderError {
		return line
	}
	return strings.ToValidUTF8(line[:maxHeaderError], "") + "…"
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
		Error:     h[HeaderError],
		Time:      at,
		Page:      h[HeaderPage],
		Recipient: h[HeaderRecipient],
	}, nil
}
