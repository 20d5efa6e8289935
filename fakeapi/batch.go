package fakeapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// maxBatch is the platform's limit of items in one batch.
const maxBatch = 50

// batchItem is one request in a batch.
type batchItem struct {
	Method      string `json:"method"`
	RelativeURL string `json:"relative_url"`
	Body        string `json:"body"` // a form
}

// batch answers `POST /` with batch=[…]. Every item is judged as a call of its
// own, with its own token or the batch's, and counts against the limits. The
// answer holds the items' answers in their order; one whose connection was
// lost, or that Faults.NullItem hits, is null.
func (a *API) batch(c *call, req *Request, resp *Response) {
	items, outer, why := parseBatch(req)
	if why != nil {
		a.refuse(c, resp, why)
		return
	}
	var delay time.Duration
	var one Response
	resp.Body = append(resp.Body, '[')
	for i, item := range items {
		if i > 0 {
			resp.Body = append(resp.Body, ',')
		}
		one.reset()
		isNull := a.batchCall(item, outer, &one)
		delay = max(delay, one.Delay)
		if isNull {
			resp.Body = append(resp.Body, "null"...)
			continue
		}
		resp.Body = append(resp.Body, `{"code":`...)
		resp.Body = strconv.AppendInt(resp.Body, int64(one.Status), 10)
		resp.Body = append(resp.Body, `,"body":`...)
		resp.Body = appendString(resp.Body, string(one.Body))
		resp.Body = append(resp.Body, '}')
	}
	resp.Body = append(resp.Body, ']')
	resp.Delay = delay // the platform works on the items at the same time
}

// batchCall judges one item into one and tells whether its answer is null.
func (a *API) batchCall(item batchItem, outer string, one *Response) (isNull bool) {
	c := a.newCall()
	path, query, _ := bytes.Cut([]byte(item.RelativeURL), []byte("?"))
	path = withoutVersion(bytes.Trim(path, "/"))
	id, ok := bytes.CutSuffix(path, []byte("/messages"))
	switch {
	case !ok || len(id) == 0 || bytes.IndexByte(id, '/') >= 0:
		a.refuse(c, one, errPath)
		return false
	case item.Method != http.MethodPost:
		a.refuse(c, one, errMethod)
		return false
	}
	body, err := parseBody([]byte("application/x-www-form-urlencoded"), []byte(item.Body))
	t := token(&Request{Query: query}, body)
	if t == "" {
		t = outer
	}
	page, why := a.authorize(id, t)
	if why != nil {
		a.refuse(c, one, why)
		return false
	}
	c.page, c.body, c.bodyErr = page, body, err
	a.send(c, one)
	return one.Cut || c.dice.hit(c.set.Faults.NullItem)
}

// parseBatch reads the items and the token that serves those without one.
func parseBatch(req *Request) (items []batchItem, outer string, why *answer) {
	var list []byte
	body := &sendBody{}
	if bytes.HasPrefix(req.ContentType, []byte("application/json")) {
		var j struct {
			Token string          `json:"access_token"`
			Batch json.RawMessage `json:"batch"`
		}
		if json.Unmarshal(req.Body, &j) != nil {
			return nil, "", errParam.because("the body is not valid JSON")
		}
		body.Token, list = j.Token, j.Batch
	} else {
		form, err := url.ParseQuery(string(req.Body))
		if err != nil {
			return nil, "", errParam.because("the body is not a valid form")
		}
		body.Token, list = form.Get("access_token"), []byte(form.Get("batch"))
	}
	if json.Unmarshal(list, &items) != nil || len(items) == 0 {
		return nil, "", errParam.because("param batch must be a list of requests")
	}
	if len(items) > maxBatch {
		return nil, "", errParam.because("Too many requests in batch message. Maximum batch size is %d", maxBatch)
	}
	return items, token(req, body), nil
}
