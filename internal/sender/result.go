package sender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Result is what one call came to. The zero value is not a result: its Outcome
// is none of Outcomes.
type Result struct {
	Outcome   Outcome
	Code      int           // the platform's error code; 0 where it gave none
	Subcode   int           // the platform's error subcode; 0 where it gave none
	Status    int           // HTTP status; 0 where no answer came
	MessageID string        // the platform's id of the message; may be empty even when Sent
	Latency   time.Duration // from the call's start to the end of its answer; 0 where no call was made
	Usage     Usage
	Err       error // why it was not sent; nil exactly when Sent. Holds no token, URL or message text
}

// CodeString names the cause for headers and logs: "613/2018338" or "613" for
// an error of the platform, "http 502" for an answer that is none of the
// platform's, "timeout", "canceled" (the caller gave up in mid-call) or
// "network" where no answer came. It is empty when the message was sent or no
// call was made.
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

// apiError is an error that the platform answered. The platform's message is
// left out on purpose: for a malformed token it quotes the token.
type apiError struct {
	code, subcode, status int
	kind, trace           string
}

func (e *apiError) Error() string {
	return fmt.Sprintf("send api answered %s (http %d, type %.40q, trace %.64q)",
		codeString(e.code, e.subcode), e.status, e.kind, e.trace)
}

// Usage is how much of its quota a page has used, as the platform tells with
// every answer. The zero value means that it told nothing.
type Usage struct {
	CallCount int           // per cent of the calls allowed; may exceed 100
	Regain    time.Duration // until calls are accepted again; 0 while they are
}

// usageHeader carries, per business or page id, a list of usages of which
// those of type "messenger" concern the Send API.
const usageHeader = "X-Business-Use-Case-Usage"

// maxRegain bounds what a broken header can claim: the platform's longest
// documented block is a day, and a week is still far from overflowing.
const maxRegain = 7 * 24 * time.Hour

// parseUsage takes the worst of all entries. A header that is absent or
// unreadable says nothing: it must not change what became of the call.
func parseUsage(h http.Header) Usage {
	v := h.Get(usageHeader)
	if v == "" {
		return Usage{}
	}
	var byID map[string][]struct {
		Type      string  `json:"type"`
		CallCount float64 `json:"call_count"`
		Regain    float64 `json:"estimated_time_to_regain_access"` // minutes
	}
	if err := json.Unmarshal([]byte(v), &byID); err != nil {
		return Usage{}
	}
	var u Usage
	for _, entries := range byID {
		for _, e := range entries {
			if e.Type != "messenger" {
				continue
			}
			const most = 1_000_000 // per cent: bounds the conversion, no meaning beyond "far too much"
			u.CallCount = max(u.CallCount, int(min(max(e.CallCount, 0), most)))
			regain := min(max(e.Regain, 0), maxRegain.Minutes())
			u.Regain = max(u.Regain, time.Duration(regain*float64(time.Minute)))
		}
	}
	return u
}
