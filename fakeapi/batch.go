package fakeapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"

	"chatclub/fakeapi/wire"
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
// answer holds the items' answers in their order, with their headers unless
// include_headers is false. An item whose connection was lost, or that
// Faults.NullItem hits, is answered null.
func (c *call) batch(req *Request, resp *Response) {
	list, why := parseBatch(req)
	if why != nil {
		c.refuse(resp, why)
		return
	}
	answers := make([]*itemAnswer, len(list.items))
	var one Response
	for i, item := range list.items {
		one.reset()
		isNull := c.api.newCall().sendItem(item, list, &one)
		resp.Delay = max(resp.Delay, one.Delay) // the platform works on the items at the same time
		if isNull {
			continue
		}
		answers[i] = &itemAnswer{Code: one.Status, Body: string(one.Body)}
		if list.headers {
			answers[i].addHeader("Content-Type", []byte(one.ContentType))
			one.setHints(answers[i].addHeader)
		}
	}
	resp.Body = wire.Append(resp.Body, answers)
}

// itemAnswer is the answer to one item.
type itemAnswer struct {
	Code    int          `json:"code"`
	Headers []itemHeader `json:"headers,omitempty"`
	Body    string       `json:"body"`
}

type itemHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (a *itemAnswer) addHeader(name string, value []byte) {
	a.Headers = append(a.Headers, itemHeader{name, string(value)})
}

// sendItem judges one item of a list and reports whether its answer is null.
func (c *call) sendItem(item batchItem, list batchList, resp *Response) (isNull bool) {
	path, query, _ := bytes.Cut([]byte(item.RelativeURL), []byte("?"))
	page, why := sendPath(item.Method, withoutVersion(path))
	if why != nil {
		c.refuse(resp, why)
		return false
	}
	c.body, c.bodyErr = parseBody([]byte(contentForm), []byte(item.Body))
	own := &Request{Query: query}
	c.sendAs(page, cmp.Or(own.token(c.body), list.token), cmp.Or(own.proof(c.body), list.proof), resp)
	if c.page == nil { // it was not authorized
		return false
	}
	return resp.Cut || c.dice.hit(c.set.Faults.NullItem)
}

// batchList is a batch as it was requested.
type batchList struct {
	items   []batchItem
	token   string // serves those without one of their own, and so does proof
	proof   string
	headers bool // wanted with each answer
}

func parseBatch(req *Request) (batchList, *answer) {
	var items []byte
	body := &sendBody{}
	list := batchList{headers: true}
	if bytes.HasPrefix(req.ContentType, []byte("application/json")) {
		var j struct {
			Token   string          `json:"access_token"`
			Proof   string          `json:"appsecret_proof"`
			Batch   json.RawMessage `json:"batch"`
			Headers *bool           `json:"include_headers"`
		}
		if json.Unmarshal(req.Body, &j) != nil {
			return list, errParam.because("the body is not valid JSON")
		}
		body.Token, body.Proof, items = j.Token, j.Proof, j.Batch
		list.headers = j.Headers == nil || *j.Headers
	} else {
		form, err := url.ParseQuery(string(req.Body))
		if err != nil {
			return list, errParam.because("the body is not a valid form")
		}
		body.Token, body.Proof, items = form.Get("access_token"), form.Get("appsecret_proof"), []byte(form.Get("batch"))
		list.headers = form.Get("include_headers") != "false"
	}
	if json.Unmarshal(items, &list.items) != nil || len(list.items) == 0 {
		return list, errParam.because("param batch must be a list of requests")
	}
	if len(list.items) > maxBatch {
		return list, errParam.because("Too many requests in batch message. Maximum batch size is %d", maxBatch)
	}
	list.token, list.proof = req.token(body), req.proof(body)
	return list, nil
}
