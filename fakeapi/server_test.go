package fakeapi_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/ledger"
)

// serve puts a platform behind a socket of this test.
func serve(t testing.TB, a *fakeapi.API) (base string, client *http.Client) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx, ln) }()
	tr := &http.Transport{}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v, want nil after cancel", err)
		}
	})
	return "http://" + ln.Addr().String(), &http.Client{Transport: tr}
}

func post(t *testing.T, c *http.Client, url, body string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer token-1")
	resp, err := c.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

func TestServe(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.Text.PerSecond = 1 })})
	base, client := serve(t, a.API)
	resp, body, err := post(t, client, base+"/v23.0/me/messages", fakeapitest.Text("42", "1/m/42"))
	if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(body, `{"recipient_id":"42","message_id":"m_`) {
		t.Fatalf("send over a socket = %v %s, want 200 and ids", err, body)
	}
	if resp.Header.Get("Content-Type") != "application/json; charset=UTF-8" || !strings.Contains(resp.Header.Get("X-Business-Use-Case-Usage"), `"call_count":100`) {
		t.Errorf("headers = %v, want JSON and the usage", resp.Header)
	}
	for _, fault := range []string{`{"faults":{"reset_before":1}}`, `{"text":{"per_second":300},"faults":{"reset_before":0,"reset_after":1}}`} {
		if err := a.Patch([]byte(fault)); err != nil {
			t.Fatal(err)
		}
		if _, body, err := post(t, client, base+"/1/messages", fakeapitest.Text("42", "1/n/42")); err == nil {
			t.Errorf("send with %s = %s, want a lost connection", fault, body)
		}
	}
	if got := a.Ledger().Totals(); got.Accepted != 2 || got.Errors != 1 {
		t.Errorf("ledger = %+v, want 2 accepted and 1 error", got)
	}
	if err := a.Patch([]byte(`{"faults":{"reset_after":0,"slow_body":1,"slow_body_by":"1ms"}}`)); err != nil {
		t.Fatal(err)
	}
	if _, body, err := post(t, client, base+"/1/messages", fakeapitest.Text("42", "")); err != nil || !strings.HasSuffix(body, `"}`) {
		t.Errorf("send with a slow body = %s %v, want the whole body", body, err)
	}
	client.CloseIdleConnections()
	if err := a.Patch([]byte(`{"faults":{"refuse":true}}`)); err != nil {
		t.Fatal(err)
	}
	if _, body, err := post(t, client, base+"/1/messages", fakeapitest.Text("42", "")); err == nil {
		t.Errorf("send while connections are refused = %s, want an error", body)
	}
}

// TestServeEndsPendingAnswers: stopping does not wait for a latency of an hour.
func TestServeEndsPendingAnswers(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.Latency = fakeapitest.Latency(t, "fixed:1h") })})
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx, ln) }()
	accepted := make(chan struct{})
	a.Observe(func(fakeapi.Acceptance) { close(accepted) })
	answered := make(chan error, 1)
	tr := &http.Transport{}
	go func() {
		_, _, err := post(t, &http.Client{Transport: tr}, "http://"+ln.Addr().String()+"/1/messages", fakeapitest.Text("42", ""))
		answered <- err
	}()
	<-accepted
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	if err := <-answered; err == nil {
		t.Error("the pending call was answered, want a lost connection")
	}
	tr.CloseIdleConnections()
}

