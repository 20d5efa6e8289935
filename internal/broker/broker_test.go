package broker_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/broker"
	"chatclub/internal/queue"
	"chatclub/internal/service"
)

// Open takes the addresses and the queues of the settings. Nothing listens on
// the address: it does not wait for the broker.
func TestOpen(t *testing.T) {
	t.Parallel()
	s := service.BrokerSettings{
		AMQPURL: "amqp://127.0.0.1:1/", QueueSettings: service.QueueSettings{Prefix: "p", Lanes: 3},
	}
	b, err := broker.Open(s, "test", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.Topology(), (queue.Topology{Prefix: "p", Lanes: 3}); got != want {
		t.Errorf("Topology() = %+v, want %+v", got, want)
	}
	if err := b.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	s.AMQPURL = ""
	if b, err := broker.Open(s, "test", slog.New(slog.DiscardHandler), prometheus.NewRegistry()); err == nil {
		t.Errorf("Open() without an address = nil, want an error")
		_ = b.Close()
	}
}

// closing is a broker that notes its end.
type closing struct {
	queue.Broker
	closed bool
	err    error
}

func (c *closing) Close() error {
	c.closed = true
	return c.err
}

func TestActorClosesInItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := errors.New("stuck")
		b := &closing{err: stuck}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- broker.Actor(b).Run(ctx) }()
		synctest.Wait()
		if b.closed {
			t.Error("the broker is closed before the actor is stopped")
		}
		cancel()
		if err := <-ended; !errors.Is(err, stuck) || !b.closed {
			t.Errorf("Run() = %v, closed %t, want Close's error", err, b.closed)
		}
	})
}
