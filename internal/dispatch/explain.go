package dispatch

import "time"

// Explanation is a reason in the words of operators.
type Explanation struct {
	Short   string // for a column
	Waits   string // follows "12 wait"
	Do      string // what an operator can do
	Runbook string // its heading there; empty: none
	// Alone says that the wait ends without anybody: a message is sent, or a call answered.
	Alone bool
}

// Explain returns what a reason means. Every reason has its words; those of the empty one say
// that nothing keeps the messages.
func (r Reason) Explain() Explanation {
	switch r {
	case WaitsForBroker:
		return Explanation{"RabbitMQ is away", "for RabbitMQ, which does not answer", "see chatclubctl status", "BrokerAway", false}
	case WaitsForResume:
		return Explanation{"paused", "because operators have paused the page", "chatclubctl pages resume PAGE ends that", "", false}
	case WaitsForHandover:
		return Explanation{"taken over", "until older messages of the page, at the owner before or in a lane, are known", "that takes seconds", "MessagesPileUp", true}
	case WaitsForCalls:
		return Explanation{"waits for calls", "for a call of the dispatcher's, which are all taken", "start more dispatchers, or raise MAX_IN_FLIGHT", "DispatchersShort", true}
	case WaitsForPage:
		return Explanation{"calls fail", "because calls for the page fail", "see the page at Meta", "PageSick", false}
	case WaitsForPermission:
		return Explanation{"no permission", "because the page's token is missing or refused", "repair the token, and pause the page meanwhile", "PageSuspended", false}
	case WaitsForBlock:
		return Explanation{"blocked", "because Meta blocks the page", "settle it with Meta", "PageSuspended", false}
	case WaitsForApp:
		return Explanation{"app throttled", "because Meta throttles the app", "stop broadcasts and other programs of the app", "AppThrottled", false}
	case WaitsForAPI:
		return Explanation{"API down", "because the Send API takes no calls", "look whether other dispatchers reach it", "SendAPIDown", false}
	case WaitsForLimit:
		return Explanation{"at its limit", "for the page's limit", "more dispatchers change nothing", "MessagesPileUp", true}
	case WaitsForHint:
		return Explanation{"told to wait", "because the platform asked for it", "chatclubctl pages resume PAGE tries at once", "MessagesPileUp", true}
	case WaitsForPerson:
		return Explanation{"next try", "for the next try to the person, or the person's own limit", "", "", true}
	case WaitsForAnswer:
		return Explanation{"being answered", "for the answer to a call to the same person", "", "", true}
	case WaitsAside:
		return Explanation{"stands aside", "as a broadcast, behind the page's conversations", "", "BroadcastsWait", true}
	case WaitsForTime:
		return Explanation{"not before", "for the time that the message names", "", "", true}
	case "":
		return Explanation{Waits: "and go now", Alone: true}
	}
	return Explanation{Short: string(r), Waits: "for a reason that this version does not know: " + string(r)}
}

// Sentence returns what messages wait for, and until when, as it follows "12 wait". That the
// limit lets the next one go in a moment says nothing about the others.
func (r Reason) Sentence(until time.Time) string {
	x, ends := r.Explain(), "until"
	if until.IsZero() || r == WaitsForLimit {
		return x.Waits
	}
	if !x.Alone && r != WaitsForResume {
		ends = "probed at"
	}
	return x.Waits + " (" + ends + " " + until.UTC().Format(time.RFC3339) + ")"
}
