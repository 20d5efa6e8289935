package web

import (
	"bytes"
	"errors"
	"net/http"
	"strings"

	"chatclub/fakeapi"
)

// handle answers the phones' requests, and reports whether the request was one
// of them:
//
//	GET    /phones                  every phone with its conversation
//	POST   /phones                  {"page":"…"}: one more; without a page on the first
//	POST   /phones/ID/start         taps "Get Started"
//	POST   /phones/ID/messages      {"text":"…"} or {"picture":"sun"}
//	POST   /phones/ID/taps          {"message":7,"button":0}: taps a button of message 7
//	POST   /phones/ID/leave         the user blocks the page
//	DELETE /phones/ID
//
// Bodies must be of the type application/json. It answers at once. The effects come by GET /events.
func (s *Site) handle(req *fakeapi.Request, resp *fakeapi.Response) bool {
	path, ok := bytes.CutPrefix(req.Path, []byte("/phones"))
	if !ok || len(path) > 0 && path[0] != '/' {
		return false
	}
	if req.RefuseForm(resp) {
		return true
	}
	answer, err := s.answer(string(path), req)
	if err != nil {
		status := http.StatusBadRequest
		if r, ok := errors.AsType[*refusal](err); ok {
			status = r.status
		}
		resp.WriteError(status, err)
		return true
	}
	resp.WriteJSON(answer)
	return true
}

// answer serves a request about the phones. path is the part behind /phones.
func (s *Site) answer(path string, req *fakeapi.Request) (any, error) {
	p := s.phones
	if p == nil {
		return nil, &refusal{http.StatusNotFound, "there are no phones: the platform knows no webhook"}
	}
	id, verb, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	ok := map[string]bool{"ok": true}
	switch route := req.Method + " " + verb; {
	case path == "" && req.Method == http.MethodGet:
		r, _ := p.report(0)
		return r, nil
	case path == "" && req.Method == http.MethodPost:
		id, err := s.add(req)
		return map[string]string{"id": id}, err
	case route == "POST start":
		return ok, p.start(id)
	case route == "POST messages":
		return ok, s.write(id, req)
	case route == "POST taps":
		return ok, s.tap(id, req)
	case route == "POST leave":
		return ok, p.leave(id)
	case route == "DELETE ":
		return ok, p.remove(id)
	}
	return nil, &refusal{http.StatusNotFound, "there is no such request about phones"}
}

func (s *Site) add(req *fakeapi.Request) (id string, err error) {
	in := struct {
		Page string `json:"page"`
	}{s.phones.cfg.Pages[0]}
	if len(req.Body) > 0 {
		if err := req.Decode(&in); err != nil {
			return "", err
		}
	}
	return s.phones.add(in.Page)
}

func (s *Site) write(id string, req *fakeapi.Request) error {
	var in struct {
		Text    string `json:"text"`
		Picture string `json:"picture"`
	}
	if err := req.Decode(&in); err != nil {
		return err
	}
	return s.phones.write(id, in.Text, in.Picture)
}

func (s *Site) tap(id string, req *fakeapi.Request) error {
	in := struct {
		Message int `json:"message"`
		Button  int `json:"button"`
	}{-1, -1}
	if err := req.Decode(&in); err != nil {
		return err
	}
	return s.phones.tap(id, in.Message, in.Button)
}