func TestPageAndEvents(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	a.Ledger().Page("1").Record(time.Now(), ledger.Send{Recipient: "42", ID: "x"})
	base, client := serve(t, a.API)
	get := func(path string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	// Everything that the page names is served, and nothing comes from elsewhere.
	seen := map[string]bool{}
	for todo := []string{"/"}; len(todo) > 0; todo = todo[1:] {
		if seen[todo[0]] {
			continue
		}
		seen[todo[0]] = true
		resp := get(todo[0])
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		policy := resp.Header.Get("Content-Security-Policy")
		if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(policy, "default-src 'none'; ") || todo[0] == "/" && strings.Contains(policy, "unsafe") {
			t.Errorf("GET %s = %d %v with the policy %q, want 200 and a strict one", todo[0], resp.StatusCode, err, policy)
		}
		if s := strings.ReplaceAll(string(b), "http://www.w3.org/2000/svg", ""); strings.Contains(s, "://") {
			t.Errorf("%s names another host", todo[0])
		}
		for _, m := range regexp.MustCompile(`(?:src|href)="([^"]+)"|from "\./([^"]+)"`).FindAllStringSubmatch(string(b), -1) {
			if m[1] != "" {
				todo = append(todo, "/"+m[1])
			} else {
				todo = append(todo, "/web/"+m[2])
			}
		}
	}
	if len(seen) < 8 {
		t.Errorf("files of the page = %d, want at least 8", len(seen))
	}
	for _, path := range []string{"/web/", "/web/nothing.js", "/web/../server.go", "/pictures/../../server.go", "/pictures/nobody.svg"} {
		resp := get(path)
		resp.Body.Close()
		if resp.StatusCode == 200 && path != "/web/" {
			t.Errorf("GET %s = 200, want an error", path)
		}
	}
	events := get("/events?page=1")
	defer events.Body.Close()
	lines := bufio.NewScanner(events.Body)
	next := func() string {
		var event []string
		for lines.Scan() && lines.Text() != "" {
			event = append(event, lines.Text())
		}
		return strings.Join(event, "\n")
	}
	for _, want := range [][2]string{
		{"event: settings\ndata: {", `"algorithm":"fixed-window"`},
		{"event: phones\ndata: {", `"max":0`},
		{"event: numbers\ndata: {", `"accepted":1`},
		{"event: numbers\ndata: {", `"page":"1","accepted_total":1`},
	} {
		if got := next(); !strings.HasPrefix(got, want[0]) || !strings.Contains(got, want[1]) {
			t.Errorf("event = %q, want %s with %s", got, want[0], want[1])
		}
	}
}

// TestRefuseUntil: connections are refused until the time is over, without
// anybody who ends it.
func TestRefuseUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{})
		if err := a.Patch([]byte(`{"faults":{"refuse_until":"` + time.Now().Add(10*time.Second).Format(time.RFC3339Nano) + `"}}`)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		if _, err := a.Try("GET", "/control", ""); err == nil {
			t.Error("request before the end = nil, want it refused")
		}
		time.Sleep(time.Nanosecond)
		if _, err := a.Try("GET", "/control", ""); err != nil {
			t.Errorf("request at the end = %v, want nil", err)
		}
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	a.Ledger().Announce("1", ledger.Expected{ID: "a"}, ledger.Expected{ID: "b"}, ledger.Expected{ID: "c"})
	a.Send("42", "a")
	a.Send("42", "a")
	a.Send("error-613", "b")
	a.Send("error-551", "c")
	a.Post(`{"recipient":{"id":"42"},"sender_action":"typing_on"}`)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(a.Collector())
	want := `
# HELP fakeapi_ids Message ids by what the ledger says of them.
# TYPE fakeapi_ids gauge
fakeapi_ids{state="duplicated"} 1
fakeapi_ids{state="excused"} 1
fakeapi_ids{state="expected"} 2
fakeapi_ids{state="inverted"} 0
fakeapi_ids{state="unexpected"} 0
# HELP fakeapi_pending Message ids that are expected and not accepted now.
# TYPE fakeapi_pending gauge
fakeapi_pending 1
# HELP fakeapi_sends_total Send API calls by what became of them.
# TYPE fakeapi_sends_total counter
fakeapi_sends_total{result="accepted"} 2
fakeapi_sends_total{result="action"} 1
fakeapi_sends_total{result="error"} 0
fakeapi_sends_total{result="refused"} 1
fakeapi_sends_total{result="rejected"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "fakeapi_ids", "fakeapi_pending", "fakeapi_sends_total"); err != nil {
		t.Error(err)
	}
	if got := a.Answers()["613"]; got != 1 {
		t.Errorf("answers of 613 = %d, want 1", got)
	}
}
