package message

import (
	"fmt"
	"strconv"
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
}

// Names of the headers on a dead letter.
const (
	HeaderReason    = "chatclub-reason"
	HeaderQueue     = "chatclub-queue"
	HeaderAttempts  = "chatclub-attempts"
	HeaderFirstCode = "chatclub-first-code"
	HeaderLastCode  = "chatclub-last-code"
)

// HeaderDead marks a message on a partition that is dead, and waits for the
// dead-letter queue to take it. Its other headers are those of the dead letter.
const HeaderDead = "chatclub-dead"

// HeaderLane marks a message on a partition that is no copy but a lane's token:
// whoever holds it consumes the lane that it names. In a lane it is a marker:
// nothing was in the lane before it any more once it is delivered.
const HeaderLane = "chatclub-lane"

// The headers of an event in an overflow queue: the core that moved it there, and
// whether it had been delivered to another core before.
const (
	HeaderMovedBy     = "chatclub-moved-by"
	HeaderRedelivered = "chatclub-redelivered"
)

// Headers returns d as message headers.
func (d Death) Headers() map[string]string {
	return map[string]string{
		HeaderReason:    string(d.Reason),
		HeaderQueue:     d.Queue,
		HeaderAttempts:  strconv.Itoa(d.Attempts),
		HeaderFirstCode: d.FirstCode,
		HeaderLastCode:  d.LastCode,
	}
}

// DeathFromHeaders is the inverse of Death.Headers.
func DeathFromHeaders(h map[string]string) (Death, error) {
	attempts, err := strconv.Atoi(h[HeaderAttempts])
	if err != nil {
		return Death{}, fmt.Errorf("decode death: header %s: %w", HeaderAttempts, err)
	}
	return Death{
		Reason:    Reason(h[HeaderReason]),
		Queue:     h[HeaderQueue],
		Attempts:  attempts,
		FirstCode: h[HeaderFirstCode],
		LastCode:  h[HeaderLastCode],
	}, nil
}
