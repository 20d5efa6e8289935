package dispatch

import (
	"chatclub/internal/circuit"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// disposal is the treatment of a call's messages after its end.
type disposal int

const (
	giveBack    disposal = iota // not touched: they go back to their queue when the subscription closes
	acknowledge                 // they are sent: take them off the queue
	keep                        // try again when the page, or the API, takes calls, or dead if it takes none for long; not an attempt
	slowDown                    // try again after a backoff; not an attempt
	tryAgain                    // try again after a backoff; after MaxAttempts dead
	discard                     // to the dead-letter queue
)

// disposition is a row of the table from an outcome to all that follows from it.
type disposition struct {
	do     disposal
	reason message.Reason // for discard, and for tryAgain when the attempts are used up
	tell   bool           // core is told, so that it stops copying to the recipient
	limit  excess.Result  // what the excess map learns
	says   circuit.Answer // what the circuits learn
	sample bool           // its latency is that of the API
	single bool           // one of several joined texts may be at fault: each goes by itself
}

// dispositionOf is the one table from what the API answered to what happens.
func dispositionOf(r sender.Result) disposition {
	d := disposition{limit: excess.Other, says: circuit.Answered, sample: true}
	switch r.Outcome {
	case sender.Sent:
		d.do, d.limit, d.says = acknowledge, excess.Accepted, circuit.Accepted
	case sender.PageThrottled:
		d.do, d.limit, d.says, d.sample = keep, excess.Refused, circuit.Works, false
	case sender.AppThrottled:
		d.do, d.says, d.sample = keep, circuit.Throttled, false
	case sender.RecipientThrottled:
		d.do, d.says, d.sample = slowDown, circuit.Works, false
	case sender.Transient:
		d.do, d.reason, d.says = tryAgain, message.ReasonExhausted, circuit.Failed
		if r.CodeString() == noConnection {
			d.says = circuit.Unreached
		}
	case sender.Ambiguous: // it may have been sent: the limit has counted it, and the API answers
		d.do, d.reason, d.limit = discard, message.ReasonAmbiguous, excess.Accepted
	case sender.RecipientGone:
		d.do, d.reason, d.tell, d.says = discard, message.ReasonGone, true, circuit.Works
	case sender.WindowClosed:
		d.do, d.reason, d.tell, d.says = discard, message.ReasonWindowClosed, true, circuit.Works
	case sender.NotOurs:
		d.do, d.reason, d.tell, d.says = discard, message.ReasonNotOurs, true, circuit.Works
	case sender.BadMessage: // the sender finds some by itself
		d.do, d.reason, d.single, d.says = discard, message.ReasonBadMessage, true, circuit.Bad
		if r.Status == 0 && r.Code == 0 {
			d.says, d.sample = circuit.NoCall, false
		}
	case sender.PageStopped: // until the page is judged by a second one
		d.do, d.reason, d.says = tryAgain, message.ReasonExhausted, circuit.Refused
	case sender.PageStoppedForATime: // the same
		d.do, d.reason, d.says = tryAgain, message.ReasonExhausted, circuit.Blocked
	case sender.NotAllowed: // to one person, or to the whole page: a second person's tells
		d.do, d.reason, d.says = tryAgain, message.ReasonExhausted, circuit.Denied
	case sender.NoToken:
		d.do, d.says, d.sample = keep, circuit.NoCall, false
	case sender.Canceled:
		d.do, d.says, d.sample = giveBack, circuit.NoCall, false
	default: // an outcome that the table does not know loses nothing
		d.do, d.says, d.sample = giveBack, circuit.NoCall, false
	}
	return d
}
