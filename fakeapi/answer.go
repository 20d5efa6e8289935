package fakeapi

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/wire"
)

// Code names an error answer: "613", or "613/2018338" with its subcode.
type Code string

// answer is one row of the catalogue of error answers.
type answer struct {
	code      int
	subcode   int
	status    int // HTTP, unless Settings.Status says otherwise
	typ       string
	message   string
	transient int // is_transient: 0 absent, 1 true, −1 false
	result    ledger.Result
}

func (a *answer) name() Code {
	if a.subcode == 0 {
		return Code(strconv.Itoa(a.code))
	}
	return Code(strconv.Itoa(a.code) + "/" + strconv.Itoa(a.subcode))
}

const (
	oauth = "OAuthException"
	yes   = 1
	no    = -1
)

// The answers that the fake itself has reason to give. A body that breaks the
// documented rules counts as Failed, not as Rejected. Its message does not
// arrive because of its sender, so its id is not excused. The others of the
// catalogue are given on request (Settings.Inject, or a recipient named
// error-CODE or error-CODE-SUBCODE).
var (
	errPageLimit      = &answer{613, 0, 400, oauth, "(#613) Calls to this api have exceeded the rate limit.", 0, ledger.Refused}
	errQuota          = &answer{80006, 0, 400, oauth, "(#80006) There have been too many calls to this Messenger account. Wait a bit and try again.", 0, ledger.Refused}
	errAppLimit       = &answer{4, 0, 403, oauth, "(#4) Application request limit reached", yes, ledger.Refused}
	errRecipientLimit = &answer{613, 2018338, 400, oauth, "(#613) Calls to this api have exceeded the rate limit.", 0, ledger.Refused}
	errUnavailable    = &answer{2, 0, 500, oauth, "An unexpected error has occurred. Please retry your request later.", yes, ledger.Failed}
	errSentYet        = &answer{1, 1357046, 500, oauth, "An unknown error occurred", no, ledger.Accepted}
	errToken          = &answer{190, 0, 400, oauth, "Invalid OAuth access token - Cannot parse access token", 0, ledger.Failed}
	errRevoked        = &answer{190, 460, 400, oauth, "Error validating access token: The session has been invalidated", 0, ledger.Failed}
	errNoToken        = &answer{104, 0, 400, oauth, "An access token is required to request this resource.", 0, ledger.Failed}
	errRestricted     = &answer{10, 0, 403, oauth, "(#10) Application does not have permission for this action", 0, ledger.Failed}
	errBlocked        = &answer{368, 0, 400, oauth, "The action attempted has been deemed abusive or is otherwise disallowed", 0, ledger.Failed}
	errGone           = &answer{551, 0, 400, oauth, "(#551) This person isn't available right now.", 0, ledger.Rejected}
	errNoUser         = &answer{100, 2018001, 400, oauth, "(#100) No matching user found", 0, ledger.Rejected}
	errWindow         = &answer{10, 2018278, 403, oauth, "(#10) This message is sent outside of allowed window.", 0, ledger.Rejected}
	errEmpty          = &answer{100, 2018034, 400, oauth, "(#100) Message cannot be empty, must provide valid attachment or text", 0, ledger.Failed}
	errMediaURL       = &answer{100, 2018047, 400, oauth, "(#100) Upload attachment failure.", 0, ledger.Failed}
	errPath           = &answer{2500, 0, 400, oauth, "Unknown path components", 0, ledger.Failed}
	errMethod         = &answer{100, 33, 400, "GraphMethodException", "Unsupported request. Please read the Graph API documentation at https://developers.facebook.com/docs/graph-api", 0, ledger.Failed}
	errProof          = &answer{100, 0, 400, "GraphMethodException", "API calls from the server require an appsecret_proof argument", 0, ledger.Failed}
	errParam          = &answer{100, 0, 400, oauth, "(#100) Invalid parameter", 0, ledger.Failed}
)

