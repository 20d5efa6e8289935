package sender

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		started, release := make(chan struct{}), make(chan struct{})
		next := response(200, receipt)
		s := setup(t, func(c *Config) {
			c.Registerer = reg
			c.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
				started <- struct{}{}
				<-release
				time.Sleep(20 * time.Millisecond)
				return next, nil
			})
		})
		send := func(o message.Outbound) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.Send(t.Context(), o)
			}()
			<-started
			if got := testutil.ToFloat64(s.metrics.inFlight); got != 1 {
				t.Errorf("in flight = %v during a call, want 1", got)
			}
			release <- struct{}{}
			<-done
		}
		send(outbound())
		next = response(200, "{")
		send(outbound())
		next = response(200, `{"recipient_id":"42"}`)
		send(message.Outbound{ID: "a", Page: page, To: "42", Own: message.Own{SenderAction: "typing_on"}})
		next = response(400, envelope(613, 0, ""))
		send(outbound())
		next = response(400, envelope(190, 0, ""))
		send(outbound())
		unknown := outbound()
		unknown.Page = "77"
		s.Send(t.Context(), unknown) // no token: no call, no duration
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		s.Send(ended, outbound())

		want := `
# HELP chatclub_sender_calls_total Messages given to the Send API client, by outcome. No call was made for canceled ones, nor for those of a page without a token.
# TYPE chatclub_sender_calls_total counter
chatclub_sender_calls_total{outcome="ambiguous"} 0
chatclub_sender_calls_total{outcome="app_throttled"} 0
chatclub_sender_calls_total{outcome="bad_message"} 0
chatclub_sender_calls_total{outcome="canceled"} 1
chatclub_sender_calls_total{outcome="no_token"} 1
chatclub_sender_calls_total{outcome="not_allowed"} 0
chatclub_sender_calls_total{outcome="not_ours"} 0
chatclub_sender_calls_total{outcome="page_stopped"} 1
chatclub_sender_calls_total{outcome="page_stopped_for_a_time"} 0
chatclub_sender_calls_total{outcome="page_throttled"} 1
chatclub_sender_calls_total{outcome="recipient_gone"} 0
chatclub_sender_calls_total{outcome="recipient_throttled"} 0
chatclub_sender_calls_total{outcome="sent"} 3
chatclub_sender_calls_total{outcome="transient"} 0
chatclub_sender_calls_total{outcome="window_closed"} 0
# HELP chatclub_sender_in_flight Send API calls without an answer yet.
# TYPE chatclub_sender_in_flight gauge
chatclub_sender_in_flight 0
# HELP chatclub_sender_unreadable_receipts_total Messages that the Send API accepted without a readable message id.
# TYPE chatclub_sender_unreadable_receipts_total counter
chatclub_sender_unreadable_receipts_total 1
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "chatclub_sender_calls_total",
			"chatclub_sender_in_flight", "chatclub_sender_unreadable_receipts_total"); err != nil {
			t.Error(err)
		}
		wantDurations(t, reg, map[string]uint64{"ok": 3, "throttled": 1, "failed": 1}, 0.02)
	})
}

// wantDurations checks how many calls each class counts, all of the same length.
func wantDurations(t *testing.T, reg *prometheus.Registry, want map[string]uint64, each float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatalf("Gather: %v", err)
	}
	got := make(map[string]uint64)
	for _, f := range families {
		if f.GetName() != "chatclub_sender_call_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			h := m.GetHistogram()
			got[m.GetLabel()[0].GetValue()] = h.GetSampleCount()
			if diff := h.GetSampleSum() - each*float64(h.GetSampleCount()); diff > 1e-9 || diff < -1e-9 {
				t.Errorf("duration sum of %v = %v, want %v each", m.GetLabel(), h.GetSampleSum(), each)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("duration counts (-want +got):\n%s", diff)
	}
}

func TestMetricsLint(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	newMetrics(reg)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("GatherAndLint = %v, %v, want no problems", problems, err)
	}
}
