package fakeapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"chatclub/fakeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newAPI(t testing.TB, c fakeapi.Config) *fakeapi.API {
	t.Helper()
	a, err := fakeapi.New(c)
	if err != nil {
		t.Fatalf("New = %v, want a platform", err)
	}
	return a
}

// settings are the defaults, changed.
func settings(change func(*fakeapi.Settings)) *fakeapi.Settings {
	s := fakeapi.DefaultSettings()
	change(&s)
	return &s
}

type reply struct {
	status int
	body   string
	usage  string
}

// errorOf is the error in a reply's body.
type apiError struct {
	Message   string `json:"message"`
	Type      string `json:"type"`
	Code      int    `json:"code"`
	Subcode   int    `json:"error_subcode"`
	Transient *bool  `json:"is_transient"`
	Trace     string `json:"fbtrace_id"`
}

func (r reply) error(t testing.TB) apiError {
	t.Helper()
	var e struct {
		Error apiError `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.body), &e); err != nil {
		t.Fatalf("decode %q: %v", r.body, err)
	}
	return e.Error
}

type option func(*http.Request)

func header(name, value string) option {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func form(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }

// do asks the platform in process. Without an option the body is JSON and no
// token is given.
func do(t testing.TB, a *fakeapi.API, method, url, body string, options ...option) (reply, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, "http://graph.test"+url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, o := range options {
		o(r)
	}
	resp, err := a.Transport().RoundTrip(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, string(b), resp.Header.Get("X-Business-Use-Case-Usage")}, err
}

func mustDo(t testing.TB, a *fakeapi.API, method, url, body string, options ...option) reply {
	t.Helper()
	r, err := do(t, a, method, url, body, options...)
	if err != nil {
		t.Fatalf("%s %s = %v, want an answer", method, url, err)
	}
	return r
}

// text is the body of a send of text.
func text(to, id string) string {
	return `{"recipient":{"id":"` + to + `"},"messaging_type":"UPDATE","message":{"text":"hi","metadata":"` + id + `"}}`
}

const bearer1 = "Bearer token-1"

func send(t testing.TB, a *fakeapi.API, to, id string) reply {
	t.Helper()
	return mustDo(t, a, "POST", "/v23.0/1/messages", text(to, id), header("Authorization", bearer1))
}
