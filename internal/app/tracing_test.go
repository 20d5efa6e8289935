package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"chatclub/fakeapi"
	"chatclub/internal/tracing/tracingtest"
)

// answered tells of each answer of the platform.
type answered struct {
	http.RoundTripper
	calls chan struct{}
}

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	defer func() { a.calls <- struct{}{} }()
	return a.RoundTripper.RoundTrip(r)
}

// TestOneTrace: a message is one trace, from the webhook to the call for its copy.
// Whose span is whose parent says the way that it took.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	collector := new(tracingtest.Collector)
	server := httptest.NewServer(collector)
	defer server.Close()
	b, opt := given(t)
	page := fakeapi.PageID(1)
	settings := fakeapi.DefaultSettings()
	var err error
	if settings.Latency, err = fakeapi.ParseLatency("none"); err != nil {
		t.Fatal(err)
	}
	api, err := fakeapi.New(fakeapi.Config{Settings: &settings})
	if err != nil {
		t.Fatal(err)
	}
	endpoint := []string{"OTEL_EXPORTER_OTLP_ENDPOINT", server.URL, "PARTITIONS", "2"}
	hook, err := NewWebhook(t.Context(), WebhookConfig{
		Settings: load[WebhookSettings](t, append(endpoint, "APP_SECRET", "s", "VERIFY_TOKEN", "v")...), Options: opt,
	})
	if err != nil {
		t.Fatal(err)
	}
	core, err := NewCore(t.Context(), CoreConfig{Settings: load[CoreSettings](t, append(endpoint, "DATABASE_URL", "sqlite::memory:")...), Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	calls := answered{api.Transport(), make(chan struct{}, 100)}
	dispatcher, err := NewDispatcher(t.Context(), DispatcherConfig{
		Settings: load[DispatcherSettings](t, append(endpoint, "PAGES_FILE", "none", "GRAPH_URL", "http://fakeapi/v23.0")...), Options: opt,
		Tokens: api, Transport: calls,
	})
	if err != nil {
		t.Fatal(err)
	}
	programs := []running{run(t, hook), run(t, core), run(t, dispatcher)}
	for i, post := range []struct {
		user  string
		calls int // an answer for who joins, and a copy for each of the others
	}{{"1", 1}, {"2", 2}, {"1", 1}} {
		body := fmt.Appendf(nil, `{"object":"page","entry":[{"id":%q,"time":1,"messaging":[{"sender":{"id":%q},"timestamp":%d,"message":{"mid":"m%d","text":"hello"}}]}]}`,
			page, post.user, time.Now().UnixMilli(), i)
		mac := hmac.New(sha256.New, []byte("s"))
		mac.Write(body)
		if code, text := request(t, http.MethodPost, programs[0].http+"/webhook", body, "sha256="+hex.EncodeToString(mac.Sum(nil))); code != 200 {
			t.Fatalf("POST = %d %s, want 200", code, text)
		}
		for range post.calls {
			select {
			case <-calls.calls:
			case <-time.After(30 * time.Second):
				t.Fatal("no call after 30 s")
			}
		}
	}
	if code, text := request(t, http.MethodPost, programs[0].http+"/webhook", []byte(`{}`), "sha256=00"); code != 403 {
		t.Errorf("POST with a wrong signature = %d %s, want 403", code, text)
	}
	exemplars := regexp.MustCompile(`message_age_seconds_bucket\{le="[^"]+"\} \d+ # \{trace_id="([0-9a-f]{32})"\}`).FindAllStringSubmatch(openMetrics(t, programs[2].admin), -1)
	for _, p := range programs {
		if err := p.stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	}
	if n := ready(t, b, b.Topology().Dead()); n != 0 {
		t.Errorf("%d dead letters, want none", n)
	}
	spans, err := collector.Spans()
	if err != nil {
		t.Fatal(err)
	}
	copyID := page + "/m2/2"
	var trace string
	traces := make(map[string]bool)
	for _, s := range spans {
		traces[s.Trace] = true
		if s.Service == "dispatcher" && s.Attributes["messaging.message.id"] == copyID {
			trace = s.Trace
		}
	}
	if len(exemplars) == 0 {
		t.Error("the age of messages has no exemplar")
	}
	for _, x := range exemplars {
		if !traces[x[1]] {
			t.Errorf("exemplar of trace %s, which the collector does not have", x[1])
		}
	}
	if len(traces) != 3 {
		t.Errorf("%d traces, want one for each event, and none for the wrong signature", len(traces))
	}
	var lines []string
	depth, parent := make(map[string]int), ""
	for _, s := range spans {
		if s.Trace != trace {
			continue
		}
		if s.Parent != parent {
			t.Errorf("parent of %q = %q, want the span before it, %q", s.Name, s.Parent, parent)
		}
		parent = s.ID
		depth[s.ID] = depth[s.Parent] + 1
		if s.Error != "" {
			t.Errorf("%q failed: %s", s.Name, s.Error)
		}
		lines = append(lines, fmt.Sprintf("%d %s: %s, %s", depth[s.ID], s.Service, s.Name, s.Kind))
	}
	want := `1 webhook: POST /webhook, server
2 webhook: send chatclub.inbound.{number}, producer
3 core: process chatclub.inbound.{number}, consumer
4 core: send chatclub.outbound.{number}, producer
5 dispatcher: process chatclub.outbound.{number}, consumer
6 dispatcher: POST /{page}/messages, client`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("trace of %s:\n%s\nwant\n%s", copyID, got, want)
	}
}

// openMetrics returns a program's metrics in the format that has exemplars.
func openMetrics(t *testing.T, admin string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, admin+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/openmetrics-text; version=1.0.0") {
		t.Fatalf("GET /metrics: %v, Content-Type %q", err, res.Header.Get("Content-Type"))
	}
	return string(body)
}

// Without an address nothing is traced, and a wrong variable is named.
func TestTraceSettings(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"": "", "http://c:4318": "http://c:4318/v1/traces", "http://c:4318/base/": "http://c:4318/base/v1/traces",
	} {
		if got := load[CoreSettings](t, "OTEL_EXPORTER_OTLP_ENDPOINT", base).Trace.endpoint(); got != want {
			t.Errorf("endpoint of %q = %q, want %q", base, got, want)
		}
	}
	s := load[CoreSettings](t, "OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x%2Cy, api-key = 1 ,")
	if h, err := s.Trace.headers(); err != nil || len(h) != 2 || h.Get("Authorization") != "Bearer x,y" || h.Get("Api-Key") != "1" {
		t.Errorf("headers = %v, %v, want Bearer x,y and 1", h, err)
	}
	for name, values := range map[string][]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": {"collector:4318", "http://user:top-secret@c"},
		"OTEL_EXPORTER_OTLP_HEADERS":  {"top-secret", "a b=top-secret", "=top-secret", "a=top-secret%0d%0aX:y", "a=top-secret%zz"},
		"OTEL_TRACES_SAMPLER_ARG":     {"1.5", "-1", "NaN"},
	} {
		for _, value := range values {
			if name != "OTEL_EXPORTER_OTLP_ENDPOINT" { // which itself turns them on
				if got := fault[CoreSettings](with(name, value)); got != "" {
					t.Errorf("%s=%s without traces: Load = %s, want no error", name, value, got)
				}
			}
			on := with("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")
			on[name] = value
			got := fault[CoreSettings](on)
			if !strings.HasPrefix(got, "settings: "+name+": ") || strings.Contains(got, "top-secret") {
				t.Errorf("%s=%s: Load = %q, want an error that names it and no secret", name, value, got)
			}
		}
	}
}
