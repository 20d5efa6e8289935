package sender

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
)

const (
	page    = "1234567890"
	token   = "SECRET-token"
	receipt = `{"recipient_id":"42","message_id":"m_1"}`
)

func outbound() message.Outbound {
	return message.Outbound{ID: page + "/m_x/42", Page: page, To: "42", Class: message.ClassText, Text: "private words"}
}

// roundTrip is a transport in process.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// setup makes a Sender with one page; change adapts its Config.
func setup(t testing.TB, change func(*Config)) *Sender {
	t.Helper()
	cfg := Config{
		BaseURL:     "https://graph.example/v23.0",
		Tokens:      StaticTokens(map[string]string{page: token}),
		MaxInFlight: 64,
		CallTimeout: 10 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestNewNamesEveryFault(t *testing.T) {
	t.Parallel()
	good := Config{BaseURL: "https://x/v1", Tokens: StaticTokens(nil), MaxInFlight: 1, CallTimeout: 1}
	tests := []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"nothing set", func(c *Config) { *c = Config{} }, []string{"BaseURL", "Tokens", "MaxInFlight 0", "CallTimeout 0s"}},
		{"no scheme", func(c *Config) { c.BaseURL = "graph.facebook.com/v23.0" }, []string{"BaseURL"}},
		{"other scheme", func(c *Config) { c.BaseURL = "ftp://x" }, []string{"BaseURL"}},
		{"no host", func(c *Config) { c.BaseURL = "http:///x" }, []string{"BaseURL"}},
		{"query", func(c *Config) { c.BaseURL = "http://x/?access_token=SECRET" }, []string{"BaseURL"}},
		{"user", func(c *Config) { c.BaseURL = "http://u:SECRET@x/" }, []string{"BaseURL"}},
		{"not a URL", func(c *Config) { c.BaseURL = "http://u:SECRET@x:port/" }, []string{"BaseURL"}},
		{"negative", func(c *Config) { c.MaxInFlight, c.CallTimeout = -1, -1 }, []string{"MaxInFlight -1", "CallTimeout -1ns"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := good
			tt.change(&cfg)
			_, err := New(cfg)
			if err == nil {
				t.Fatal("New = nil error, want one")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("New error = %v, want it to name %s", err, want)
				}
			}
			if strings.Contains(err.Error(), "SECRET") {
				t.Errorf("New error holds a secret: %v", err)
			}
		})
	}
	if s, err := New(good); err != nil {
		t.Errorf("New(good) error = %v", err)
	} else {
		s.Close()
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"https://graph.example/v23.0", "https://graph.example/v23.0/"} {
		calls := 0
		s := setup(t, func(c *Config) {
			c.BaseURL = base
			c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				calls++
				if got, want := r.Method+" "+r.URL.String(), "POST https://graph.example/v23.0/1234567890/messages"; got != want {
					t.Errorf("request = %s, want %s", got, want)
				}
				want := http.Header{
					"Authorization": {"Bearer SECRET-token"},
					"Content-Type":  {"application/json"},
					"User-Agent":    {"chatclub"},
				}
				if diff := cmp.Diff(want, r.Header); diff != "" {
					t.Errorf("header (-want +got):\n%s", diff)
				}
				body, err := io.ReadAll(r.Body)
				if err != nil || r.ContentLength != int64(len(body)) {
					t.Errorf("body of %d bytes, content length %d, err %v", len(body), r.ContentLength, err)
				}
				if diff := cmp.Diff(decoded(t, standard(t, outbound())), decoded(t, body)); diff != "" {
					t.Errorf("body (-want +got):\n%s", diff)
				}
				return response(200, receipt), nil
			})
		})
		got := s.Send(t.Context(), outbound())
		got.Latency = 0
		want := Result{Outcome: Sent, Status: 200, MessageID: "m_1"}
		if diff := cmp.Diff(want, got); diff != "" || calls != 1 {
			t.Errorf("Send: %d calls, want 1; (-want +got):\n%s", calls, diff)
		}
	}
}

