package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// signedRequest returns a form as Meta posts it, signed with secret.
func signedRequest(secret, payload string) string {
	encoded := base64.RawURLEncoding.EncodeToString([]byte(payload))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(encoded))
	return url.Values{"signed_request": {base64.RawURLEncoding.EncodeToString(mac.Sum(nil)) + "." + encoded}}.Encode()
}

const deletionPayload = `{"algorithm":"HMAC-SHA256","expires":1291840400,"issued_at":1291836800,"user_id":"218471"}`

func (f fixture) deletions(method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	w := httptest.NewRecorder()
	f.Deletions().ServeHTTP(w, r)
	return w
}

// TestDeletion checks the answer that Meta documents, and the event. A request that is
// repeated has the same code.
func TestDeletion(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *Config) {
		c.DeletionURL = "https://chat.example/deletion"
		c.Now = func() time.Time { return time.UnixMilli(7) }
	})
	var answers []string
	for _, payload := range []string{deletionPayload, deletionPayload, strings.Replace(deletionPayload, "218471", "9", 1)} {
		w := f.deletions(http.MethodPost, "/deletion", signedRequest(testSecret, payload))
		if got := w.Header().Get("Content-Type"); w.Code != 200 || got != "application/json" {
			t.Fatalf("POST = %d %s %s, want 200 and JSON", w.Code, got, w.Body)
		}
		var a struct {
			URL  string `json:"url"`
			Code string `json:"confirmation_code"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.URL != "https://chat.example/deletion?code="+a.Code {
			t.Errorf("answer = %s, %v, want the address of the code's status", w.Body, err)
		}
		status := f.deletions(http.MethodGet, "/deletion?code="+a.Code, "")
		if status.Code != 200 || !strings.HasPrefix(status.Body.String(), "Deletion request "+a.Code+"\n") {
			t.Errorf("GET of the status = %d %s, want 200 with the code", status.Code, status.Body)
		}
		if text := status.Body.String(); !strings.Contains(text, "Write to that page") || strings.Contains(text, "carried out") {
			t.Errorf("status = %s, want what the user has to do: nothing is deleted by itself", text)
		}
		answers = append(answers, a.Code)
	}
	if answers[0] != answers[1] || answers[0] == answers[2] {
		t.Errorf("codes = %v, want the same for the same user only", answers)
	}
	got := events(t, f.published.inbound())
	want := message.Event{Kind: message.KindDeletion, ID: answers[0], User: "218471", Time: 7}
	if len(got) != 3 || got[0].ID != want.ID || got[0].Kind != want.Kind || got[0].User != want.User || got[0].Time != want.Time {
		t.Errorf("events = %+v, want three, the first %+v", got, want)
	}
}

// TestDeletionRefused checks the answers to all others, without an event.
func TestDeletionRefused(t *testing.T) {
	t.Parallel()
	good := signedRequest(testSecret, deletionPayload)
	for _, tt := range []struct {
		name, method, target, body string
		code                       int
	}{
		{"no form", "POST", "/deletion", "{}", 403},
		{"bad form", "POST", "/deletion", "signed_request=%zz", 403},
		{"empty", "POST", "/deletion", "", 403},
		{"another secret", "POST", "/deletion", signedRequest("x", deletionPayload), 403},
		{"no signature", "POST", "/deletion", "signed_request=." + strings.SplitN(good, ".", 2)[1], 403},
		{"other payload", "POST", "/deletion", good[:len(good)-4] + "AAAA", 403},
		{"other algorithm", "POST", "/deletion", signedRequest(testSecret, strings.Replace(deletionPayload, "SHA256", "MD5", 1)), 403},
		{"not JSON", "POST", "/deletion", signedRequest(testSecret, "x"), 403},
		{"no user", "POST", "/deletion", signedRequest(testSecret, `{"algorithm":"HMAC-SHA256"}`), 400},
		{"long user", "POST", "/deletion", signedRequest(testSecret, strings.Replace(deletionPayload, "218471", strings.Repeat("1", 33), 1)), 400},
		{"large", "POST", "/deletion", good + strings.Repeat("&a=b", 16<<10), 413},
		{"no code", "GET", "/deletion", "", 400},
		{"wrong code", "GET", "/deletion?code=%3Cscript%3E", "", 400},
		{"method", "PUT", "/deletion", good, 405},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil)
			if w := f.deletions(tt.method, tt.target, tt.body); w.Code != tt.code {
				t.Errorf("%s = %d %s, want %d", tt.method, w.Code, w.Body, tt.code)
			}
			if got := f.published.inbound(); len(got) != 0 {
				t.Errorf("events = %v, want none", got)
			}
		})
	}
}

// TestDeletionUnconfirmed checks that Meta is told to ask again.
func TestDeletionUnconfirmed(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.published.setErr(queue.ErrUnavailable)
	if w := f.deletions(http.MethodPost, "/deletion", signedRequest(testSecret, deletionPayload)); w.Code != 503 {
		t.Errorf("POST without a broker = %d %s, want 503", w.Code, w.Body)
	}
}

func FuzzDeletion(f *testing.F) {
	f.Add(signedRequest(testSecret, deletionPayload), deletionPayload)
	f.Add("signed_request=a.b", `{"algorithm":"hmac-sha256","user_id":7}`)
	f.Fuzz(func(t *testing.T, body, payload string) {
		if d, ok := parseDeletion([]byte(body), []byte("unknown to the fuzzer")); ok {
			t.Errorf("parseDeletion(%q) = %+v, want it refused", body, d)
		}
		if d, ok := parseDeletion([]byte(signedRequest(testSecret, payload)), []byte(testSecret)); ok && !code.MatchString(d.code([]byte(testSecret))) {
			t.Errorf("code of %q = %q, want 32 digits", payload, d.code([]byte(testSecret)))
		}
	})
}
