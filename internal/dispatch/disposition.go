package dispatch

import (
	"chatclub/internal/breaker"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// disposal is what happens to the messages of a call.
type disposal int

const (
	leave       disposal = iota // not touched: they go back to their queue when the subscription closes
	acknowledge                 // they are sent: take them off the queue
	keep                        // try again when the page, or the API, takes calls; not an attempt
	slowDown                    // try again after a backoff; not an attempt
	tryAgain                    // try again after a backoff; after MaxAttempts dead
	discard                     // to the dead-letter queue
	suspend                     // all messages of the page wait; after a time they are dead
)

// disposition is a row of the table from an outcome to all that follows from it.
type disposition struct {
	do     disposal
	reason message.Reason  // for discard, and for tryAgain when the attempts are used up
	tell   bool            // core is told, so that it stops copying to the recipient
	limit  excess.Result   // what the excess map learns
	api    breaker.Verdict // what the breaker learns
	works  bool            // the platform got as far as the recipient or the page's limit: the page is not suspended
	sample bool            // its latency is that of the API
	stops  bool            // it says that the page is suspended, or may say so
	single bool            // one of several joined texts may be at fault: each goes by itself
}

// dispositionOf is the one table from what the API answered to what happens.
func dispositionOf(r sender.Result) disposition {
	d := disposition{limit: excess.Other, api: breaker.Answered, sample: true}
	switch r.Outcome {
	case sender.Sent:
		d.do, d.limit, d.works = acknowledge, excess.Accepted, true
	case sender.PageThrottled:
		d.do, d.limit, d.works, d.sample = keep, excess.Refused, true, false
	case sender.AppThrottled:
		d.do, d.api, d.sample = keep, breaker.Throttled, false
	case sender.RecipientThrottled:
		d.do, d.works, d.sample = slowDown, true, false
	case sender.Transient:
		d.do, d.reason, d.api = tryAgain, message.ReasonExhausted, breaker.Failed
		if r.CodeString() == noConnection {
			d.api = breaker.Unreached
		}
	case sender.Ambiguous:
		d.do, d.reason, d.limit = discard, message.ReasonAmbiguous, excess.Accepted
	case sender.RecipientGone:
		d.do, d.reason, d.tell, d.works = discard, message.ReasonGone, true, true
	case sender.WindowClosed:
		d.do, d.reason, d.tell, d.works = discard, message.ReasonWindowClosed, true, true
	case sender.NotOurs:
		d.do, d.reason, d.tell, d.works = discard, message.ReasonNotOurs, true, true
	case sender.BadMessage: // the sender finds some by itself
		d.do, d.reason, d.single = discard, message.ReasonBadMessage, true
		if r.Status == 0 && r.Code == 0 {
			d.api, d.sample = breaker.NoCall, false
		}
	case sender.PageStopped, sender.PageStoppedForATime:
		d.do, d.stops = suspend, true
	case sender.NotAllowed: // of one person, or where a second one gets it of the page
		d.do, d.reason, d.stops = tryAgain, message.ReasonExhausted, true
	case sender.NoToken:
		d.do, d.stops, d.api, d.sample = suspend, true, breaker.NoCall, false
	case sender.Canceled:
		d.do, d.api, d.sample = leave, breaker.NoCall, false
	default: // an outcome that the table does not know loses nothing
		d.do, d.api, d.sample = leave, breaker.NoCall, false
	}
	return d
}
