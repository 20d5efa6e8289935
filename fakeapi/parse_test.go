package fakeapi

import (
	"encoding/json"
	"net/url"
	"testing"
)

func FuzzParseBody(f *testing.F) {
	for _, s := range []string{
		`{"recipient":{"id":"42"},"messaging_type":"UPDATE","message":{"text":"hi","metadata":"x"}}`,
		`{"recipient":"{\"id\":42}","message":"null"}`, `{"message":{"attachment":{"type":"audio","payload":{"url":"https://x/"}}}}`,
		`recipient=%7B%22id%22%3A42%7D&message=%7B%22text%22%3A%22hi%22%7D&access_token=t`, `null`, `[]`, `"`, `{"recipient":null,"message":1}`, `%zz`,
	} {
		f.Add(true, []byte(s))
		f.Add(false, []byte(s))
	}
	a, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, isForm bool, raw []byte) {
		req := &Request{Method: "POST", Path: []byte("/1/messages"), Authorization: []byte("Bearer token-1"), Body: raw}
		if isForm {
			req.ContentType = []byte("application/x-www-form-urlencoded")
		}
		body, err := parseBody(req.ContentType, raw)
		if body == nil {
			t.Fatalf("parseBody(%q) = nil, %v, want a body", raw, err)
		}
		var resp Response
		a.Do(req, &resp)
		var v struct {
			Recipient *string `json:"recipient_id"`
			Error     *struct{ Code int }
		}
		if jsonErr := json.Unmarshal(resp.Body, &v); jsonErr != nil || (v.Error == nil) == (v.Recipient == nil) {
			t.Fatalf("Do(%q) = %d %s, want ids or an error", raw, resp.Status, resp.Body)
		}
		if err != nil && v.Error == nil {
			t.Fatalf("Do(%q) accepted what parseBody refuses: %v", raw, err)
		}
		req.Path, req.Body = []byte("/"), []byte(url.Values{"batch": {string(raw)}}.Encode())
		a.Do(req, &resp)
		if !json.Valid(resp.Body) {
			t.Fatalf("batch of %q = %s, want JSON", raw, resp.Body)
		}
	})
}
