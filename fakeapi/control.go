package fakeapi

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"chatclub/fakeapi/ledger"
)

// control answers requests about the ledger and the settings.
type control struct {
	api *API
	// waiting has the announced events whose poster will report when the system has
	// taken them: *ledger.Event by key.
	waiting sync.Map
}

// confirmed is the answer to a request that returns nothing.
type confirmed struct {
	OK bool `json:"ok"`
}

// handle answers a request and reports whether it was for control:
//
//	GET  /ledger?page=&pages=&seconds=   the ledger's counts
//	POST /ledger/expect                  {"page":"1","mid":"m_1","recipients":["2","3"]} or {"page":"1","ids":["…"]}
//	POST /ledger/announce                {"events":[{"page":"1","group":"hot","due":"…","ids":[{"id":"…","to":"2"}]}]}
//	POST /ledger/answered                {"keys":["…"]}
//	GET  /ledger/groups                  the latencies of the events announced in groups
//	POST /ledger/excuse                  {"ids":["…"]}
//	POST /ledger/reset
//	GET  /control                        the settings in force
//	POST /control                        an object laid over them
//
// Bodies must be of the type application/json.
func (c *control) handle(req *Request, resp *Response) bool {
	if (string(req.Path) == "/control" || bytes.HasPrefix(req.Path, []byte("/ledger/"))) && req.RefuseForm(resp) {
		return true
	}
	var v any
	var err error
	switch req.Method + " " + string(req.Path) {
	case "GET /ledger":
		v, err = c.report(req)
	case "POST /ledger/expect":
		v, err = c.expect(req)
	case "POST /ledger/announce":
		v, err = c.announce(req)
	case "POST /ledger/answered":
		v, err = c.answered(req)
	case "GET /ledger/groups":
		v = map[string]any{"groups": c.api.ledger.Groups()}
	case "POST /ledger/excuse":
		v, err = c.excuse(req)
	case "POST /ledger/reset":
		c.api.Reset()
		v = confirmed{true}
	case "GET /control":
		v = c.api.Settings()
	case "POST /control":
		err = c.api.Patch(req.Body)
		v = c.api.Settings()
	case "GET /healthz":
		v = confirmed{true}
	default:
		return false
	}
	if err != nil {
		resp.WriteError(http.StatusBadRequest, err)
		return true
	}
	resp.WriteJSON(v)
	return true
}

// report returns the ledger's counts and the users'.
func (c *control) report(req *Request) (any, error) {
	values, err := url.ParseQuery(string(req.Query))
	if err != nil {
		return nil, errors.New("the query is malformed")
	}
	q := ledger.Query{Page: values.Get("page"), Pages: 100, Seconds: 60}
	for _, p := range []struct {
		name string
		to   *int
	}{{"pages", &q.Pages}, {"seconds", &q.Seconds}} {
		s := values.Get(p.name)
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return nil, errors.New(p.name + " must be a whole number, not negative")
		}
		*p.to = n
	}
	return struct {
		ledger.Report
		Users   UserCounts      `json:"users"`
		Answers map[Code]uint64 `json:"answers"`
	}{c.api.ledger.Report(q), c.api.UserTotals(), c.api.Answers()}, nil
}

// excuse excuses ids, and returns how many of them were awaited.
func (c *control) excuse(req *Request) (any, error) {
	var in struct {
		IDs []string `json:"ids"`
	}
	if err := req.Decode(&in); err != nil {
		return nil, err
	}
	return map[string]int{"excused": c.api.ledger.Excuse(in.IDs...)}, nil
}
