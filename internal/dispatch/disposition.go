package dispatch

import (
	"math/rand/v2"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/breaker"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// action is what happens to a message after a call.
type action int

const (
	acknowledge action = iota // it is sent: take it off the queue
	waitPage                  // try again when the gate says; not an attempt
	waitApp                   // try again when the breaker closes; not an attempt
	tryAgain                  // try again after a backoff; after MaxAttempts dead
	bury                      // to the dead-letter queue
	suspendPage               // to the dead-letter queue, and the page is suspended
	leave                     // not touched: it goes back to its queue when the subscription closes
)

// disposition is what settle does with a message after a call.
type disposition struct {
	action  action
	reason  message.Reason // for bury and suspendPage, and for tryAgain when the attempts are used up
	tell    bool           // core is told, so that it stops copying to the recipient, or for the page
	verdict breaker.Verdict
}

// dispositionOf returns what happens to a message after a call with this outcome.
// It is the second of two steps: package sender has turned the answer into the
// outcome (classify.go).
func dispositionOf(o sender.Outcome) disposition {
	switch o {
	case sender.Sent:
		return disposition{action: acknowledge}
	case sender.PageThrottled:
		return disposition{action: waitPage}
	case sender.AppThrottled:
		return disposition{action: waitApp, verdict: breaker.Throttled}
	case sender.RecipientThrottled:
		return disposition{action: tryAgain, reason: message.ReasonExhausted}
	case sender.Transient:
		return disposition{action: tryAgain, reason: message.ReasonExhausted, verdict: breaker.Fails}
	case sender.Ambiguous:
		return disposition{action: bury, reason: message.ReasonAmbiguous}
	case sender.RecipientGone:
		return disposition{action: bury, reason: message.ReasonGone, tell: true}
	case sender.WindowClosed:
		return disposition{action: bury, reason: message.ReasonWindowClosed, tell: true}
	case sender.NotOurs:
		return disposition{action: bury, reason: message.ReasonNotOurs, tell: true}
	case sender.BadMessage:
		return disposition{action: bury, reason: message.ReasonBadMessage}
	case sender.PageStopped, sender.PageStoppedForATime:
		return disposition{action: suspendPage, reason: message.ReasonPageStopped, tell: true}
	case sender.Canceled:
		return disposition{action: leave}
	}
	// An outcome without a case loses nothing: the message stays.
	return disposition{action: leave}
}

// Backoff between attempts: full jitter over a base that doubles from a quarter
// second to half a minute. A brief failure of the API is over after the former.
const (
	minBackoff = 250 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// retryDelay returns the wait after the n-th failed attempt, n from 1.
func retryDelay(n int, random func() float64) time.Duration {
	return backoff.Policy{Min: minBackoff, Max: maxBackoff, High: 1, Random: random}.Delay(n)
}

func defaultRandom(r func() float64) func() float64 {
	if r != nil {
		return r
	}
	return rand.Float64
}
