package console

import (
	"testing"

	"chatclub/internal/queue"
	"chatclub/internal/replicas"
)

// TestIdleOnce: a queue that has no consumer at one look is on its way to the next one. It is
// shown at the second look.
func TestIdleOnce(t *testing.T) {
	t.Parallel()
	idle := replicas.BrokerHealth{Census: queue.Census{Idle: []queue.Idle{{Queue: "x.outbound.01", Ready: 3}}}}
	var h health
	for i, row := range []struct {
		says replicas.BrokerHealth
		want int
	}{{idle, 0}, {idle, 1}, {replicas.BrokerHealth{}, 0}, {idle, 0}} {
		if h.hear(row.says); len(h.broker.Idle) != row.want {
			t.Errorf("queues without a consumer after look %d = %v, want %d", i, h.broker.Idle, row.want)
		}
	}
}
