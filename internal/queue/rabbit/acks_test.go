package rabbit_test

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// TestAcksTogether: whatever the order of settlements, exactly what was
// acknowledged is gone, and the channel lives to the end: RabbitMQ closes one
// that acknowledges a tag twice.
func TestAcksTogether(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			var log logbook
			reg := prometheus.NewRegistry()
			b := open(t, rabbit.Config{
				URLs: []string{rabbittest.URL(t)}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1},
				Registerer: reg, Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			awaitReady(t, b)
			settleSome(t, b, rand.New(rand.NewPCG(seed, 0)), 300)
			if s := log.String(); strings.Contains(s, "subscription lost") {
				t.Errorf("the channel was closed: %s", s)
			}
			want := `
# HELP chatclub_broker_settled_total Deliveries settled.
# TYPE chatclub_broker_settled_total counter
chatclub_broker_settled_total 560
`
			if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "chatclub_broker_settled_total"); err != nil {
				t.Error(err)
			}
		})
	}
}

// settleSome settles most of n messages in an order that is now near and now far from the
// queue's, closes once the broker has delivered another one for each, and checks that these
// and the rest are there.
func settleSome(t *testing.T, b queue.Broker, random *rand.Rand, n int) {
	t.Helper()
	name := b.Topology().Inbound(0)
	left := make(map[string]bool)
	var msgs []queue.Message
	for i := range n + n - 40 {
		id := fmt.Sprint(i)
		msgs, left[id] = append(msgs, queue.Message{Queue: name, ID: id}), true
	}
	if err := b.Publish(t.Context(), msgs...); err != nil {
		t.Fatal(err)
	}
	s := consume(t, b, name, n)
	held := make([]*queue.Delivery, n)
	for i := range held {
		held[i] = receive(t, s)
	}
	far := n / 3 // the first third stays near the queue's order
	for i := range held {
		reach := 5
		if i >= far {
			reach = n - i
		}
		k := i + random.IntN(min(reach, n-i))
		held[i], held[k] = held[k], held[i]
	}
	for _, d := range held[:n-40] {
		delete(left, d.ID)
		if err := d.Ack(); err != nil {
			t.Fatalf("Ack(%s) = %v, want nil", d.ID, err)
		}
	}
	for range n - 40 { // each in the place of one that was acknowledged
		receive(t, s)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := consume(t, b, name, n)
	defer again.Close()
	for range len(left) {
		d := receive(t, again)
		if !left[d.ID] {
			t.Errorf("%s came again, want what was not acknowledged", d.ID)
		}
		delete(left, d.ID)
		if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("lost: %v", slices.Sorted(maps.Keys(left)))
	}
}

// TestAckDoesNotWaitForOthers: one acknowledgement alone reaches the broker,
// which delivers the next message for it.
func TestAckDoesNotWaitForOthers(t *testing.T) {
	t.Parallel()
	b := shared(t, nil)
	name := b.Topology().Inbound(0)
	publish(t, b, name, strings.Split("abcdefghijklmnopq", "")...)
	s := consume(t, b, name, 16) // four may wait
	defer s.Close()
	first := receive(t, s)
	for range 15 {
		receive(t, s)
	}
	if err := first.Ack(); err != nil {
		t.Fatal(err)
	}
	if d := receive(t, s); d.ID != "q" {
		t.Errorf("received %q, want the next message, q", d.ID)
	}
}
