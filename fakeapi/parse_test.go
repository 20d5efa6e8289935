package fakeapi

import (
	"encoding/json"
	"net/url"
	"reflect"
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

// FuzzParseFast: a body that the fast parser takes reads as encoding/json reads
// it.
func FuzzParseFast(f *testing.F) {
	for _, s := range []string{
		`{"recipient":{"id":"42"},"messaging_type":"UPDATE","message":{"text":"hi","metadata":"x"}}`,
		` { "recipient" : { "id" : "\u00e4\/" } , "message" : { "text" : "ä" } } `,
		`{"recipient":{"id":"1"},"recipient":{"id":"2"}}`, `{"tag":"a","tag":"b"}`, `{"tag":"a",}`, `{"tag":"a"}x`, `{"tag":"\"}`,
		"{\"tag\":\"\xff\"}", "{\"tag\":\"\x01\"}", `{"message":{}}`, `{"\u0074ag":"a"}`, `{"Tag":"a"}`, `{"tag":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var fast, slow sendBody
		if !parseFast(raw, &fast) {
			return
		}
		if err := json.Unmarshal(raw, &slow); err != nil {
			t.Fatalf("parseFast(%q) takes what encoding/json refuses: %v", raw, err)
		}
		if !reflect.DeepEqual(fast, slow) {
			t.Fatalf("parseFast(%q) = %+v, want %+v", raw, fast, slow)
		}
	})
}

// TestParseFastIsUsed: the bodies that senders send take the fast way.
func TestParseFastIsUsed(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"recipient":{"id":"42"},"messaging_type":"UPDATE","message":{"text":"Gr\u00fc\u00dfe ü","metadata":"1/m/42"}}`: true,
		`{"recipient":{"id":"42"},"sender_action":"typing_on"}`:                                                          true,
		`{"recipient":{"id":42},"message":{"text":"hi"}}`:                                                                false,
		`{"message":{"attachment":{"type":"image"}}}`:                                                                    false,
	} {
		if got := parseFast([]byte(body), new(sendBody)); got != want {
			t.Errorf("parseFast(%s) = %t, want %t", body, got, want)
		}
	}
}
