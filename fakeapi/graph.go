package fakeapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// graph answers a bot's requests beside its sends: a person's profile, the page's
// messenger_profile (greeting, "Get Started", menu), and the subscription of its
// webhook. They are answered as documented, at once, and change no send.
type graph struct {
	mu         sync.Mutex
	profiles   map[string]map[string]json.RawMessage // page → messenger_profile
	subscribed map[string][]string                   // page → fields
}

// graphRequest answers a request that is none of a send, and reports whether it was one.
func (a *API) graphRequest(c *call, req *Request, path []byte, resp *Response) bool {
	id, edge, _ := strings.Cut(string(path), "/")
	person := edge == "" && req.Method == http.MethodGet && isDigits(id)
	if !person && edge != "messenger_profile" && edge != "subscribed_apps" {
		return false
	}
	owner := []byte(id)
	if person {
		owner = []byte("me")
	}
	page, why := c.authorize(owner, req.token(new(sendBody)), req.proof(new(sendBody)))
	if why != nil {
		c.refuse(resp, why)
		return true
	}
	c.hintApp(resp)
	g := &a.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case person:
		resp.WriteJSON(map[string]string{
			"first_name": "Person", "last_name": id, "profile_pic": "https://platform-lookaside.fbsbx.com/" + id, "id": id,
		})
	case edge == "subscribed_apps":
		g.subscription(req, page, resp)
	default:
		if why := g.profile(req, page, resp); why != nil {
			c.refuse(resp, why)
		}
	}
	return true
}

// subscription answers GET, POST and DELETE of subscribed_apps.
func (g *graph) subscription(req *Request, page string, resp *Response) {
	if req.Method == http.MethodGet {
		data := []any{}
		if fields, ok := g.subscribed[page]; ok {
			data = append(data, map[string]any{"category": "Messenger bots", "name": "bot", "id": "1", "subscribed_fields": fields})
		}
		resp.WriteJSON(map[string]any{"data": data})
		return
	}
	if req.Method == http.MethodDelete {
		delete(g.subscribed, page)
	} else {
		if g.subscribed == nil {
			g.subscribed = make(map[string][]string)
		}
		g.subscribed[page] = strings.Split(req.param("subscribed_fields"), ",")
	}
	resp.WriteJSON(map[string]bool{"success": true})
}

// profile answers GET, POST and DELETE of messenger_profile.
func (g *graph) profile(req *Request, page string, resp *Response) *answer {
	set := g.profiles[page]
	switch req.Method {
	case http.MethodGet:
		got := make(map[string]json.RawMessage)
		for name := range strings.SplitSeq(req.param("fields"), ",") {
			if value, ok := set[name]; ok {
				got[name] = value
			}
		}
		data := []any{}
		if len(got) > 0 {
			data = append(data, got)
		}
		resp.WriteJSON(map[string]any{"data": data})
		return nil
	case http.MethodDelete:
		var body struct{ Fields []string }
		if json.Unmarshal(req.Body, &body) != nil || len(body.Fields) == 0 {
			return errParam
		}
		maps.DeleteFunc(set, func(name string, _ json.RawMessage) bool { return slices.Contains(body.Fields, name) })
	default:
		var fields map[string]json.RawMessage
		if json.Unmarshal(bytes.TrimSpace(req.Body), &fields) != nil || len(fields) == 0 {
			return errParam
		}
		if set == nil {
			if g.profiles == nil {
				g.profiles = make(map[string]map[string]json.RawMessage)
			}
			set = make(map[string]json.RawMessage)
			g.profiles[page] = set
		}
		delete(fields, "access_token")
		delete(fields, "appsecret_proof")
		maps.Copy(set, fields)
	}
	resp.WriteJSON(map[string]string{"result": "success"})
	return nil
}
