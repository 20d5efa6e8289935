package fakeapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Request is what API.Do judges, whatever HTTP library it came by. Do keeps
// none of its bytes.
type Request struct {
	Method        string
	Path          []byte // with the leading slash, without the query
	Query         []byte
	Authorization []byte
	ContentType   []byte
	Body          []byte
}

// Response is the answer and how it is to be delivered. A Response may be used
// again: Do overwrites it and reuses its buffers.
type Response struct {
	Status      int
	ContentType string
	Body        []byte
	Usage       []byte // x-business-use-case-usage; empty: no such header

	Delay     time.Duration // from the request's arrival to the answer's header
	BodyDelay time.Duration // from the header to the body
	Cut       bool          // after Delay the connection is lost instead
}

// Decode reads the body, one JSON value without unknown fields, into v.
func (r *Request) Decode(v any) error { return decodeStrict(r.Body, v) }

// WriteJSON makes the answer v as JSON, with the status that is set.
func (r *Response) WriteJSON(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		r.WriteError(http.StatusInternalServerError, err)
		return
	}
	r.Body = append(append(r.Body[:0], b...), '\n')
}

// WriteError makes the answer an error: {"error":"…"}.
func (r *Response) WriteError(status int, err error) {
	r.Status = status
	b, _ := json.Marshal(map[string]string{"error": err.Error()}) // a map of strings always has a JSON form
	r.Body = append(append(r.Body[:0], b...), '\n')
}

const contentJSON = "application/json; charset=UTF-8"

func (r *Response) reset() {
	*r = Response{Status: 200, ContentType: contentJSON, Body: r.Body[:0], Usage: r.Usage[:0]}
}

// Do judges one request at the present time and says how to answer it. It
// returns at once: whoever serves it waits for Delay.
func (a *API) Do(req *Request, resp *Response) {
	resp.reset()
	if a.control(req, resp) || a.extended(req, resp) {
		return
	}
	c := a.newCall()
	path := withoutVersion(bytes.Trim(req.Path, "/"))
	if len(path) == 0 && req.Method == http.MethodPost {
		a.batch(c, req, resp)
		return
	}
	id, ok := bytes.CutSuffix(path, []byte("/messages"))
	switch {
	case !ok || len(id) == 0 || bytes.IndexByte(id, '/') >= 0:
		a.refuse(c, resp, errPath)
		return
	case req.Method != http.MethodPost:
		a.refuse(c, resp, errMethod)
		return
	}
	body, err := parseBody(req.ContentType, req.Body)
	page, refused := a.authorize(id, token(req, body))
	if refused != nil {
		a.refuse(c, resp, refused)
		return
	}
	c.page, c.body, c.bodyErr = page, body, err
	a.send(c, resp)
}

// call is one Send API call: a request, or one item of a batch.
type call struct {
	now     time.Time
	number  uint64
	set     *live
	dice    dice
	page    *page
	body    *sendBody
	people  People // whom the call concerns; nil: none
	bodyErr error
}

func (a *API) newCall() *call {
	n := a.seq.Add(1)
	return &call{now: a.now(), number: n, set: a.live.Load(), dice: newDice(a.seed, n)}
}

// withoutVersion strips a leading v23.0/ or the like.
func withoutVersion(path []byte) []byte {
	first, rest, _ := bytes.Cut(path, []byte("/"))
	if len(first) < 2 || first[0] != 'v' {
		return path
	}
	for _, c := range first[1:] {
		if (c < '0' || c > '9') && c != '.' {
			return path
		}
	}
	return rest
}

// token is the access token of a request: from the header, the query, or the
// body, in this order.
func token(req *Request, body *sendBody) string {
	for _, scheme := range []string{"Bearer ", "OAuth "} {
		if len(req.Authorization) > len(scheme) && bytes.EqualFold(req.Authorization[:len(scheme)], []byte(scheme)) {
			return string(bytes.TrimSpace(req.Authorization[len(scheme):]))
		}
	}
	if len(req.Query) > 0 {
		if q, err := url.ParseQuery(string(req.Query)); err == nil && q.Get("access_token") != "" {
			return q.Get("access_token")
		}
	}
	return body.Token
}

// authorize returns the page that a path and a token name together.
func (a *API) authorize(id []byte, token string) (*page, *answer) {
	if token == "" {
		return nil, errNoToken
	}
	owner, ok := a.owner(token)
	if !ok || string(id) != "me" && string(id) != owner {
		return nil, errToken
	}
	return a.page(owner), nil
}

// refuse answers a call of no page, or one that is not a send.
func (a *API) refuse(c *call, resp *Response, why *answer) {
	a.writeError(c, resp, why)
	resp.Delay = c.set.Latency.sample(&c.dice, 0)
}

func (a *API) writeError(c *call, resp *Response, why *answer) {
	name := why.name()
	if n := a.answered[name]; n != nil {
		n.Add(1)
	}
	resp.Status = why.status
	if status, ok := c.set.Status[name]; ok {
		resp.Status = status
	}
	resp.Body = why.appendEnvelope(resp.Body, c.number^a.seed)
}
