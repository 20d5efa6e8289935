package fleet

import (
	"errors"
	"sync"
	"testing"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/queuetest"
)

// alone is a connection with a broker of its own.
type alone struct {
	*connection
	close func() error
}

func (a alone) Close() error { return errors.Join(a.connection.Close(), a.close()) }

// A broker behind a network keeps the contract that RabbitMQ's client keeps.
func TestNetworkKeepsTheBrokersContract(t *testing.T) {
	t.Parallel()
	for name, capacity := range map[string]int{"without limit": 0, "with a capacity": 15_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queuetest.Run(t, queuetest.Options{Synctest: true}, func(t *testing.T, top queue.Topology) queue.Broker {
				t.Helper()
				inner, err := memory.New(top)
				if err != nil {
					t.Fatal(err)
				}
				n := newNetwork(Network{Hop: 300 * time.Microsecond, Capacity: capacity}, inner)
				return alone{n.connect(), sync.OnceValue(func() error {
					err := inner.Close()
					n.close()
					return err
				})}
			})
		})
	}
}
