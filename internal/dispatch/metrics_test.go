package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// half is a random number that is always the same.
func half() float64 { return 0.5 }

// slowGate lets a page have so many messages a second.
func slowGate(limit float64) *excess.Map {
	return excess.New(excess.Config{Limit: func(string) float64 { return limit }, LaneHold: 512, Random: half}, time.Now())
}

// Every decision once, and what is counted of it.
func TestEveryDecisionIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := map[string][]sender.Outcome{ // of each page's calls in turn; then sent
			"hot":     {sender.PageThrottled, sender.PageThrottled, sender.PageThrottled},
			"app":     {sender.AppThrottled},
			"flaky":   {sender.Transient, sender.RecipientThrottled},
			"stopped": {sender.PageStopped},
			"gone":    {sender.RecipientGone},
		}
		a := &api{latency: 40 * time.Millisecond}
		a.answer = func(out message.Outbound, _ int) sender.Outcome {
			a.mu.Lock()
			defer a.mu.Unlock()
			if rest := script[out.Page]; len(rest) > 0 {
				script[out.Page] = rest[1:]
				return rest[0]
			}
			return sender.Sent
		}
		r := start(t, a, func(c *Config) { c.Random, c.Gate = half, slowGate(300) })
		time.Sleep(5 * time.Second) // an owner's first two seconds, and the replica's, are over
		for _, page := range []string{"plain", "hot", "app", "flaky", "stopped", "gone"} {
			r.publish(t, msg(page, "u", 1))
			time.Sleep(10 * time.Second)
		}
		old := msg("plain", "u", 2)
		old.Time = time.Now().Add(-2 * time.Hour).UnixMilli()
		r.publish(t, old, msg("stopped", "u", 2))
		time.Sleep(time.Hour)
		r.publish(t, msg("stopped", "u", 3))
		time.Sleep(time.Minute)
		synctest.Wait()

		want := `
			# TYPE chatclub_dispatch_dead_total counter
			chatclub_dispatch_dead_total{reason="ambiguous"} 0
			chatclub_dispatch_dead_total{reason="bad_message"} 0
			chatclub_dispatch_dead_total{reason="exhausted"} 0
			chatclub_dispatch_dead_total{reason="expired"} 1
			chatclub_dispatch_dead_total{reason="gone"} 1
			chatclub_dispatch_dead_total{reason="not_ours"} 0
			chatclub_dispatch_dead_total{reason="page_stopped"} 2
			chatclub_dispatch_dead_total{reason="undecodable"} 0
			chatclub_dispatch_dead_total{reason="window_closed"} 0
			# TYPE chatclub_dispatch_given_back_total counter
			chatclub_dispatch_given_back_total 0
			# TYPE chatclub_dispatch_held_messages gauge
			chatclub_dispatch_held_messages 0
			# TYPE chatclub_dispatch_in_flight_calls gauge
			chatclub_dispatch_in_flight_calls 0
			# TYPE chatclub_dispatch_in_flight_limit gauge
			chatclub_dispatch_in_flight_limit 64
			# TYPE chatclub_dispatch_lanes_given_up_total counter
			chatclub_dispatch_lanes_given_up_total{reason="overloaded"} 0
			chatclub_dispatch_lanes_given_up_total{reason="stuck"} 0
			# TYPE chatclub_dispatch_lanes_owned gauge
			chatclub_dispatch_lanes_owned 0
			# TYPE chatclub_dispatch_overflowed_total counter
			chatclub_dispatch_overflowed_total 1
			# TYPE chatclub_dispatch_pages_in_excess gauge
			chatclub_dispatch_pages_in_excess 0
			# TYPE chatclub_dispatch_pages_owned gauge
			chatclub_dispatch_pages_owned 0
			# TYPE chatclub_dispatch_pages_stopped gauge
			chatclub_dispatch_pages_stopped 0
			# TYPE chatclub_dispatch_probes_total counter
			chatclub_dispatch_probes_total{kind="api"} 1
			chatclub_dispatch_probes_total{kind="page"} 1
			chatclub_dispatch_probes_total{kind="stopped"} 1
			# TYPE chatclub_dispatch_refused_app_total counter
			chatclub_dispatch_refused_app_total 1
			# TYPE chatclub_dispatch_refused_total counter
			chatclub_dispatch_refused_total 3
			# TYPE chatclub_dispatch_retries_total counter
			chatclub_dispatch_retries_total{outcome="recipient_throttled"} 1
			chatclub_dispatch_retries_total{outcome="transient"} 1
			# TYPE chatclub_dispatch_sent_total counter
			chatclub_dispatch_sent_total 5
			# TYPE chatclub_dispatch_stale_total counter
			chatclub_dispatch_stale_total 0
			# TYPE chatclub_dispatch_waiting_messages gauge
			chatclub_dispatch_waiting_messages 0
		`
		if diff := cmp.Diff(samplesOf(want), r.counted(t)); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
		r.stop(t)
	})
}

// samplesOf are the samples of an exposition, without comments.
func samplesOf(text string) (samples []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			samples = append(samples, line)
		}
	}
	return samples
}

// counted are the registry's counters and gauges.
func (r *rig) counted(t *testing.T) (samples []string) {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetHistogram() != nil {
				continue
			}
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += fmt.Sprintf("{%s=%q}", l.GetName(), l.GetValue())
			}
			samples = append(samples, fmt.Sprint(name, " ", m.GetCounter().GetValue()+m.GetGauge().GetValue()))
		}
	}
	return samples
}

