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
	transient *bool // is_transient; nil: absent
	result    ledger.Result
}

func (a *answer) name() Code {
	if a.subcode == 0 {
		return Code(strconv.Itoa(a.code))
	}
	return Code(strconv.Itoa(a.code) + "/" + strconv.Itoa(a.subcode))
}

const oauth = "OAuthException"

var yes, no = new(true), new(false)

// The answers that the fake itself has reason to give. A body that breaks the
// documented rules counts as Failed, not as Rejected. Its message does not
// arrive because of its sender, so its id is not excused. The others of the
// catalogue are given on request (Settings.Inject, or a recipient named
// error-CODE or error-CODE-SUBCODE).
var (
	errPageLimit      = &answer{613, 0, 400, oauth, "(#613) Calls to this api have exceeded the rate limit.", nil, ledger.Refused}
	errQuota          = &answer{80006, 0, 400, oauth, "(#80006) There have been too many calls to this Messenger account. Wait a bit and try again.", nil, ledger.Refused}
	errAppLimit       = &answer{4, 0, 403, oauth, "(#4) Application request limit reached", yes, ledger.Refused}
	errRecipientLimit = &answer{613, 2018338, 400, oauth, "(#613) Calls to this api have exceeded the rate limit.", nil, ledger.Refused}
	errUnavailable    = &answer{2, 0, 500, oauth, "An unexpected error has occurred. Please retry your request later.", yes, ledger.Failed}
	errSentYet        = &answer{1, 1357046, 500, oauth, "An unknown error occurred", no, ledger.Accepted}
	errToken          = &answer{190, 0, 400, oauth, "Invalid OAuth access token - Cannot parse access token", nil, ledger.Failed}
	errRevoked        = &answer{190, 460, 400, oauth, "Error validating access token: The session has been invalidated", nil, ledger.Failed}
	errNoToken        = &answer{104, 0, 400, oauth, "An access token is required to request this resource.", nil, ledger.Failed}
	errRestricted     = &answer{10, 0, 403, oauth, "(#10) Application does not have permission for this action", nil, ledger.Failed}
	errBlocked        = &answer{368, 0, 400, oauth, "The action attempted has been deemed abusive or is otherwise disallowed", nil, ledger.Failed}
	errGone           = &answer{551, 0, 400, oauth, "(#551) This person isn't available right now.", nil, ledger.Rejected}
	errNoUser         = &answer{100, 2018001, 400, oauth, "(#100) No matching user found", nil, ledger.Rejected}
	errWindow         = &answer{10, 2018278, 403, oauth, "(#10) This message is sent outside of allowed window.", nil, ledger.Rejected}
	errEmpty          = &answer{100, 2018034, 400, oauth, "(#100) Message cannot be empty, must provide valid attachment or text", nil, ledger.Failed}
	errMediaURL       = &answer{100, 2018047, 400, oauth, "(#100) Upload attachment failure.", nil, ledger.Failed}
	errPath           = &answer{2500, 0, 400, oauth, "Unknown path components", nil, ledger.Failed}
	errMethod         = &answer{100, 33, 400, "GraphMethodException", "Unsupported request. Please read the Graph API documentation at https://developers.facebook.com/docs/graph-api", nil, ledger.Failed}
	errProof          = &answer{100, 0, 400, "GraphMethodException", "API calls from the server require an appsecret_proof argument", nil, ledger.Failed}
	errParam          = &answer{100, 0, 400, oauth, "(#100) Invalid parameter", nil, ledger.Failed}
)

// onRequest are the documented answers beyond these, so that every class that a
// client must tell apart can be produced.
var onRequest = []*answer{
	{32, 0, 400, oauth, "(#32) Page request limit reached", nil, ledger.Refused},
	{80001, 0, 400, oauth, "(#80001) There have been too many calls to this Page account. Wait a bit and try again.", nil, ledger.Refused},
	{17, 0, 400, oauth, "(#17) User request limit reached", yes, ledger.Refused},
	{341, 0, 400, oauth, "(#341) Application limit reached", yes, ledger.Refused},
	{613, 1996, 400, oauth, "(#613) Calls to this api have exceeded the rate limit.", nil, ledger.Refused},
	{613, 1893016, 400, oauth, "(#613) Calls to this api have exceeded the rate limit.", nil, ledger.Refused},
	{4, 2018354, 400, oauth, "(#4) Too many send requests to the same recipient", nil, ledger.Refused},
	{9, 2018352, 400, oauth, "(#9) Too many send requests to the same recipient", nil, ledger.Refused},
	{1200, 0, 400, oauth, "Temporary send message failure. Please try again later.", nil, ledger.Failed},
	{1, 0, 500, oauth, "An unknown error occurred", nil, ledger.Failed},
	{-1, 0, 500, "OAuthException", "Unexpected internal error", yes, ledger.Failed},
	{200, 1545041, 403, oauth, "(#200) This person isn't available right now.", nil, ledger.Rejected},
	{10, 2018108, 403, oauth, "(#10) This person isn't receiving messages right now.", nil, ledger.Rejected},
	{10, 2018065, 403, oauth, "(#10) This message is sent outside of allowed window.", nil, ledger.Rejected},
	{10, 2534022, 403, oauth, "(#10) This message is sent outside of allowed window.", nil, ledger.Rejected},
	{2018300, 0, 400, oauth, "The thread owner has prevented this message.", nil, ledger.Rejected},
	{2018321, 0, 400, oauth, "The thread is owned by another app.", nil, ledger.Rejected},
	{100, 2018074, 400, oauth, "(#100) Invalid attachment.", nil, ledger.Rejected},
	{100, 2018294, 400, oauth, "(#100) Video upload time out or the video is corrupted.", nil, ledger.Rejected},
	{102, 0, 400, oauth, "Session key invalid or no longer valid", nil, ledger.Failed},
	{3, 0, 400, oauth, "(#3) Application does not have the capability to make this API call.", nil, ledger.Failed},
	{200, 0, 403, oauth, "(#200) Permissions error", nil, ledger.Failed},
	{2, 2018344, 400, oauth, "(#2) The page is restricted from sending messages.", nil, ledger.Failed},
	{2022, 0, 400, oauth, "(#2022) This page is temporarily blocked from sending messages.", nil, ledger.Failed},
	{10, 1893063, 403, oauth, "(#10) The page is temporarily blocked from sending messages.", nil, ledger.Failed},
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
	var v struct {
		Error struct {
			Message   string `json:"message"`
			Type      string `json:"type"`
			Code      int    `json:"code"`
			Subcode   int    `json:"error_subcode,omitempty"`
			Transient *bool  `json:"is_transient,omitempty"`
			Trace     string `json:"fbtrace_id"`
		} `json:"error"`
	}
	e := &v.Error
	e.Message, e.Type, e.Code, e.Subcode, e.Transient = a.message, a.typ, a.code, a.subcode, a.transient
	e.Trace = string(wire.AppendTrace(nil, trace))
	return wire.Append(b, v)
}
