package sender

// Outcome is the result of one call, as far as its caller must act
// differently on it. The zero value is no outcome: a Result that was not filled
// in cannot pass for a message that was sent.
type Outcome uint8

// Every outcome there is.
const (
	// Sent: the platform accepted the message.
	Sent Outcome = iota + 1
	// PageThrottled: the page has used up its quota. Nothing was sent.
	PageThrottled
	// AppThrottled: the app has used up its quota, on every page. Nothing was sent.
	AppThrottled
	// RecipientThrottled: too much for this recipient; others of the page can be
	// sent to. Nothing was sent.
	RecipientThrottled
	// Transient: it may work later. After a time-out, a lost connection or a 5xx
	// answer the message may have been delivered all the same. To try again is
	// at-least-once delivery. The message's id travels in its metadata, so that
	// a repetition can be recognised. The number of attempts must be bounded.
	Transient
	// Ambiguous: the platform delivers the message and answers an error. Trying
	// again would double it.
	Ambiguous
	// RecipientGone: the recipient left, blocked the page or never existed.
	RecipientGone
	// WindowClosed: the recipient was silent for too long. It opens again when
	// the recipient writes.
	WindowClosed
	// NotOurs: another app owns the conversation.
	NotOurs
	// BadMessage: the platform will never take this content.
	BadMessage
	// PageStopped: the page's token or permission is refused; a human must act.
	PageStopped
	// NotAllowed: a permission is missing, either the page's or that of this
	// recipient, who may be no tester of the app or may have blocked the page. The
	// answer does not say which; that of a second recipient does.
	NotAllowed
	// NoToken: the page's token is not known here, or not yet. No call was made.
	NoToken
	// PageStoppedForATime: the platform has blocked the page for some time.
	PageStoppedForATime
	// Canceled: the caller's context ended before anything was written. No call
	// was made.
	Canceled
)

// labels are the outcomes' metric labels.
var labels = [...]string{
	"invalid", Sent: "sent", PageThrottled: "page_throttled", AppThrottled: "app_throttled", RecipientThrottled: "recipient_throttled",
	Transient: "transient", Ambiguous: "ambiguous", RecipientGone: "recipient_gone", WindowClosed: "window_closed", NotOurs: "not_ours",
	BadMessage: "bad_message", PageStopped: "page_stopped", NotAllowed: "not_allowed", NoToken: "no_token",
	PageStoppedForATime: "page_stopped_for_a_time", Canceled: "canceled",
}

// Outcomes lists every Outcome, for metrics that must exist from the start and
// for tests that every one is handled.
func Outcomes() (all []Outcome) {
	for o := Sent; int(o) < len(labels); o++ {
		all = append(all, o)
	}
	return all
}

// String is the outcome's metric label.
func (o Outcome) String() string {
	if int(o) >= len(labels) {
		o = 0
	}
	return labels[o]
}
