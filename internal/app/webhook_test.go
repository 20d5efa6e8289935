package app

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chatclub/internal/queue"
)

const fixtures = "../webhook/testdata"

func readFixture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(fixtures, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// webhookSettings are those of a webhook with every port free.
func webhookSettings(t *testing.T) WebhookSettings {
	t.Helper()
	return load[WebhookSettings](t, "APP_SECRET", "chatclub-test-secret", "VERIFY_TOKEN", "verify-me")
}

// runWebhook runs a webhook whose broker ends with it.
func runWebhook(t *testing.T, opt Options) running {
	t.Helper()
	opt.ownsBroker = true
	p, err := NewWebhook(t.Context(), WebhookConfig{Settings: webhookSettings(t), Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	return run(t, p)
}

// TestPortsOfAWebhook: the public port has the webhook alone, the admin port the rest.
func TestPortsOfAWebhook(t *testing.T) {
	t.Parallel()
	b, opt := given(t)
	r := runWebhook(t, opt)
	text := readFixture(t, "text.json")
	if code, body := request(t, http.MethodPost, r.http+"/webhook", text, string(readFixture(t, "text.sig"))); code != 200 || body != "EVENT_RECEIVED" {
		t.Errorf("POST = %d %q, want 200", code, body)
	}
	if got := readyEvents(t, b); got != 1 {
		t.Errorf("inbound holds %d, want 1", got)
	}
	if code, _ := request(t, http.MethodPost, r.http+"/webhook", text, ""); code != 403 {
		t.Errorf("POST unsigned = %d, want 403", code)
	}
	if code, body := request(t, http.MethodGet, r.http+"/webhook?hub.mode=subscribe&hub.verify_token=verify-me&hub.challenge=42", nil, ""); code != 200 || body != "42" {
		t.Errorf("GET verification = %d %q, want 200 42", code, body)
	}
	for _, path := range []string{"/", "/metrics"} {
		if code, _ := request(t, http.MethodGet, r.http+path, nil, ""); code != 404 {
			t.Errorf("GET %s on the public port = %d, want 404", path, code)
		}
	}
	if code, body := request(t, http.MethodGet, r.admin+"/metrics", nil, ""); code != 200 || !strings.Contains(body, `chatclub_webhook_requests_total{result="ok"} 1`) {
		t.Errorf("GET /metrics = %d, want 200 with 1 request ok:\n%s", code, body)
	}
	if code, body := request(t, http.MethodGet, r.admin+"/readyz", nil, ""); code != 200 {
		t.Errorf("GET /readyz = %d %q, want 200", code, body)
	}
	if err := r.stop(); err != nil {
		t.Errorf("run after cancel = %v, want nil", err)
	}
	if err := b.Publish(t.Context()); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("broker after run: Publish = %v, want ErrClosed", err)
	}
}

// TestDeletionURL checks that the data deletion callback is served only if its
// address is set.
func TestDeletionURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]int{"": 404, "https://chat.example/deletion": 403} {
		_, opt := given(t)
		opt.ownsBroker = true
		settings := webhookSettings(t)
		settings.DeletionURL = address
		p, err := NewWebhook(t.Context(), WebhookConfig{Settings: settings, Options: opt})
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, p)
		if code, body := request(t, http.MethodPost, r.http+"/deletion", []byte("signed_request=a.b"), ""); code != want {
			t.Errorf("POST unsigned to /deletion with DELETION_URL %q = %d %q, want %d", address, code, body, want)
		}
		if err := r.stop(); err != nil {
			t.Errorf("run after cancel = %v, want nil", err)
		}
	}
}

// gated holds every Publish until released.
type gated struct {
	queue.Broker
	entered, release chan struct{}
}

func (g gated) Publish(ctx context.Context, msgs ...queue.Message) error {
	g.entered <- struct{}{}
	<-g.release
	return g.Broker.Publish(ctx, msgs...)
}

// TestShutdownAnswersWhatIsInFlight: a request being published when the
// program is stopped is confirmed and answered before the broker is closed,
// and the admin server serves meanwhile.
func TestShutdownAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	b, opt := given(t)
	g := gated{Broker: b, entered: make(chan struct{}), release: make(chan struct{})}
	opt.Broker = g
	r := runWebhook(t, opt)
	type answer struct {
		code int
		body string
	}
	answered := make(chan answer, 1)
	text, signature := readFixture(t, "text.json"), string(readFixture(t, "text.sig"))
	go func() {
		code, body := request(t, http.MethodPost, r.http+"/webhook", text, signature)
		answered <- answer{code, body}
	}()
	<-g.entered
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	// Readiness ends before anything is closed.
	for {
		if code, body := request(t, http.MethodGet, r.admin+"/readyz", nil, ""); code == 503 {
			if body != "not ready: stopping\n" {
				t.Errorf("GET /readyz while stopping = %q, want stopping", body)
			}
			break
		}
	}
	close(g.release)
	if got := <-answered; got.code != 200 { // a broker closed by now would make it 503
		t.Errorf("POST in flight = %d %q, want 200", got.code, got.body)
	}
	if err := <-stopped; err != nil {
		t.Errorf("run after cancel = %v, want nil", err)
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	_, opt := given(t)
	r := runWebhook(t, opt)
	addr := strings.TrimPrefix(r.admin, "http://")
	for _, name := range []string{"HTTP_ADDR", "ADMIN_ADDR"} {
		s := load[WebhookSettings](t, "APP_SECRET", "x", "VERIFY_TOKEN", "x", name, addr)
		_, err := NewWebhook(t.Context(), WebhookConfig{Settings: s, Options: Options{Log: opt.Log}})
		if err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("NewWebhook with %s in use = %v, want an error that names %s", name, err, addr)
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}
