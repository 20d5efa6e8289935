package fakeapi

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
)

// servePhones serves the phones' interface, and tells whether the request was
// for it:
//
//	GET    /phones                  every phone with its conversation
//	POST   /phones                  {"page":"…"}: one more; without a page on the first
//	POST   /phones/ID/start         taps "Get Started"
//	POST   /phones/ID/messages      {"text":"…"} or {"picture":"sun"}
//	POST   /phones/ID/taps          {"message":7,"button":0}: taps what came with message 7
//	POST   /phones/ID/leave         the user blocks the page
//	DELETE /phones/ID
//
// It answers at once; what comes of it is told by GET /events.
func (a *API) servePhones(req *Request, resp *Response) bool {
	path, ok := bytes.CutPrefix(req.Path, []byte("/phones"))
	if !ok || len(path) > 0 && path[0] != '/' {
		return false
	}
	rest := string(path)
	p := a.phones.Load()
	if p == nil {
		resp.failPhone(&errPhone{http.StatusNotFound, "there are no phones: the platform knows no webhook"})
		return true
	}
	id, verb, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	var err error
	switch route := req.Method + " " + verb; {
	case rest == "" && req.Method == http.MethodGet:
		r, _ := p.report(0)
		resp.write(r)
		return true
	case rest == "" && req.Method == http.MethodPost:
		p.serveAdd(req, resp)
		return true
	case route == "POST start":
		err = p.Start(id)
	case route == "POST messages":
		err = p.serveSay(id, req)
	case route == "POST taps":
		err = p.serveTap(id, req)
	case route == "POST leave":
		err = p.Leave(id)
	case route == "DELETE ":
		err = p.Remove(id)
	default:
		err = &errPhone{http.StatusNotFound, "there is no such request about phones"}
	}
	if err != nil {
		resp.failPhone(err)
		return true
	}
	resp.write(map[string]bool{"ok": true})
	return true
}

func (p *Phones) serveAdd(req *Request, resp *Response) {
	in := struct {
		Page string `json:"page"`
	}{p.cfg.Pages[0]}
	if len(req.Body) > 0 {
		if err := decodeStrict(req.Body, &in); err != nil {
			resp.fail(err)
			return
		}
	}
	id, err := p.Add(in.Page)
	if err != nil {
		resp.failPhone(err)
		return
	}
	resp.write(map[string]string{"id": id})
}

func (p *Phones) serveSay(id string, req *Request) error {
	var in struct {
		Text    string `json:"text"`
		Picture string `json:"picture"`
	}
	if err := decodeStrict(req.Body, &in); err != nil {
		return err
	}
	return p.Say(id, in.Text, in.Picture)
}

func (p *Phones) serveTap(id string, req *Request) error {
	in := struct {
		Message int `json:"message"`
		Button  int `json:"button"`
	}{-1, -1}
	if err := decodeStrict(req.Body, &in); err != nil {
		return err
	}
	return p.Tap(id, in.Message, in.Button)
}

func (r *Response) failPhone(err error) {
	r.fail(err)
	if why, ok := errors.AsType[*errPhone](err); ok {
		r.Status = why.status
	}
}
