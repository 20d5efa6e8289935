package sender

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// answer is the body of any answer of the Send API.
type answer struct {
	MessageID string `json:"message_id"`
	Error     *struct {
		Message     string `json:"message"`
		Type        string `json:"type"`
		Code        number `json:"code"`
		Subcode     number `json:"error_subcode"`
		IsTransient bool   `json:"is_transient"`
		Trace       string `json:"fbtrace_id"`
	} `json:"error"`
}

// number is a number that may be written as a text. Anything else is 0.
type number int

// UnmarshalJSON implements json.Unmarshaler. It returns nil.
func (n *number) UnmarshalJSON(b []byte) error {
	i, err := strconv.Atoi(strings.Trim(string(b), `"`))
	if err != nil {
		i = 0
	}
	*n = number(i)
	return nil
}

// Classify turns an answer of the Send API into a Result without Latency. It
// goes by error code, subcode and is_transient, and never by the HTTP status.
// The platform does not use that consistently: 613 comes with 400 and 429, 2
// with 400 and 500. The status counts only where the body names no code:
//
//   - 2xx with a body that is empty, cut off or a JSON object without a message
//     id is Sent: the platform accepted the message, and trying again would
//     double it.
//   - 2xx with any other body, such as a page of HTML, does not come from the
//     Send API: a proxy or a wrong address must not swallow messages, so it is
//     Transient.
//   - Everything else is Transient, so that a faulty gateway costs time and not
//     messages.
//
// It never panics and never returns Canceled.
func Classify(status int, body []byte) Result {
	r := Result{Status: status}
	success := status >= 200 && status < 300
	var a answer
	// The error adds nothing. A body that is not whole JSON leaves the answer
	// empty, and a field of the wrong type leaves only itself empty.
	_ = json.Unmarshal(body, &a)
	switch e := a.Error; {
	case success && a.MessageID != "":
		r.Outcome, r.MessageID = Sent, a.MessageID
	case e != nil && (e.Code != 0 || e.Subcode != 0):
		r.Code, r.Subcode = int(e.Code), int(e.Subcode)
		r.Outcome = classifyError(r.Code, r.Subcode, e.IsTransient, e.Type, e.Message)
		r.Err = &apiError{code: r.Code, subcode: r.Subcode, status: status, kind: e.Type, trace: e.Trace, sentence: sentence(e.Message)}
	case success && e == nil && fromSendAPI(body):
		r.Outcome = Sent
	default:
		r.Outcome = Transient
		r.Err = fmt.Errorf("answer of %d bytes with http %d names no error code", len(body), status)
	}
	return r
}

// fromSendAPI reports whether a body without readable content may be the rest of
// an answer of the Send API. Such an answer is always a JSON object.
func fromSendAPI(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) == 0 || body[0] == '{'
}

// classifyError is the table of Meta's error codes, from the most specific row
// to the least: code and subcode together, then the code with the words of the
// message where these alone say what is at fault, then the code. A subcode that
// is not listed means its code, except where only the bare code is known to
// stop a whole page.
//
// is_transient keeps a verdict by code alone from being final: it turns a gone
// recipient, a bad message or a stopped page into Transient. It changes no
// throttle and no listed pair, because those say more than it does. Its being
// false changes nothing: the platform sends false with code 1, which its
// documents tell to retry.
//
// A code in no row is Transient whatever is_transient says. The platform adds
// codes without notice, for throttles too (80001 and 80006 are such). A dead
// letter at once could not be taken back. To stop the page would let one
// recipient's error silence all. Attempts are bounded, so what is permanent
// costs a few calls and then becomes a dead letter that names the code.
func classifyError(code, subcode int, isTransient bool, kind, text string) Outcome {
	if o, ok := byPair(code, subcode); ok {
		return o
	}
	o := byCode(code, subcode)
	switch {
	case code == 100 && subcode == 0 && mentions(text, noRecipient[:]):
		return RecipientGone
	// Errors of this type are about the object that is called, which is the page:
	// a missing appsecret_proof, or a page that "does not exist" for want of a
	// permission. The content of a message is not at fault.
	case o == BadMessage && (kind == "GraphMethodException" || subcode == 0 && mentions(text, noPage[:])):
		o = PageStopped
	case code == 368 && isAboutContent(text):
		o = BadMessage
	}
	if isTransient && (o == RecipientGone || o == BadMessage || o == PageStopped || o == NotAllowed) {
		return Transient
	}
	return o
}

func byPair(code, subcode int) (Outcome, bool) {
	switch [2]int{code, subcode} {
	case [2]int{613, 1996}:
		return AppThrottled, true
	case [2]int{613, 2018338}, [2]int{613, 1893016}, [2]int{4, 2018354}, [2]int{9, 2018352}:
		return RecipientThrottled, true
	case [2]int{1, 1357046}:
		return Ambiguous, true
	case [2]int{100, 2018001}, [2]int{100, 2534014}: // the latter is Instagram's
		return RecipientGone, true
	// The platform could not fetch the attachment, or not in time. The next time it may.
	case [2]int{100, 2018008}, [2]int{100, 2018047}, [2]int{100, 2018294}:
		return Transient, true
	case [2]int{368, 1346003}: // people reported the content, such as a link
		return BadMessage, true
	case [2]int{10, 2018278}, [2]int{10, 2018065}, [2]int{10, 2534022}:
		return WindowClosed, true
	case [2]int{2, 2018344}, [2]int{100, 2534013}, [2]int{200, 2534041}: // the last two: no Instagram account, no access to it
		return PageStopped, true
	case [2]int{10, 1893063}, [2]int{100, 2534029}, [2]int{368, 1390008}:
		return PageStoppedForATime, true
	}
	// The platform sends these subcodes under any of the codes for a missing
	// permission.
	if (subcode == 1545041 || subcode == 2018108) && (code == 10 || code == 200 || code == 551) {
		return RecipientGone, true
	}
	if code == 100 && subcode == 2534037 { // Instagram's of the two below
		return NotOurs, true
	}
	// These two are listed without a code of their own: they are found below
	// several, and as the code itself.
	for _, c := range [2]int{code, subcode} {
		if c == 2018300 || c == 2018321 {
			return NotOurs, true
		}
	}
	return 0, false
}

func byCode(code, subcode int) Outcome {
	switch code {
	case 613, 32, 80006, 80001:
		return PageThrottled
	case 4, 17, 341:
		return AppThrottled
	case 1200, 2, 1, -1:
		return Transient
	case 551:
		return RecipientGone
	case 100:
		return BadMessage
	case 190, 102, 3:
		return PageStopped
	case 10, 200:
		// Nearly all of these concern one recipient and say which fault in the
		// subcode; only the bare code may speak of the page's permission.
		if subcode == 0 {
			return NotAllowed
		}
		return Transient
	case 368, 2022:
		return PageStoppedForATime
	}
	return Transient
}
