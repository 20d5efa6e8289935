package fakeapi_test

import (
	"context"
	"io"
	"net"
	"net/http"
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
	a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.Text.PerSecond, s.UsageHeaders = 1, true })})
	base, client := a.Listen()
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

// TestRefuseUntil: connections are refused until the time is over, and then no
// more.
func TestRefuseUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{})
		if err := a.Patch([]byte(`{"faults":{"refuse_until":"` + time.Now().Add(10*time.Second).Format(time.RFC3339Nano) + `"}}`)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		if _, err := a.Try("POST", "/1/messages", fakeapitest.Text("42", ""), fakeapitest.Bearer("1")); err == nil {
			t.Error("request before the end = nil, want it refused")
		}
		time.Sleep(time.Nanosecond)
		if _, err := a.Try("POST", "/1/messages", fakeapitest.Text("42", ""), fakeapitest.Bearer("1")); err != nil {
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
# HELP fakeapi_ids Message ids by their state in the ledger.
# TYPE fakeapi_ids gauge
fakeapi_ids{state="duplicated"} 1
fakeapi_ids{state="excused"} 1
fakeapi_ids{state="expected"} 2
fakeapi_ids{state="inverted"} 0
fakeapi_ids{state="unexpected"} 0
# HELP fakeapi_messages_total Accepted messages; more than the accepted calls where several went out as one.
# TYPE fakeapi_messages_total counter
fakeapi_messages_total 2
# HELP fakeapi_pending Message ids that are expected and not accepted now.
# TYPE fakeapi_pending gauge
fakeapi_pending 1
# HELP fakeapi_sends_total Send API calls by their result.
# TYPE fakeapi_sends_total counter
fakeapi_sends_total{result="accepted"} 2
fakeapi_sends_total{result="action"} 1
fakeapi_sends_total{result="error"} 0
fakeapi_sends_total{result="refused"} 1
fakeapi_sends_total{result="rejected"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "fakeapi_ids", "fakeapi_messages_total", "fakeapi_pending", "fakeapi_sends_total"); err != nil {
		t.Error(err)
	}
	if got := a.Answers()["613"]; got != 1 {
		t.Errorf("answers of 613 = %d, want 1", got)
	}
}
