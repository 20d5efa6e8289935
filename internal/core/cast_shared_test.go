package core

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/rooms"
	"chatclub/internal/rooms/roomstest"
)

// walk is time that passes only when the test says so: a database on a socket
// or a disk has no place in a bubble.
type walk struct{ ms atomic.Int64 }

func (w *walk) now() time.Time { return time.UnixMilli(w.ms.Load()) }

// walkingCore is a core whose caster does what a test tells it to.
type walkingCore struct {
	*rig
	ctx  context.Context
	die  context.CancelFunc
	dead atomic.Bool
}

func newWalkingCore(t *testing.T, url string, broker *memory.Broker, w *walk) *walkingCore {
	t.Helper()
	s, err := rooms.Open(rooms.Config{DatabaseURL: url, Now: w.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := &walkingCore{rig: newRigOn(t, broker, s)}
	c.core.cfg.Now = w.now
	c.ctx, c.die = context.WithCancel(t.Context())
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// walk does what run does in a tenth of a second.
func (c *walkingCore) walk(tick int) {
	if c.dead.Load() {
		return
	}
	if tick%10 == 0 {
		c.core.caster.look(c.ctx)
	}
	c.core.caster.beat(c.ctx, c.ctx)
}

// TestTwoCoresCast: two cores with a database each of their own access have 20
// broadcasts; one dies between the queue and the database. Each message comes
// once, but for those of the turns in which it died, and no broadcast is above
// its rate.
func TestTwoCoresCast(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { t.Helper(); return "sqlite:" + filepath.Join(t.TempDir(), "core.db") },
		"postgres": roomstest.DSN,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const people, casts, rate = 150, 20, 10
			w, broker, url := &walk{}, newBroker(t), database(t)
			w.ms.Store(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC).UnixMilli())
			a, b := newWalkingCore(t, url, broker, w), newWalkingCore(t, url, broker, w)
			for i := range people {
				ev := rooms.Event{Page: "p", User: fmt.Sprintf("u%03d", i), ID: fmt.Sprint(i), At: w.now()}
				if _, err := a.store.Receive(t.Context(), ev); err != nil {
					t.Fatal(err)
				}
			}
			for i := range casts {
				core := []*walkingCore{a, b}[i%2]
				core.cast(t, fmt.Sprintf(`{"page":"p","text":"x","id":"c%d","rate":%d}`, i, rate))
				core.core.caster.look(t.Context())
			}
			died := 0 // broadcasts in the turn in which a core died
			a.store.before = func(method string) error {
				if method == "advance" && w.now().Second() == 5 {
					a.dead.Store(true)
					a.die()
					return errors.New("killed")
				}
				return nil
			}
			a.flaky.before = func(_ context.Context, msgs []queue.Message) error {
				if w.now().Second() == 5 {
					died += len(msgs)
				}
				return nil
			}
			sub, err := broker.Consume(broker.Topology().Bulk(), queue.ConsumeOptions{Prefetch: 100_000})
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			heard := map[string]int{}
			for tick := range 300 {
				a.walk(tick)
				b.walk(tick + 5)
				for len(sub.Deliveries()) > 0 {
					d := <-sub.Deliveries()
					heard[d.ID]++
					if err := d.Ack(); err != nil {
						t.Fatal(err)
					}
				}
				if most := casts*(rate*(tick/10+2)+1) + died; len(heard) > most {
					t.Fatalf("messages after %d ms = %d, want at most %d", tick*100, len(heard), most)
				}
				w.ms.Add(100)
			}
			twice := 0
			for id, n := range heard {
				if n > 2 {
					t.Errorf("message %s came %d times, want twice at most", id, n)
				}
				twice += n - 1
			}
			if !a.dead.Load() || len(heard) != people*casts || twice != died {
				t.Errorf("messages = %d, twice = %d, want %d, and %d as the core that died had put there", len(heard), twice, people*casts, died)
			}
			if got := a.core.caster.held(); got != casts/2 {
				t.Errorf("broadcasts that the core held = %d, want its half", got)
			}
		})
	}
}
