package app

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/sender"
)

// refusedShare returns the part of the calls that was refused in some runs, because figures
// differ with the order of goroutines.
func refusedShare(t *testing.T, runs int, latency string, hints fakeapi.RetryAfter, usage bool) float64 {
	t.Helper()
	var accepted, refused int64
	for seed := range uint64(runs) {
		a, r := saturated(t, seed, latency, hints, usage)
		accepted, refused = accepted+a, refused+r
	}
	share := float64(refused) / float64(accepted+refused)
	t.Logf("%s, Retry-After %q, usage %t: %d accepted, %d refused, %.2f %%", latency, hints, usage, accepted, refused, 100*share)
	return share
}

// saturated has two dispatchers send to one page for a minute, whose limit is halved in
// the middle, and returns the fake's counts.
func saturated(t *testing.T, seed uint64, latency string, hints fakeapi.RetryAfter, usage bool) (accepted, refused int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := fakeapi.DefaultSettings()
		if err := s.Latency.UnmarshalText([]byte(latency)); err != nil {
			t.Fatal(err)
		}
		s.RetryAfter, s.UsageHeaders = hints, usage
		api, err := fakeapi.New(fakeapi.Config{Settings: &s, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		b := memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 4})
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		for i := range uint64(2) {
			var mu sync.Mutex
			rng := rand.New(rand.NewPCG(seed, i))
			send, err := sender.New(sender.Config{
				BaseURL: "http://fake/v23.0", Tokens: sender.StaticTokens(map[string]string{"1": "token-1"}), Transport: api.Transport(),
				MaxInFlight: 1024, CallTimeout: 10 * time.Second, Registerer: prometheus.NewRegistry(),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer send.Close()
			d, err := dispatch.New(dispatch.Config{
				Broker: b, Sender: send, Limits: func(string) message.Limits { return message.Limits{Text: 300, Media: 10} }, Log: slog.New(slog.DiscardHandler),
				Registerer: prometheus.NewRegistry(), MaxInFlight: 1024, JoinTexts: 1, MaxAttempts: 8, MessageTTL: time.Hour,
				ShutdownTimeout: 20 * time.Second,
				Random: func() float64 {
					mu.Lock()
					defer mu.Unlock()
					return rng.Float64()
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() { _ = d.Run(ctx) })
		}
		const messages = 25_000
		for i := range messages {
			o := message.Outbound{ID: fmt.Sprintf("1/m/%d", i), Page: "1", To: fmt.Sprint(i % 5000), Class: message.ClassText, Text: "x", Time: time.Now().UnixMilli()}
			body, err := o.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Publish(ctx, queue.Message{Queue: b.Topology().OutboundOf("1"), ID: o.ID, Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		if err := api.Patch([]byte(`{"text":{"per_second":150}}`)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		sum := api.Ledger().Totals()
		accepted, refused = sum.Accepted, sum.Refused
		time.Sleep(3 * time.Minute) // until all is sent
		if sum := api.Ledger().Totals(); sum.Accepted != messages || sum.Duplicated != 0 {
			t.Errorf("hints %q: %d of %d messages accepted, %d doubled", hints, sum.Accepted, messages, sum.Duplicated)
		}
		cancel()
		running.Wait()
	})
	return accepted, refused
}

// Where the platform tells how much of a limit is used, fewer of a page's calls are refused
// when its limit is halved. With Retry-After, too, nothing is lost.
func TestHintsAreObeyed(t *testing.T) {
	t.Parallel()
	for _, latency := range []string{"lognormal:700ms,1.9s", "lognormal:40ms,150ms"} {
		if !testing.Short() { // it takes many runs to see the difference
			const runs = 6
			without := refusedShare(t, runs, latency, fakeapi.NoRetryAfter, false)
			if with := refusedShare(t, runs, latency, fakeapi.NoRetryAfter, true); with >= without {
				t.Errorf("%s: %.2f %% of the calls refused with usage, want less than %.2f %%", latency, 100*with, 100*without)
			}
		}
		refusedShare(t, 1, latency, fakeapi.Seconds, true)
		refusedShare(t, 1, latency, fakeapi.Date, true)
	}
}
