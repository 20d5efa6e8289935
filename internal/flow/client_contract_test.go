package flow

import (
	"testing"

	"chatclub/internal/queue"
	"chatclub/internal/queue/queuetest"
)

// hubbed is a client that owns its hub.
type hubbed struct {
	*client
	close func()
}

func (h hubbed) Close() error {
	err := h.client.Close()
	h.close()
	return err
}

// What the dispatchers run on keeps the contract that RabbitMQ's client keeps.
func TestBrokerContract(t *testing.T) {
	t.Parallel()
	for name, capacity := range map[string]int{"without limit": 0, "with a capacity": 15_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queuetest.Run(t, queuetest.Options{Synctest: true}, func(t *testing.T, top queue.Topology) queue.Broker {
				t.Helper()
				h := newHub(t, top, capacity, func(queue.Message) {})
				closed := false
				return hubbed{h.connect(), func() {
					if !closed {
						closed = true
						h.close(t)
					}
				}}
			})
		})
	}
}