// noCall is a transport that must not be used.
func noCall(t *testing.T) http.RoundTripper {
	t.Helper()
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		t.Errorf("a call was made: %s", r.URL)
		return nil, errors.New("unexpected")
	})
}

func TestSendMakesNoCall(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config) {
		c.Transport = noCall(t)
		c.Tokens = StaticTokens(map[string]string{page: token, "..": token, "": token, "1/../2": token})
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name, page string
		ctx        context.Context //nolint:containedctx // a row of a test table
		want       Outcome
		wantErr    string
	}{
		{"context over", page, ended, Canceled, "send: context canceled"},
		{"unknown page", "77", t.Context(), NoToken, "send: no token for page 77"},
		{"empty page", "", t.Context(), BadMessage, `send: page "" is not a page id`},
		{"parent", "..", t.Context(), BadMessage, `send: page ".." is not a page id`},
		{"path", "1/../2", t.Context(), BadMessage, `send: page "1/../2" is not a page id`},
		{"query", "1?x=y", t.Context(), BadMessage, `send: page "1?x=y" is not a page id`},
		{"escape", "1%2f2", t.Context(), BadMessage, `send: page "1%2f2" is not a page id`},
		{"long", strings.Repeat("1", 65), t.Context(), BadMessage, `send: page "` + strings.Repeat("1", 40) + `" is not a page id`},
	}
	for _, tt := range tests {
		o := outbound()
		o.Page = tt.page
		r := s.Send(tt.ctx, o)
		if r.Outcome != tt.want || r.Err == nil || r.Err.Error() != tt.wantErr {
			t.Errorf("%s: Send = %v, err %v, want %v, err %s", tt.name, r.Outcome, r.Err, tt.want, tt.wantErr)
		}
		if r.CodeString() != "" || r.Latency != 0 || r.Status != 0 {
			t.Errorf("%s: Send = code %q, latency %v, status %d, want none", tt.name, r.CodeString(), r.Latency, r.Status)
		}
		if got, want := errors.Is(r.Err, ErrNoToken), tt.want == NoToken; got != want {
			t.Errorf("%s: errors.Is(err, ErrNoToken) = %v, want %v", tt.name, got, want)
		}
	}
}

// hang answers nothing until the request's context ends.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	slowBody := func(r *http.Request) (*http.Response, error) {
		resp := response(200, "")
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"recip`), readFunc(func([]byte) (int, error) {
			<-r.Context().Done()
			return 0, r.Context().Err()
		})))
		return resp, nil
	}
	slowError := func(r *http.Request) (*http.Response, error) {
		resp, err := slowBody(r)
		resp.StatusCode = 500
		return resp, err
	}
	after := func(d time.Duration) roundTrip {
		return func(*http.Request) (*http.Response, error) {
			time.Sleep(d)
			return response(200, receipt), nil
		}
	}
	tests := []struct {
		name      string
		transport roundTrip
		caller    time.Duration // the caller's own deadline; 0: none
		want      Outcome
		code      string
		latency   time.Duration
	}{
		{"in time", after(9999 * time.Millisecond), 0, Sent, "", 9999 * time.Millisecond},
		{"no answer", hang, 0, Transient, "timeout", 10 * time.Second},
		{"the caller's deadline is sooner", hang, 3 * time.Second, Transient, "timeout", 3 * time.Second},
		{"accepted, then silence", slowBody, 0, Sent, "", 10 * time.Second},
		{"refused, then silence", slowError, 0, Transient, "http 500", 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := setup(t, func(c *Config) { c.Transport = tt.transport })
				ctx := t.Context()
				if tt.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.caller)
					defer cancel()
				}
				start := time.Now()
				r := s.Send(ctx, outbound())
				if r.Outcome != tt.want || r.CodeString() != tt.code || r.Latency != tt.latency {
					t.Errorf("Send = %v, %q, latency %v, want %v, %q, %v", r.Outcome, r.CodeString(), r.Latency, tt.want, tt.code, tt.latency)
				}
				if took := time.Since(start); took != tt.latency {
					t.Errorf("Send returned after %v, want %v", took, tt.latency)
				}
			})
		})
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// Whatever the API answers below 502, it can be reached. It is asked without a token. The
// answer of a proxy is not the API's.
func TestReach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			status int
			kind   string
			fails  bool
		}{
			{http.StatusOK, "application/json", false},
			{http.StatusFound, "", false},
			{http.StatusNotFound, "text/plain", false},
			{http.StatusInternalServerError, "application/json", false},
			{http.StatusBadGateway, "application/json", true},
			{http.StatusProxyAuthRequired, "", true},
			{http.StatusOK, "text/html; charset=utf-8", true},
			{http.StatusForbidden, "text/html", true},
		} {
			s := setup(t, func(c *Config) {
				c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.Method != http.MethodGet || r.URL.String() != "https://graph.example/v23.0/me" || r.Header.Get("Authorization") != "" {
						t.Errorf("asked %s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
					}
					resp := response(tt.status, "")
					resp.Header.Set("Content-Type", tt.kind)
					return resp, nil
				})
			})
			if err := s.Reach(t.Context()); (err != nil) != tt.fails {
				t.Errorf("Reach with an answer of %d, %q = %v, want an error: %v", tt.status, tt.kind, err, tt.fails)
			}
		}
		s := setup(t, func(c *Config) {
			c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})
		})
		if err := s.Reach(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Reach without an answer = %v, want a deadline", err)
		}
	})
}

func TestCallerGivesUpInMidCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := setup(t, func(c *Config) { c.Transport = roundTrip(hang) })
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("because of SECRET")) })
		r := s.Send(ctx, outbound())
		if r.Outcome != Transient || r.CodeString() != "canceled" || r.Latency != time.Second {
			t.Errorf("Send = %v, %q, latency %v, want transient, canceled, 1s", r.Outcome, r.CodeString(), r.Latency)
		}
		if got := r.Err.Error(); got != "send: context canceled" {
			t.Errorf("Send err = %s, want the context's error without its cause", got)
		}
	})
}

func TestTransportErrors(t *testing.T) {
	t.Parallel()
	timeout := &url.Error{Op: "Post", URL: "x", Err: timeoutError{}}
	for _, tt := range []struct {
		err  error
		want string
	}{{io.ErrUnexpectedEOF, "network"}, {tls.RecordHeaderError{Msg: "x"}, "network"}, {timeout, "timeout"}} {
		s := setup(t, func(c *Config) {
			c.Transport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, tt.err })
		})
		r := s.Send(t.Context(), outbound())
		if r.Outcome != Transient || r.CodeString() != tt.want || r.Err == nil {
			t.Errorf("Send with %T = %v, %q, err %v, want transient, %q", tt.err, r.Outcome, r.CodeString(), r.Err, tt.want)
		}
	}
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "slow" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return false }

func TestErrorsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	// Whatever goes wrong, no error quotes the token, the text or the address.
	failing := []roundTrip{
		hangless(io.EOF), hangless(&url.Error{Op: "Post", URL: "x", Err: io.EOF}),
		func(*http.Request) (*http.Response, error) { return response(500, "private words "+token), nil },
		func(*http.Request) (*http.Response, error) {
			b, err := json.Marshal(map[string]any{"error": map[string]any{"code": 190, "message": token}})
			return response(400, string(b)), err
		},
	}
	for i, f := range failing {
		r := setup(t, func(c *Config) { c.Transport = f }).Send(t.Context(), outbound())
		for _, secret := range []string{token, "private", "graph.example"} {
			if strings.Contains(r.Err.Error(), secret) {
				t.Errorf("case %d: err = %v, holds %s", i, r.Err, secret)
			}
		}
	}
}

func hangless(err error) roundTrip {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// A page lacks a token where calls for it need one. No call is made for an impossible page.
func TestLacksToken(t *testing.T) {
	t.Parallel()
	lacks := LacksToken(StaticTokens(map[string]string{"1": "token"}))
	for page, want := range map[string]bool{"1": false, "2": true, "../2": false, "": false} {
		if got := lacks(page); got != want {
			t.Errorf("LacksToken(%q) = %v, want %v", page, got, want)
		}
	}
}
