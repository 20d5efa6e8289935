package sender

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Result is the outcome of one call, and its details. The zero value is none: its Outcome is none
// of Outcomes.
type Result struct {
	Outcome   Outcome
	Code      int           // the platform's error code; 0 where it gave none
	Subcode   int           // the platform's error subcode; 0 where it gave none
	Status    int           // HTTP status; 0 where no answer came
	MessageID string        // the platform's id of the message; may be empty even when Sent
	Latency   time.Duration // from the call's start to the end of its answer; 0 where no call was made
	// RetryAfter is the pause that the platform asks for where it throttles the app or the
	// page; 0: it names none.
	RetryAfter time.Duration
	Usage      int   // of the page's fullest quota for messages, in percent; 0: the answer tells of none
	AppUsage   int   // of the app's quota, in percent; 0: the answer does not tell
	Err        error // why it was not sent; nil exactly when Sent. Holds no token, URL or message text
}

// CodeString names the cause for headers and logs. It is "613/2018338" or "613"
// for an error of the platform, and "http 502" for an answer that is none of the
// platform's. Where no answer came it is "timeout", "canceled" (the caller gave
// up in mid-call) or "network". It is empty when the message was sent or no call
// was made.
func (r Result) CodeString() string {
	var netErr net.Error
	switch {
	case r.Outcome == Sent || r.Outcome == Canceled:
		return ""
	case r.Code != 0 || r.Subcode != 0:
		return codeString(r.Code, r.Subcode)
	case r.Status != 0:
		return "http " + strconv.Itoa(r.Status)
	case r.Outcome != Transient: // found without a call: no token, or an impossible page
		return ""
	case errors.Is(r.Err, context.DeadlineExceeded), errors.As(r.Err, &netErr) && netErr.Timeout():
		return "timeout"
	case errors.Is(r.Err, context.Canceled):
		return "canceled"
	default:
		return "network"
	}
}

func codeString(code, subcode int) string {
	s := strconv.Itoa(code)
	if subcode != 0 {
		s += "/" + strconv.Itoa(subcode)
	}
	return s
}

// apiError is an error that the platform answered. Its sentence is the platform's
// message as far as it may be kept: for a malformed token it quotes the token.
type apiError struct {
	code, subcode, status int
	kind, trace, sentence string
}

func (e *apiError) Error() string {
	text := fmt.Sprintf("send api answered %s (http %d, type %.40q, trace %.64q)",
		codeString(e.code, e.subcode), e.status, e.kind, e.trace)
	if e.sentence != "" {
		text += ": " + e.sentence
	}
	return text
}
