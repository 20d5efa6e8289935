package rabbit_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// A broker that is lost and found has its queues: they are not declared again. A
// queue that nobody uses and somebody has deleted stays deleted.
func TestReconnectDeclaresNothing(t *testing.T) {
	t.Parallel()
	p, url := rabbittest.Wire(t)
	reg := prometheus.NewPedanticRegistry()
	b := open(t, rabbit.Config{
		URLs: []string{url}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}, Registerer: reg,
	})
	awaitReady(t, b)
	unused := b.Topology().Slots()[0]
	deleteQueue(t, unused)
	p.Cut()
	eventually(t, "both connections are made again", func() (string, bool) {
		sum := reconnects(t, reg)
		return fmt.Sprint(sum), sum >= 2
	})
	awaitReady(t, b)
	if _, err := b.Inspect(t.Context(), unused); !errors.Is(err, queue.ErrUnroutable) {
		t.Errorf("Inspect(a queue that is missing) = %v, want %v", err, queue.ErrUnroutable)
	}
	consume(t, b, unused, 1) // who uses it makes it again
	awaitQueued(t, b, unused, queue.Info{Consumers: 1})
}

// A node that does not answer is left by both connections, although nothing is
// published.
func TestBothConnectionsLeave(t *testing.T) {
	t.Parallel()
	p, url := rabbittest.Wire(t)
	var log logbook
	b := open(t, rabbit.Config{
		URLs: []string{url, rabbittest.URL(t)}, Heartbeat: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1},
	})
	awaitReady(t, b)
	p.Freeze()
	eventually(t, "the publishing connection is given up", func() (string, bool) {
		return log.String(), strings.Contains(log.String(), "broker does not answer on the other connection")
	})
	publish(t, b, b.Topology().Inbound(0), "a")
	awaitReady(t, b)
}

// reconnects returns the number of connections that were made after the first ones.
func reconnects(t *testing.T, reg *prometheus.Registry) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "chatclub_broker_reconnects_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}