// onRequest are the documented answers beyond these, so that every class that a
// client must tell apart can be produced.
var onRequest = []*answer{
	{32, 0, 400, oauth, "(#32) Page request limit reached", 0, ledger.Refused},
	{80001, 0, 400, oauth, "(#80001) There have been too many calls to this Page account. Wait a bit and try again.", 0, ledger.Refused},
	{17, 0, 400, oauth, "(#17) User request limit reached", yes, ledger.Refused},
	{341, 0, 400, oauth, "(#341) Application limit reached", yes, ledger.Refused},
	{613, 1996, 400, oauth, "(#613) Calls to this api have exceeded the rate limit.", 0, ledger.Refused},
	{613, 1893016, 400, oauth, "(#613) Calls to this api have exceeded the rate limit.", 0, ledger.Refused},
	{4, 2018354, 400, oauth, "(#4) Too many send requests to the same recipient", 0, ledger.Refused},
	{9, 2018352, 400, oauth, "(#9) Too many send requests to the same recipient", 0, ledger.Refused},
	{1200, 0, 400, oauth, "Temporary send message failure. Please try again later.", 0, ledger.Failed},
	{1, 0, 500, oauth, "An unknown error occurred", 0, ledger.Failed},
	{-1, 0, 500, "OAuthException", "Unexpected internal error", yes, ledger.Failed},
	{200, 1545041, 403, oauth, "(#200) This person isn't available right now.", 0, ledger.Rejected},
	{10, 2018108, 403, oauth, "(#10) This person isn't receiving messages right now.", 0, ledger.Rejected},
	{10, 2018065, 403, oauth, "(#10) This message is sent outside of allowed window.", 0, ledger.Rejected},
	{10, 2534022, 403, oauth, "(#10) This message is sent outside of allowed window.", 0, ledger.Rejected},
	{2018300, 0, 400, oauth, "The thread owner has prevented this message.", 0, ledger.Rejected},
	{2018321, 0, 400, oauth, "The thread is owned by another app.", 0, ledger.Rejected},
	{100, 2018074, 400, oauth, "(#100) Invalid attachment.", 0, ledger.Rejected},
	{100, 2018294, 400, oauth, "(#100) Video upload time out or the video is corrupted.", 0, ledger.Rejected},
	{102, 0, 400, oauth, "Session key invalid or no longer valid", 0, ledger.Failed},
	{3, 0, 400, oauth, "(#3) Application does not have the capability to make this API call.", 0, ledger.Failed},
	{200, 0, 403, oauth, "(#200) Permissions error", 0, ledger.Failed},
	{2, 2018344, 400, oauth, "(#2) The page is restricted from sending messages.", 0, ledger.Failed},
	{2022, 0, 400, oauth, "(#2022) This page is temporarily blocked from sending messages.", 0, ledger.Failed},
	{10, 1893063, 403, oauth, "(#10) The page is temporarily blocked from sending messages.", 0, ledger.Failed},
}

// catalogue returns every error answer by its name.
func catalogue() map[Code]*answer {
	m := make(map[Code]*answer, 64)
	for _, a := range []*answer{
		errPageLimit, errQuota, errAppLimit, errRecipientLimit, errUnavailable, errSentYet, errToken, errRevoked,
		errNoToken, errRestricted, errBlocked, errGone, errNoUser, errWindow, errEmpty, errMediaURL, errPath, errMethod, errParam,
	} {
		m[a.name()] = a
	}
	for _, a := range onRequest {
		m[a.name()] = a
	}
	return m
}

// answers counts how often each error was answered. newAnswers makes it.
type answers struct {
	catalogue map[Code]*answer
	counts    map[Code]*atomic.Uint64
}

func newAnswers() answers {
	a := answers{catalogue: catalogue(), counts: make(map[Code]*atomic.Uint64)}
	for code := range a.catalogue {
		a.counts[code] = new(atomic.Uint64)
	}
	return a
}

func (a answers) count(c Code) {
	if n := a.counts[c]; n != nil {
		n.Add(1)
	}
}

// given returns the counts above 0.
func (a answers) given() map[Code]uint64 {
	m := make(map[Code]uint64)
	for code, n := range a.counts {
		if v := n.Load(); v > 0 {
			m[code] = v
		}
	}
	return m
}

func (a answers) reset() {
	for _, n := range a.counts {
		n.Store(0)
	}
}

// requested returns the answer that a recipient's name asks for: error-551, or
// error-613-2018338. Real recipients are numbers.
func (a answers) requested(to string) *answer {
	name, ok := strings.CutPrefix(to, "error-")
	if !ok {
		return nil
	}
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name = name[:i] + "/" + name[i+1:]
	}
	return a.catalogue[Code(name)]
}

// because returns the answer with another text.
func (a *answer) because(format string, args ...any) *answer {
	b := *a
	b.message = "(#" + strconv.Itoa(a.code) + ") " + fmt.Sprintf(format, args...)
	return &b
}

// appendEnvelope appends the JSON that the platform answers. It has subcode and
// is_transient only where the platform gives them.
func (a *answer) appendEnvelope(b []byte, trace uint64) []byte {
	b = append(b, `{"error":{"message":`...)
	b = wire.AppendString(b, a.message)
	b = append(b, `,"type":"`...)
	b = append(b, a.typ...)
	b = append(b, `","code":`...)
	b = strconv.AppendInt(b, int64(a.code), 10)
	if a.subcode != 0 {
		b = append(b, `,"error_subcode":`...)
		b = strconv.AppendInt(b, int64(a.subcode), 10)
	}
	switch a.transient {
	case yes:
		b = append(b, `,"is_transient":true`...)
	case no:
		b = append(b, `,"is_transient":false`...)
	}
	b = append(b, `,"fbtrace_id":"`...)
	b = wire.AppendTrace(b, trace)
	return append(b, `"}}`...)
}
