package dispatch

import (
	"math/rand/v2"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/breaker"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// deed is what happens to a message after a call.
type deed int

const (
	acknowledge deed = iota // it is sent: take it off the queue
	waitPage                // try again when the gate says; not an attempt
	waitApp                 // try again when the breaker closes; not an attempt
	tryAgain                // try again after a backoff; after MaxAttempts dead
	bury                    // to the dead-letter queue
	stopPage                // to the dead-letter queue, and all further messages of the page too
	leave                   // not touched: it goes back to its queue when the subscription closes
)

// rule is a row of the table from Outcome to settle.
type rule struct {
	do     deed
	reason message.Reason // for bury and stopPage, and for tryAgain when the attempts are used up
	tell   bool           // core is told, so that it stops copying to the recipient, or for the page
	api    breaker.Verdict
}

// settleRule is the one table from what the API answered to what happens to
// the message.
func settleRule(o sender.Outcome) rule {
	switch o {
	case sender.Sent:
		return rule{do: acknowledge}
	case sender.PageThrottled:
		return rule{do: waitPage}
	case sender.AppThrottled:
		return rule{do: waitApp, api: breaker.Throttled}
	case sender.RecipientThrottled:
		return rule{do: tryAgain, reason: message.ReasonExhausted}
	case sender.Transient:
		return rule{do: tryAgain, reason: message.ReasonExhausted, api: breaker.Fails}
	case sender.Ambiguous:
		return rule{do: bury, reason: message.ReasonAmbiguous}
	case sender.RecipientGone:
		return rule{do: bury, reason: message.ReasonGone, tell: true}
	case sender.WindowClosed:
		return rule{do: bury, reason: message.ReasonWindowClosed, tell: true}
	case sender.NotOurs:
		return rule{do: bury, reason: message.ReasonNotOurs, tell: true}
	case sender.BadMessage:
		return rule{do: bury, reason: message.ReasonBadMessage}
	case sender.PageStopped, sender.PageStoppedForATime:
		return rule{do: stopPage, reason: message.ReasonPageStopped, tell: true}
	case sender.Canceled:
		return rule{do: leave}
	}
	// An outcome that the table does not know loses nothing: the message stays.
	return rule{do: leave}
}

// Backoff between attempts: full jitter over a base that doubles from a
// quarter second, the time after which a brief fault of the API is over, to
// half a minute.
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
