// Package fakeapitest helps tests that use a fake platform: it makes one, asks
// it in process, and has a small system under test, the Bot.
package fakeapitest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"chatclub/fakeapi"
)

// Platform is a fake platform of a test.
type Platform struct {
	*fakeapi.API
	t testing.TB
}

// New makes a platform. Without Settings it answers at once.
func New(t testing.TB, c fakeapi.Config) *Platform {
	t.Helper()
	if c.Settings == nil {
		c.Settings = Settings(func(*fakeapi.Settings) {})
	}
	a, err := fakeapi.New(c)
	if err != nil {
		t.Fatalf("New = %v, want a platform", err)
	}
	return &Platform{a, t}
}

// Settings returns the default settings without latency, changed.
func Settings(change func(*fakeapi.Settings)) *fakeapi.Settings {
	s := fakeapi.DefaultSettings()
	s.Latency = fakeapi.Latency{}
	change(&s)
	return &s
}

// Latency parses the text form of a latency.
func Latency(t testing.TB, text string) fakeapi.Latency {
	t.Helper()
	l, err := fakeapi.ParseLatency(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Reply is an answer of the platform.
type Reply struct {
	Status int
	Body   string
	Usage  string // x-business-use-case-usage
	Header http.Header
}

// Error is the error in a reply's body.
type Error struct {
	Message   string `json:"message"`
	Type      string `json:"type"`
	Code      int    `json:"code"`
	Subcode   int    `json:"error_subcode"`
	Transient *bool  `json:"is_transient"`
	Trace     string `json:"fbtrace_id"`
}

// Error returns the error in the body, the zero value if there is none.
func (r Reply) Error(t testing.TB) Error {
	t.Helper()
	var e struct {
		Error Error `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.Body), &e); err != nil {
		t.Fatalf("decode %q: %v", r.Body, err)
	}
	return e.Error
}

// Option changes a request.
type Option func(*http.Request)

// Header sets a header.
func Header(name, value string) Option {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// Bearer is the token of a page.
func Bearer(page string) Option { return Header("Authorization", "Bearer token-"+page) }

// Form says that the body is a form.
func Form(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }

// Try asks the platform in process. Without an option the body is JSON and no
// token is given.
func (p *Platform) Try(method, url, body string, options ...Option) (Reply, error) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, "http://graph.test"+url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, o := range options {
		o(r)
	}
	resp, err := p.Transport().RoundTrip(r)
	if err != nil {
		return Reply{}, err
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it is in memory
	return Reply{resp.StatusCode, string(b), resp.Header.Get("X-Business-Use-Case-Usage"), resp.Header}, err
}

// Ask is Try where an answer must come.
func (p *Platform) Ask(method, url, body string, options ...Option) Reply {
	p.t.Helper()
	r, err := p.Try(method, url, body, options...)
	if err != nil {
		p.t.Fatalf("%s %s = %v, want an answer", method, url, err)
	}
	return r
}

// Listen puts the platform behind a socket until the test ends. It returns the
// address and a client.
func (p *Platform) Listen() (base string, client *http.Client) {
	p.t.Helper()
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx, ln) }()
	transport := &http.Transport{}
	p.t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			p.t.Errorf("Serve = %v, want nil after cancel", err)
		}
	})
	return "http://" + ln.Addr().String(), &http.Client{Transport: transport}
}

// Post sends a body from page 1.
func (p *Platform) Post(body string) Reply {
	p.t.Helper()
	return p.Ask(http.MethodPost, "/v23.0/1/messages", body, Bearer("1"))
}

// Send sends a text from page 1.
func (p *Platform) Send(to, id string) Reply {
	p.t.Helper()
	return p.Post(Text(to, id))
}

// Line returns the ledger in one line.
func (p *Platform) Line() string {
	c := p.Ledger().Totals()
	return fmt.Sprintf("events %d expected %d accepted %d lost %d duplicated %d unexpected %d excused %d",
		c.Events, c.Expected, c.Accepted, c.Lost, c.Duplicated, c.Unexpected, c.Excused)
}
