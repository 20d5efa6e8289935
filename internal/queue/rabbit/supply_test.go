package rabbit_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// supplied is a broker behind a proxy that can lose deliveries.
func supplied(t *testing.T) (*rabbit.Broker, *proxy, *logbook) {
	t.Helper()
	p, log := newProxy(t, rabbittest.URL(t)), new(logbook)
	b := open(t, rabbit.Config{
		URLs: []string{p.url}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 2},
		SupplyTimeout: 300 * time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	awaitReady(t, b)
	return b, p, log
}

// loseOne has the deliveries of so many consumers of a queue lost.
func loseOne(p *proxy, name string, consumers int32) (lost *atomic.Int32) {
	lost = new(atomic.Int32)
	p.swallow(func(key string) bool { return key == name && lost.Add(1) <= consumers })
	return lost
}

func ids(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

// TestStarvedConsumer loses what is delivered to a consumer, as a broker does that
// believes it delivered. More is ready than the prefetch.
func TestStarvedConsumer(t *testing.T) {
	t.Parallel()
	b, p, log := supplied(t)
	name := b.Topology().Inbound()
	loseOne(p, name, 1)
	s := consume(t, b, name, 4)
	publish(t, b, name, ids(6)...)
	got := make(map[string]bool)
	for len(got) < 6 {
		d := receive(t, s)
		got[d.ID] = true
		if err := d.Ack(); err != nil {
			t.Errorf("Ack() = %v, want nil", err)
		}
	}
	if text := log.String(); !strings.Contains(text, `level=WARN msg="subscription made anew" queue=`+name) {
		t.Errorf("the log is %s, want a warning that names the queue", text)
	}
	if err := b.Ready(); err != nil {
		t.Errorf("Ready() = %v, want nil", err)
	}
}

// TestStarvedAgain has three consumers of a queue in a row get nothing.
func TestStarvedAgain(t *testing.T) {
	t.Parallel()
	b, p, _ := supplied(t)
	name := b.Topology().Inbound()
	loseOne(p, name, 3)
	s := consume(t, b, name, 1)
	publish(t, b, name, ids(2)...)
	eventually(t, "Ready() names the queue", func() (string, bool) {
		text := fmt.Sprint(b.Ready())
		return text, strings.Contains(text, fmt.Sprintf("queue %q: messages are ready and none is delivered", name))
	})
	for range 2 {
		if err := receive(t, s).Ack(); err != nil {
			t.Errorf("Ack() = %v, want nil", err)
		}
	}
	if err := b.Ready(); err != nil {
		t.Errorf("Ready() = %v, want nil", err)
	}
}
