package demo

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/internal/app"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/service"
)

// TestOnRabbitMQ: dispatchers with connections of their own are killed, work the
// article's way and ours again, and nothing is lost.
func TestOnRabbitMQ(t *testing.T) {
	t.Parallel()
	url := rabbittest.URL(t)
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 2, WithShared: true}
	set := fakeapi.DefaultSettings()
	set.Latency = fakeapi.Latency{}
	api, err := fakeapi.New(fakeapi.Config{Settings: &set})
	if err != nil {
		t.Fatal(err)
	}
	connect := func(name string, metrics prometheus.Registerer) (queue.Broker, error) {
		return rabbit.Open(rabbit.Config{URLs: []string{url}, Topology: top, Name: name, Log: slog.New(slog.DiscardHandler), Registerer: metrics})
	}
	own, err := connect("core", prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	page := fakeapi.PageID(1)
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
		if err := rabbit.Delete(context.Background(), url, top); err != nil {
			t.Error(err)
		}
	})
	divert := &Divert{Broker: own}
	s := service.Defaults[app.DispatcherSettings]()
	s.GraphURL, s.JoinTexts, s.Prefetch = "http://fakeapi/v23.0", 1, 64
	crew := NewCrew(CrewConfig{
		Settings: s, Connect: connect, Platform: api.Transport(), Tokens: api,
		Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- crew.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
	if _, err := crew.Add(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	n := 0
	publish := func(count int) {
		t.Helper()
		for range count {
			n++
			m, id := newText(t, top, page, n)
			api.Ledger().Announce(page, id)
			if err := divert.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	by, forget := crew.NextSend(page, "")
	defer forget()
	publish(600)
	first := <-by
	next, forgetNext := crew.NextSend(page, first)
	defer forgetNext()
	if _, err := crew.Kill(first); err != nil {
		t.Fatal(err)
	}
	publish(20) // on a slow machine all others have been sent
	<-next

	divert.Set(true)
	if err := crew.Switch(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	stopMoving := beside(t, func(ctx context.Context) { divert.Gather(ctx) })
	publish(100)
	time.Sleep(time.Second)
	stopMoving()
	divert.Set(false)
	if err := crew.Switch(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	stopMoving = beside(t, divert.Forward)
	for end := time.Now().Add(time.Minute); api.Ledger().Pending() > 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	stopMoving()
	if c := api.Ledger().Totals(); c.Pending != 0 || c.Unexpected != 0 {
		t.Errorf("%d copies are missing, %d unexpected, want none", c.Pending, c.Unexpected)
	}
}