// observed is the number and the sum of what a histogram has seen, the sum to
// a millisecond.
func (r *rig) observed(t *testing.T, name, label string) (n uint64, sum time.Duration) {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				h := m.GetHistogram()
				return h.GetSampleCount(), time.Duration(h.GetSampleSum() * float64(time.Second)).Round(time.Millisecond)
			}
		}
	}
	t.Fatalf("no metric %s %s", name, label)
	return 0, 0
}

// The age of what is taken from each queue.
func TestQueueAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &api{}, nil)
		time.Sleep(3 * time.Second)
		aged := func(n int, age time.Duration) message.Outbound {
			m := msg(fmt.Sprint("p", n), "u", n)
			m.Time = time.Now().Add(-age).UnixMilli()
			return m
		}
		top := r.broker.Topology()
		r.publishTo(t, top.Outbound(), aged(1, time.Second), aged(2, 2*time.Second))
		r.publishTo(t, top.Bulk(), aged(3, 20*time.Second))
		r.publishTo(t, top.Lane(0), aged(4, 5*time.Second))
		time.Sleep(time.Second)
		for _, row := range []struct {
			queue string
			n     uint64
			sum   time.Duration
		}{{"outbound", 2, 3 * time.Second}, {"bulk", 1, 20 * time.Second}, {"lane", 1, 5 * time.Second}} {
			if n, sum := r.observed(t, "chatclub_dispatch_queue_age_seconds", row.queue); n != row.n || sum != row.sum {
				t.Errorf("queue age of %s = %d of %v together, want %d of %v", row.queue, n, sum, row.n, row.sum)
			}
		}
		r.stop(t)
	})
}

// An owner that has a free call is on time; one that has none is as late as
// the call that it waits for.
func TestPaceError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		call := callerFunc(func(_ context.Context, out message.Outbound) sender.Result {
			if out.Page == "slow" {
				time.Sleep(time.Second)
			}
			return sender.Result{Outcome: sender.Sent}
		})
		r := start(t, call, func(c *Config) { c.MaxInFlight, c.Random, c.Gate = 1, half, slowGate(10/0.98) })
		time.Sleep(3 * time.Second)
		lane := r.broker.Topology().Lane(0)
		// Every 100 ms one is due; the first after half of that.
		r.publishTo(t, lane, msg("p", "a", 1), msg("p", "b", 2), msg("p", "c", 3))
		time.Sleep(time.Second)
		if n, sum := r.observed(t, "chatclub_dispatch_pace_error_seconds", ""); n != 3 || sum != 0 {
			t.Errorf("pace errors with a free call = %d of %v together, want 3 of 0", n, sum)
		}
		r.publishTo(t, lane, msg("p", "d", 4), msg("p", "e", 5))
		time.Sleep(20 * time.Millisecond)
		r.publish(t, msg("slow", "s", 6)) // takes the only call for a second, 80 ms before the next is due
		time.Sleep(5 * time.Second)
		if n, sum := r.observed(t, "chatclub_dispatch_pace_error_seconds", ""); n != 4 || sum != 920*time.Millisecond {
			t.Errorf("pace errors beside a call of a second = %d of %v together, want 4 of 920ms", n, sum)
		}
		r.stop(t)
	})
}

// GET /pages tells of a page in excess what its owner does with it.
func TestPagesListsWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &api{latency: time.Second}, func(c *Config) { c.Random, c.Gate = half, slowGate(10/0.98) })
		time.Sleep(3 * time.Second)
		for i := range 50 {
			r.publishTo(t, r.broker.Topology().Lane(0), msg("p", fmt.Sprint("u", i), i))
		}
		time.Sleep(1100 * time.Millisecond)
		w := httptest.NewRecorder()
		r.PagesHandler().ServeHTTP(w, httptest.NewRequest("GET", "/pages", nil))
		var got struct {
			Busy    []BusyPage
			Stopped []SuspendedPage
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		// Due at 50, 150, … 1050 ms; the first has been answered.
		since := time.Now().Add(-1100 * time.Millisecond)
		want := []BusyPage{{Page: "p", Class: "text", State: "owner", Since: &since, Pace: 10, Waiting: 39, InFlight: 10}}
		if diff := cmp.Diff(want, got.Busy); diff != "" {
			t.Errorf("busy (-want +got):\n%s", diff)
		}
		if got := testutil.ToFloat64(r.metrics.inFlight); got != 10 {
			t.Errorf("in_flight_calls = %v, want 10", got)
		}
		r.stop(t)
	})
}

// The probe of a suspended page is not spent by a message that has to wait: it
// comes from the page's lane, whose owner waits before its first message.
func TestProbeOfAStoppedPageMayHaveToWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stopped atomic.Bool
		stopped.Store(true)
		a := &api{answer: func(message.Outbound, int) sender.Outcome {
			if stopped.Load() {
				return sender.PageStopped
			}
			return sender.Sent
		}}
		r := start(t, a, func(c *Config) { c.Random, c.Gate = half, slowGate(10) })
		time.Sleep(3 * time.Second)
		r.publish(t, msg("p", "a", 1))
		time.Sleep(31 * time.Minute)
		stopped.Store(false)
		probe := msg("p", "b", 2)
		r.publishTo(t, r.broker.Topology().Lane(0), probe)
		time.Sleep(time.Second)
		if got := a.callsFor(probe.ID); got != 1 {
			t.Errorf("calls for the probe = %d, want 1", got)
		}
		if got := testutil.ToFloat64(r.metrics.probes[probeSuspended]); got != 1 {
			t.Errorf("probes of suspended pages = %v, want 1", got)
		}
		r.stop(t)
	})
}
