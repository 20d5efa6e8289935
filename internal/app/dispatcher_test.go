package app

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// platform answers every call as the Send API does, and keeps its requests.
type platform chan *http.Request

func (p platform) RoundTrip(r *http.Request) (*http.Response, error) {
	p <- r
	return &http.Response{
		StatusCode: http.StatusOK, Header: make(http.Header), Request: r,
		Body: io.NopCloser(strings.NewReader(`{"recipient_id":"2","message_id":"m_1"}`)),
	}, nil
}

// send puts a copy for user 2 of page 1 on outbound.
func send(t *testing.T, b queue.Broker) {
	t.Helper()
	out := message.Outbound{ID: "1/m/2", Page: "1", To: "2", Class: message.ClassText, Text: "hi", Time: time.Now().UnixMilli()}
	body, err := out.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), queue.Message{Queue: b.Topology().OutboundOf("1"), ID: out.ID, Body: body}); err != nil {
		t.Fatal(err)
	}
}

func TestDispatcherSends(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pages.json")
	if err := os.WriteFile(file, []byte(`{"1":"a-token"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tokens := range map[string]sender.TokenSource{
		"token of the pages file": nil,
		"token that was given":    sender.StaticTokens(map[string]string{"1": "a-token"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, opt := given(t)
			calls := make(platform, 1)
			p, err := NewDispatcher(t.Context(), DispatcherConfig{
				Settings: load[DispatcherSettings](t, "PAGES_FILE", file, "GRAPH_URL", "http://graph/v23.0"),
				Options:  opt, Tokens: tokens, Transport: calls,
			})
			if err != nil {
				t.Fatal(err)
			}
			r := run(t, p)
			send(t, b)
			call := <-calls
			if got := call.URL.String(); got != "http://graph/v23.0/1/messages" {
				t.Errorf("call to %s, want http://graph/v23.0/1/messages", got)
			}
			if got := call.Header.Get("Authorization"); got != "Bearer a-token" {
				t.Errorf("Authorization = %q, want the page's token", got)
			}
			if code, body := get(t, r.admin+"/readyz"); code != http.StatusOK {
				t.Errorf("GET /readyz = %d %q, want 200", code, body)
			}
			if code, body := get(t, r.admin+"/pages"); code != http.StatusOK {
				t.Errorf("GET /pages = %d %q, want 200", code, body)
			}
			if err := r.stop(); err != nil {
				t.Errorf("Run = %v, want nil", err)
			}
			if got := ready(t, b, b.Topology().OutboundOf("1")); got != 0 {
				t.Errorf("outbound holds %d after the call was answered, want 0", got)
			}
		})
	}
}

func TestDispatcherWithoutPagesFile(t *testing.T) {
	t.Parallel()
	_, opt := given(t)
	missing := filepath.Join(t.TempDir(), "none.json")
	_, err := NewDispatcher(t.Context(), DispatcherConfig{Settings: load[DispatcherSettings](t, "PAGES_FILE", missing), Options: opt})
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("NewDispatcher without its pages file = %v, want an error that names %s", err, missing)
	}
}
