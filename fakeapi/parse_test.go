package fakeapi

import (
	"encoding/json"
	"net/url"
	"reflect"
	"testing"
	"time"
)

func TestWebhookBody(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_123)
	h := happening{page: "1", user: "42", at: at, mid: "m_a-b_c", text: "Grüße / 100 % <b> a@b \"\\\n🎉"}
	got := string(webhookBody(at.Add(time.Second), []happening{h}, false))
	want := `{"object":"page","entry":[{"id":"1","time":1700000001123,"messaging":[{"sender":{"id":"42"},"recipient":{"id":"1"},` +
		`"timestamp":1700000000123,"message":{"mid":"m_a-b_c","text":"Gr\u00fc\u00dfe \/ 100 \u0025 \u003Cb> a\u0040b \"\\\n\ud83c\udf89"}}]}]}`
	if got != want {
		t.Errorf("webhookBody = %s\n          want %s", got, want)
	}
	x := Acceptance{MID: "m_1", ID: "1/m/42", Text: "hi"}
	img := Acceptance{MID: "m_2", ID: "1/m/43", Type: "image", URL: "https://x.test/a"}
	list := []happening{
		h,
		{page: "1", user: "42", at: at, mid: "m_2", payload: "GET_STARTED", title: "Get Started"},
		{page: "1", user: "42", at: at, echo: &x},
		{page: "1", user: "42", at: at, echo: &img},
		{page: "1", user: "42", at: at, delivered: []string{"m_1", "m_2"}},
		{page: "1", user: "42", at: at, read: true},
		{page: "1", user: "42", at: at, mid: "m_3", pictures: []string{"https://x.test/a?b=%2F", "https://x.test/b"}},
	}
	got = string(webhookBody(at, list[len(list)-1:], false))
	want = `{"object":"page","entry":[{"id":"1","time":1700000000123,"messaging":[{"sender":{"id":"42"},"recipient":{"id":"1"},` +
		`"timestamp":1700000000123,"message":{"mid":"m_3","attachments":[{"type":"image","payload":{"url":"https:\/\/x.test\/a?b=\u00252F"}},` +
		`{"type":"image","payload":{"url":"https:\/\/x.test\/b"}}]}}]}]}`
	if got != want {
		t.Errorf("webhookBody = %s\n          want %s", got, want)
	}
	for _, split := range []bool{false, true} {
		body := webhookBody(at, list, split)
		var v struct {
			Entry []struct{ Messaging []map[string]any }
		}
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatalf("webhookBody(split %t) = %v, want JSON: %s", split, err, body)
		}
		entries, first := 1, len(list)
		if split {
			entries, first = len(list), 1
		}
		if len(v.Entry) != entries || len(v.Entry[0].Messaging) != first {
			t.Errorf("webhookBody(split %t) = %d entries, %d in the first, want %d and %d", split, len(v.Entry), len(v.Entry[0].Messaging), entries, first)
		}
	}
}

// TestSign compares with a signature computed by openssl.
func TestSign(t *testing.T) {
	t.Parallel()
	const want = "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
	const old = "sha1=de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9"
	got, legacy := sign("key", []byte("The quick brown fox jumps over the lazy dog"))
	if got != want || legacy != old {
		t.Errorf("sign = %s, %s, want %s, %s", got, legacy, want, old)
	}
}

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

// FuzzParseFast: what the fast parser takes reads as encoding/json reads it.
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

func TestHistogram(t *testing.T) {
	t.Parallel()
	var h histogram
	if got := h.quantile(.5); got != 0 {
		t.Errorf("median of nothing = %s, want 0", got)
	}
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{.5: 500 * time.Millisecond, .99: 990 * time.Millisecond} {
		if got := h.quantile(q); got < want || got > want*9/8+time.Millisecond {
			t.Errorf("quantile(%g) = %s, want %s to an eighth more", q, got, want)
		}
	}
	h.add(400 * 24 * time.Hour) // beyond the last bucket
	if got := time.Duration(h.max.Load()); got != 400*24*time.Hour {
		t.Errorf("max = %s, want 400 days", got)
	}
}
