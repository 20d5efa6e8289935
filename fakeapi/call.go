package fakeapi

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"
)

// Do judges one request at the present time and returns how to answer it. It
// returns at once: the server waits for Delay.
func (a *API) Do(req *Request, resp *Response) {
	resp.reset()
	if a.control.handle(req, resp) || a.extended(req, resp) {
		return
	}
	c := a.newCall()
	path := withoutVersion(req.Path)
	if len(path) == 0 && req.Method == http.MethodPost {
		c.batch(req, resp)
		return
	}
	page, why := sendPath(req.Method, path)
	if why != nil {
		if !a.graphRequest(c, req, path, resp) {
			c.refuse(resp, why)
		}
		return
	}
	c.body, c.bodyErr = parseBody(req.ContentType, req.Body)
	c.sendAs(page, req.token(c.body), req.proof(c.body), resp)
}

// proven reports whether proof is the HMAC-SHA256 of a token with the app's secret.
func (a *API) proven(token, proof string) bool {
	mac := hmac.New(sha256.New, []byte(a.cfg.AppSecret))
	mac.Write([]byte(token))
	got, err := hex.DecodeString(proof)
	return err == nil && a.cfg.AppSecret != "" && hmac.Equal(got, mac.Sum(nil))
}

// call is one Send API call: a request, or one item of a batch.
type call struct {
	api     *API
	now     time.Time
	number  uint64
	set     *live
	dice    dice
	page    *page
	body    *sendBody
	bodyErr error
}

func (a *API) newCall() *call {
	n := a.calls.Add(1)
	return &call{api: a, now: a.Now(), number: n, set: a.settings.load(), dice: newDice(a.cfg.Seed, n)}
}

// sendPath returns the page in the path of a send, and the answer to a request
// that is no send.
func sendPath(method string, path []byte) (page []byte, why *answer) {
	page, ok := bytes.CutSuffix(path, []byte("/messages"))
	switch {
	case !ok || len(page) == 0 || bytes.IndexByte(page, '/') >= 0:
		return nil, errPath
	case method != http.MethodPost:
		return nil, errMethod
	}
	return page, nil
}

// withoutVersion strips the slashes around a path, and v23.0/ or the like.
func withoutVersion(path []byte) []byte {
	path = bytes.Trim(path, "/")
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

// sendAs sends the body as the page that the path and the token name together.
func (c *call) sendAs(page []byte, token, proof string, resp *Response) {
	id, why := c.authorize(page, token, proof)
	if why != nil {
		c.refuse(resp, why)
		return
	}
	c.page = c.api.pages.get(id, c.api.ledger)
	c.send(resp)
}

// authorize returns the page that a call may act for, or why it may for none.
func (c *call) authorize(page []byte, token, proof string) (string, *answer) {
	if c.set.RequireProof && !c.api.proven(token, proof) {
		return "", errProof
	}
	return authorize(page, token)
}

// refuse answers a call of no page, or a call that is no send.
func (c *call) refuse(resp *Response, why *answer) {
	c.writeError(resp, why)
	resp.Delay = c.set.Latency.sample(&c.dice, 0)
}

func (c *call) writeError(resp *Response, why *answer) {
	code := why.name()
	c.api.answers.count(code)
	c.hintApp(resp)
	resp.Status = why.status
	if status, ok := c.set.Status[code]; ok {
		resp.Status = status
	}
	resp.Body = why.appendEnvelope(resp.Body, c.number^c.api.cfg.Seed)
}
