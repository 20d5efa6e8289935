package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/console"
	"chatclub/internal/dispatch"
	"chatclub/internal/queue"
)

// metricsPort is an admin port with /metrics, whose counters grow by a thousand each
// time, and GET /pages.
func metricsPort(t *testing.T, status any, format string) *httptest.Server {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/metrics":
			_, _ = io.WriteString(w, strings.ReplaceAll(format, "N", fmt.Sprint(1000*asked.Add(1))))
		case r.Header.Get("Authorization") == "Bearer word":
			_ = json.NewEncoder(w).Encode(status)
		default:
			http.Error(w, "a token is needed", http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

const dispatcherMetrics = `# TYPE chatclub_dispatch_sent_total counter
chatclub_dispatch_sent_total N
# TYPE chatclub_dispatch_in_flight gauge
chatclub_dispatch_in_flight 7
# TYPE chatclub_dispatch_calls_limit gauge
chatclub_dispatch_calls_limit 4096
# TYPE chatclub_dispatch_pages_suspended gauge
chatclub_dispatch_pages_suspended 1
# TYPE chatclub_dispatch_dead_total counter
chatclub_dispatch_dead_total{reason="gone"} 5
chatclub_dispatch_dead_total{reason="expired"} 6
# TYPE chatclub_dispatch_message_age_seconds histogram
chatclub_dispatch_message_age_seconds_bucket{le="0.5"} 0
chatclub_dispatch_message_age_seconds_bucket{le="1"} N
chatclub_dispatch_message_age_seconds_bucket{le="+Inf"} N
chatclub_dispatch_message_age_seconds_sum N
chatclub_dispatch_message_age_seconds_count N
`

// TestTop: what all replicas do is added up. One that hangs is named, and the rest is
// shown as if it were not there.
func TestTop(t *testing.T) {
	t.Parallel()
	excess := at(10)
	a := metricsPort(t, dispatch.Status{InFlight: 7, Limit: 4096, Partitions: []int{1, 2}, Pages: []dispatch.PageStatus{
		{Page: "2", Class: "text", Since: &excess, Limit: 300, Pace: 294.5, Waiting: 512},
	}}, dispatcherMetrics)
	b := metricsPort(t, dispatch.Status{Suspended: []dispatch.SuspendedPage{{Page: "3", Code: "190"}}}, dispatcherMetrics)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	webhook := metricsPort(t, nil, "# TYPE chatclub_webhook_events_total counter\nchatclub_webhook_events_total{kind=\"message\"} N\n")
	core := metricsPort(t, nil, "# TYPE chatclub_core_copies_total counter\nchatclub_core_copies_total N\n")
	environ := map[string]string{
		"ADMIN_TOKEN": "word", "DISPATCHERS": a.URL + "," + hangs.URL + "," + b.URL, "WEBHOOK": webhook.URL, "CORE": core.URL,
	}
	name := strings.TrimPrefix(hangs.URL, "http://")

	out, err := call(t, environ, "top", "-json")
	if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), a.URL) {
		t.Errorf("top -json = %v, want an error that names %s alone", err, name)
	}
	var v topView
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("top -json prints %s: %v", out, err)
	}
	for what, n := range map[string]float64{"events": v.Events, "copies": v.Copies, "sent": v.Sent} {
		if n <= 0 { // how many a second depends on the machine
			t.Errorf("%s a second = %g, want more than none", what, n)
		}
	}
	if v.Dead != 0 || v.Refused != 0 || v.InFlight != 14 || v.Limit != 8192 || v.Suspended != 2 || v.AgeP95 == nil || *v.AgeP95 != 0.975 {
		t.Errorf("top -json prints %s, want 14 calls of 8192, 2 pages suspended, and 95 %% sent within 0.975 s", out)
	}
	if p := v.Programs[2]; p.Name != "dispatcher" || p.Up != 2 || p.Of != 3 || p.Silent[name] == "" {
		t.Errorf("dispatchers = %+v, want 2 of 3, and why %s is not", p, name)
	}

	out, err = call(t, environ, "top")
	if err == nil {
		t.Error("top = nil, want an error about the one that hangs")
	}
	lines := fields(out)
	owner := strings.TrimPrefix(a.URL, "http://")
	for _, want := range []string{
		name + " no answer - - - - -",
		owner + " running 0 7 4096 2 1",
		"2 excess 294.5 300 0 0 512 0s " + owner + " 2026-01-02T10:00:00Z",
		"3 suspended (190) - 0 0 0 0 0s - -",
		"pages 0 in excess 2 suspended 0 sick",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("top prints\n%s\nwant a line %q", out, want)
		}
	}
}

