package broadcast

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/rooms"
	"chatclub/internal/rooms/roomstest"
)

// steppedClock is a clock that a test moves. A database on a socket or a disk
// does not work in a bubble.
type steppedClock struct{ ms atomic.Int64 }

func (c *steppedClock) Now() time.Time { return time.UnixMilli(c.ms.Load()) }

// steppedRig is a scheduler that a test steps.
type steppedRig struct {
	*rig
	ctx  context.Context
	die  context.CancelFunc
	dead atomic.Bool
	jobs []*job
}

func newSteppedRig(t *testing.T, url string, broker *memory.Broker, clock *steppedClock) *steppedRig {
	t.Helper()
	r := &steppedRig{rig: newRigOn(t, broker, newStore(t, url, clock.Now), clock.Now)}
	r.ctx, r.die = context.WithCancel(t.Context())
	return r
}

// claim does what Run does of claims.
func (r *steppedRig) claim() {
	begun, _ := r.scheduler.claim(r.ctx)
	r.jobs = append(r.jobs, begun...)
}

// step does the work of Run in a tenth of a second.
func (r *steppedRig) step(n int) {
	if r.dead.Load() {
		return
	}
	if n%10 == 0 {
		r.claim()
	}
	r.jobs = slices.DeleteFunc(r.jobs, func(j *job) bool {
		if r.dead.Load() || j.next.After(r.scheduler.cfg.Now()) || r.scheduler.round(r.ctx, r.ctx, j) {
			return false
		}
		r.scheduler.jobs.remove(j)
		return true
	})
}

// TestTwoSchedulers runs 20 broadcasts on two schedulers that share a database. One
// dies between the queue and the database. Each message comes once, except those
// of its last rounds, and no broadcast is above its rate. The short run has 8
// broadcasts to fewer users.
func TestTwoSchedulers(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { t.Helper(); return "sqlite:" + filepath.Join(t.TempDir(), "rooms.db") },
		"postgres": roomstest.DSN,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && name == "sqlite" {
				t.Skip("long: make test-long; the other tests run on SQLite, in memory")
			}
			const rate = 10
			people, broadcasts := 150, 20
			if testing.Short() {
				people, broadcasts = 80, 8 // still under way in second 5
			}
			clock, broker, url := &steppedClock{}, newBroker(t), database(t)
			clock.ms.Store(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC).UnixMilli())
			a, b := newSteppedRig(t, url, broker, clock), newSteppedRig(t, url, broker, clock)
			for i := range people {
				ev := rooms.Event{Page: "p", User: fmt.Sprintf("u%03d", i), ID: fmt.Sprint(i), At: clock.Now()}
				if _, err := a.db.Receive(t.Context(), ev); err != nil {
					t.Fatal(err)
				}
			}
			for i := range broadcasts {
				r := []*steppedRig{a, b}[i%2]
				r.add(t, rooms.Broadcast{ID: fmt.Sprint("b", i), Page: "p", Text: "x", Rate: rate, Deadline: clock.Now().Add(time.Hour)})
				r.claim()
			}
			again := 0 // messages of the rounds in which a died
			a.store.before = func(method string) error {
				if method == "advance" && clock.Now().Second() == 5 {
					a.dead.Store(true)
					a.die()
					return errors.New("killed")
				}
				return nil
			}
			a.flaky.before = func(msgs []queue.Message) error {
				if clock.Now().Second() == 5 {
					again += len(msgs)
				}
				return nil
			}
			sub, err := broker.Consume(broker.Topology().Outbound(0), queue.ConsumeOptions{Prefetch: 100_000})
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			came := map[string]int{}
			for n := range 300 {
				a.step(n)
				b.step(n + 5)
				for len(sub.Deliveries()) > 0 {
					d := <-sub.Deliveries()
					came[d.ID]++
					if err := d.Ack(); err != nil {
						t.Fatal(err)
					}
				}
				if most := broadcasts*(rate*(n/10+2)+1) + again; len(came) > most {
					t.Fatalf("messages after %d ms = %d, want at most %d", n*100, len(came), most)
				}
				clock.ms.Add(100)
			}
			twice := 0
			for id, n := range came {
				if n > 2 {
					t.Errorf("message %s came %d times, want twice at most", id, n)
				}
				twice += n - 1
			}
			if !a.dead.Load() || len(came) != people*broadcasts || twice != again {
				t.Errorf("messages = %d, twice = %d, want %d, and %d that the dead scheduler had queued", len(came), twice, people*broadcasts, again)
			}
			if got := len(a.jobs); got < broadcasts/2-1 || got > broadcasts/2 {
				t.Errorf("broadcasts of the dead scheduler = %d, want its half, but for one that it lost", got)
			}
		})
	}
}
