package fakeapi

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"chatclub/fakeapi/ledger"
)

// control serves the judge's own interface, and tells whether the request was
// for it:
//
//	GET  /ledger?page=&pages=&seconds=   the book
//	POST /ledger/expect                  {"page":"1","mid":"m_1","recipients":["2","3"]} or {"page":"1","ids":["…"]}
//	POST /ledger/announce                {"events":[{"page":"1","group":"hot","due":"…","ids":[{"id":"…","to":"2"}]}]}
//	POST /ledger/answered                {"keys":["…"]}
//	GET  /ledger/groups                  the latencies of what was announced in groups
//	POST /ledger/excuse                  {"ids":["…"]}
//	POST /ledger/reset
//	GET  /control                        the settings in force
//	POST /control                        an object laid over them
func (a *API) control(req *Request, resp *Response) bool {
	route := req.Method + " " + string(req.Path)
	switch route {
	case "GET /ledger":
		a.serveLedger(req, resp)
	case "POST /ledger/expect":
		a.serveExpect(req, resp)
	case "POST /ledger/announce":
		a.serveAnnounce(req, resp)
	case "POST /ledger/answered":
		a.serveAnswered(req, resp)
	case "GET /ledger/groups":
		a.serveGroups(resp)
	case "POST /ledger/excuse":
		a.serveExcuse(req, resp)
	case "POST /ledger/reset":
		a.Reset()
		resp.WriteJSON(map[string]bool{"ok": true})
	case "GET /control":
		resp.WriteJSON(a.Settings())
	case "POST /control":
		if err := a.Patch(req.Body); err != nil {
			resp.WriteError(http.StatusBadRequest, err)
			return true
		}
		resp.WriteJSON(a.Settings())
	case "GET /healthz":
		resp.WriteJSON(map[string]bool{"ok": true})
	default:
		return false
	}
	return true
}

func (a *API) serveLedger(req *Request, resp *Response) {
	values, err := url.ParseQuery(string(req.Query))
	if err != nil {
		resp.WriteError(http.StatusBadRequest, errors.New("the query is malformed"))
		return
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
			resp.WriteError(http.StatusBadRequest, errors.New(p.name+" must be a whole number, not negative"))
			return
		}
		*p.to = n
	}
	resp.WriteJSON(struct {
		ledger.Report
		Users   UserCounts      `json:"users"`
		Answers map[Code]uint64 `json:"answers"`
	}{a.book.Report(q), a.UserTotals(), a.Answers()})
}

// Answers tells how often each error was answered; codes that never were are
// left out.
func (a *API) Answers() map[Code]uint64 {
	m := make(map[Code]uint64)
	for code, n := range a.answered {
		if v := n.Load(); v > 0 {
			m[code] = v
		}
	}
	return m
}

func (a *API) serveExpect(req *Request, resp *Response) {
	var in struct {
		Page       string   `json:"page"`
		MID        string   `json:"mid"`
		Recipients []string `json:"recipients"`
		IDs        []string `json:"ids"`
	}
	if err := req.Decode(&in); err != nil {
		resp.WriteError(http.StatusBadRequest, err)
		return
	}
	if in.Page == "" || (in.MID == "") != (len(in.Recipients) == 0) || (in.MID == "") == (len(in.IDs) == 0) {
		resp.WriteError(http.StatusBadRequest, errors.New("page, and either mid and recipients, or ids, must be set"))
		return
	}
	expected := a.expected(in.Page, in.MID, in.Recipients, 1)
	for _, id := range in.IDs {
		expected = append(expected, ledger.Expected{ID: id})
	}
	a.book.Announce(in.Page, expected...)
	resp.WriteJSON(map[string]int{"announced": len(expected)})
}

// expected are the ids that one event must produce: for each recipient as many
// messages as it has parts, a line of text and then each picture. The first has
// the copy's id, the n-th after it that id and /n.
func (a *API) expected(page, mid string, recipients []string, parts int) []ledger.Expected {
	list := make([]ledger.Expected, 0, parts*len(recipients))
	for _, to := range recipients {
		id := a.messageID(page, mid, to)
		list = append(list, ledger.Expected{ID: id, Recipient: to})
		for n := 1; n < parts; n++ {
			list = append(list, ledger.Expected{ID: id + "/" + strconv.Itoa(n), Recipient: to})
		}
	}
	return list
}

func (a *API) serveExcuse(req *Request, resp *Response) {
	var in struct {
		IDs []string `json:"ids"`
	}
	if err := req.Decode(&in); err != nil {
		resp.WriteError(http.StatusBadRequest, err)
		return
	}
	resp.WriteJSON(map[string]int{"excused": a.book.Excuse(in.IDs...)})
}
