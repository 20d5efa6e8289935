package rabbit_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// patience bounds every wait for something that must happen: a reconnect takes
// up to 5 s of pause, and a restarted server tens of seconds on a busy machine.
const patience = 90 * time.Second

func TestMain(m *testing.M) { rabbittest.Main(m) }

// open opens a broker that is closed at the end of the test.
func open(t testing.TB, cfg rabbit.Config) *rabbit.Broker {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	b, err := rabbit.Open(cfg)
	if err != nil {
		t.Fatalf("Open() = %v, want nil", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
	})
	return b
}

// shared opens a ready broker on the shared server with queues of its own.
func shared(t testing.TB, reg prometheus.Registerer) *rabbit.Broker {
	t.Helper()
	b := open(t, rabbit.Config{
		URLs:       []string{rabbittest.URL(t)},
		Topology:   queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 2},
		Registerer: reg,
	})
	awaitReady(t, b)
	return b
}

func awaitReady(t testing.TB, b *rabbit.Broker) {
	t.Helper()
	eventually(t, "Ready() = nil", func() (string, bool) {
		err := b.Ready()
		if err != nil {
			return err.Error(), false
		}
		return "", true
	})
}

// eventually polls until done, and fails the test with the last state.
func eventually(t testing.TB, what string, done func() (state string, ok bool)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		state, ok := done()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s; last: %s", what, patience, state)
		}
		time.Sleep(10 * time.Millisecond) // a poll of another process
	}
}

func publish(t testing.TB, b queue.Broker, name string, ids ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, id := range ids {
		if err := b.Publish(ctx, queue.Message{Queue: name, ID: id, Body: []byte(id)}); err != nil {
			t.Fatalf("Publish(%q) = %v, want nil", id, err)
		}
	}
}

func consume(t testing.TB, b queue.Broker, name string, prefetch int) queue.Subscription {
	t.Helper()
	s, err := b.Consume(name, queue.ConsumeOptions{Prefetch: prefetch})
	if err != nil {
		t.Fatalf("Consume(%q) = %v, want nil", name, err)
	}
	return s
}

func receive(t testing.TB, s queue.Subscription) *queue.Delivery {
	t.Helper()
	select {
	case d, ok := <-s.Deliveries():
		if !ok {
			t.Fatal("Deliveries() is closed, want a delivery")
		}
		return d
	case <-time.After(patience):
		t.Fatalf("no delivery within %s", patience)
	}
	return nil
}

// logbook keeps what was logged.
type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
