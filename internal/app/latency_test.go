package app

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// batches takes calls by the batch: none is answered before all of a batch wait. Each
// fifth took a second, by what it says.
type batches struct {
	size, of int

	mu    sync.Mutex
	taken int
	full  chan struct{} // closed once the batch that is taken now is
	done  chan struct{} // closed once all of them are
}

func (b *batches) Send(ctx context.Context, _ message.Outbound) sender.Result {
	b.mu.Lock()
	b.taken++
	n, full := b.taken, b.full
	if n%b.size == 0 {
		close(full)
		b.full = make(chan struct{})
	}
	if n == b.size*b.of { // no call is doubled
		close(b.done)
	}
	b.mu.Unlock()
	select {
	case <-full:
	case <-ctx.Done():
	}
	r := sender.Result{Outcome: sender.Sent, Latency: time.Millisecond}
	if n%5 == 0 {
		r.Latency = time.Second
	}
	return r
}

func (*batches) Ask(context.Context, string) sender.Result {
	return sender.Result{Outcome: sender.Sent}
}

func (b *batches) Reach(context.Context) error { return nil }

// TestLatencySettings: after 128 calls, 64 at a time and a fifth of them slow, as many may be
// in flight as LATENCY_TARGET and the settings beside it say.
func TestLatencySettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		settings []string
		want     float64
	}{
		{"none", nil, 64},
		{"a target", []string{"LATENCY_TARGET", "500ms"}, 57},
		{"a target that is met", []string{"LATENCY_TARGET", "2s"}, 64},
		{"a percentile that is met", []string{"LATENCY_TARGET", "500ms", "LATENCY_PERCENTILE", "70"}, 64},
		{"a cut by half", []string{"LATENCY_TARGET", "500ms", "LATENCY_BACKOFF", "0.5"}, 32},
		{"the fewest", []string{"LATENCY_TARGET", "500ms", "LATENCY_BACKOFF", "0.5", "MIN_IN_FLIGHT", "40"}, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, opt := given(t)
			opt.Registry = prometheus.NewRegistry()
			calls := &batches{size: 64, of: 2, full: make(chan struct{}), done: make(chan struct{})}
			d, err := NewDispatcher(t.Context(), DispatcherConfig{
				Settings: load[DispatcherSettings](t, append(c.settings, "PAGES_FILE", "given", "MAX_IN_FLIGHT", "64")...), Options: opt,
				Sender: calls,
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range calls.size * calls.of {
				o := message.Outbound{ID: fmt.Sprint("m", i), Page: fmt.Sprint("page", i), To: "7", Class: message.ClassText, Text: "hi", Time: time.Now().UnixMilli()}
				body, err := o.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if err := b.Publish(t.Context(), queue.Message{Queue: b.Topology().OutboundOf(o.Page), ID: o.ID, Body: body}); err != nil {
					t.Fatal(err)
				}
			}
			running := run(t, d)
			<-calls.done
			if err := running.stop(); err != nil {
				t.Fatal(err)
			}
			families, err := opt.Registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := -1.0
			for _, f := range families {
				if f.GetName() == "chatclub_dispatch_calls_limit" {
					got = f.GetMetric()[0].GetGauge().GetValue()
				}
			}
			if got != c.want {
				t.Errorf("calls that may be in flight = %g, want %g", got, c.want)
			}
		})
	}
}