// TestTopFits checks that what an operator looks for is not cut off on 80 columns,
// also when letters of an hour ago are sent again.
func TestTopFits(t *testing.T) {
	t.Parallel()
	excess, age := at(10), 3599.6
	v := topView{AgeP95: &age, Pages: []console.Page{{
		ID: "100013411476001", State: "excess", Owner: "127.0.0.1:31104", Since: &excess,
		Pace: 294.5, Limit: 300, Sent: 292, Refused: 2, Waiting: 16384, Delay: 288.4,
	}}}
	var out strings.Builder
	v.print(&out)
	_, pages, _ := strings.Cut(out.String(), "\nPAGE")
	for _, want := range []string{"WAITING", "DELAY", "16384", "4m48s"} {
		if !slices.ContainsFunc(strings.Split("PAGE"+pages, "\n"), func(line string) bool {
			return strings.Contains(line[:min(len(line), 80)], want)
		}) {
			t.Errorf("top prints\n%s\nwant %q within 80 columns", out.String(), want)
		}
	}
	if want := "p95 age 1h0m0s\n"; !strings.Contains(out.String(), want) {
		t.Errorf("top prints\n%s\nwant %q", out.String(), want)
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for s, want := range map[float64]string{0: "0s", 0.0124: "12ms", 0.92: "920ms", 2.14: "2.1s", 9.99: "10s", 12.3: "12s", 288.4: "4m48s"} {
		if got := seconds(s); got != want {
			t.Errorf("seconds(%g) = %s, want %s", s, got, want)
		}
	}
}

// fakeQueues has a message on each queue, and five on one.
type fakeQueues struct {
	top  queue.Topology
	five string
}

func (f fakeQueues) Topology() queue.Topology { return f.top }

func (f fakeQueues) Inspect(_ context.Context, name string) (queue.Info, error) {
	switch {
	case name == f.five:
		return queue.Info{Ready: 5}, nil
	case f.top.Has(name) || name == f.top.Lane("2", "text"):
		return queue.Info{Ready: 1}, nil
	}
	return queue.Info{}, queue.ErrUnroutable
}

func TestDepths(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: "x", Partitions: 4}
	q := newQueueWatch(fakeQueues{top, top.Outbound(2)}, patience)
	defer q.watch.End()
	got, err := q.look(t.Context(), []string{top.Lane("2", "text"), top.Lane("9", "text")})
	want := depths{Inbound: 1, Overflow: 4, Partitions: 8, Deepest: "x.outbound.02", Lanes: 1, Retry: 3, Dead: 1}
	if err != nil || *got != want {
		t.Errorf("look() = %+v, %v, want %+v", got, err, want)
	}
	more := newQueueWatch(otherPrefix{fakeQueues{top, ""}}, patience)
	defer more.watch.End()
	if _, err := more.look(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "QUEUE_PREFIX") {
		t.Errorf("look() with another prefix = %v, want an error that names QUEUE_PREFIX", err)
	}
}

// otherPrefix is asked for queues that are not there.
type otherPrefix struct{ fakeQueues }

func (otherPrefix) Topology() queue.Topology { return queue.Topology{Prefix: "y", Partitions: 4} }

func TestGrowth(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	sent := func(n float64) *scrape {
		now = now.Add(2 * time.Second)
		return &scrape{at: now, values: map[string]float64{messagesSent: n}}
	}
	var g growth
	first := sent(100)
	for _, step := range []struct {
		see  *scrape
		want float64
	}{
		{first, 0}, {first, 0}, {sent(150), 25}, {sent(30), 15}, // it began anew
	} {
		if g.see(step.see); g.of(messagesSent) != step.want {
			t.Errorf("growth after %g = %g, want %g", step.see.values[messagesSent], g.of(messagesSent), step.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for _, tc := range []struct {
		cumulative map[float64]float64
		want       float64
	}{
		{map[float64]float64{}, math.NaN()},
		{map[float64]float64{1: 0, inf: 0}, math.NaN()},
		{map[float64]float64{1: 90, 2: 100, inf: 100}, 1.5},
		{map[float64]float64{1: 100, 2: 100, inf: 100}, 0.95},
		{map[float64]float64{1: 10, 2: 20, inf: 100}, 2},
	} {
		if got := quantile(0.95, tc.cumulative); got != tc.want && !(math.IsNaN(got) && math.IsNaN(tc.want)) {
			t.Errorf("quantile(0.95, %v) = %g, want %g", tc.cumulative, got, tc.want)
		}
	}
}
