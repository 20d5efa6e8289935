package transfer_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/transfer"
)

// wholeBroker is the name by which set makes all of a broker silent.
const wholeBroker = ""

// Ready implements queue.Broker.
func (l *leaderless) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down[wholeBroker]
}

// While the broker is silent nothing is published. What comes back from its queue
// by then is let go; the rest is moved once, when the broker answers again.
func TestSilentBrokerMovesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, slog.New(slog.DiscardHandler))
		good := r.queue("good")
		r.broker.set(wholeBroker, queue.ErrUnavailable)
		r.move("1", good)
		r.move("2", good)
		time.Sleep(time.Minute)
		r.check("published while the broker was silent", r.broker.tried(good))
		if err := r.sub.Close(); err != nil {
			t.Fatal(err)
		}
		r.broker.set(wholeBroker, nil)
		time.Sleep(time.Second)
		r.check("published of what came back", r.broker.tried(good))
		if got := r.state("1"); got != transfer.Stale {
			t.Errorf("state of what came back = %d, want stale", got)
		}

		r.consume(r.top.Outbound(1))
		r.broker.set(wholeBroker, queue.ErrUnavailable)
		r.move("3", good)
		time.Sleep(time.Minute)
		r.broker.set(wholeBroker, nil)
		time.Sleep(time.Second)
		r.check("published when the broker answered again", r.broker.tried(good), "3")
	})
}

// A mover that is to end does not wait for ever for a silent broker.
func TestSilentBrokerAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, slog.New(slog.DiscardHandler))
		r.broker.set(wholeBroker, queue.ErrUnavailable)
		r.move("1", r.queue("good"))
		r.End()
		time.Sleep(time.Minute)
		r.cancel()
		<-r.done
		if got := r.state("1"); got != transfer.Failed {
			t.Errorf("state = %d, want failed: it stays on its queue", got)
		}
	})
}
