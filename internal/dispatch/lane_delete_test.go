package dispatch

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// A lane that a lost connection still consumes is not deleted, which is no warning.
// It is once the broker has given that connection up, and nothing is lost.
func TestLaneInUseIsDeletedLater(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var warnings []string
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, strings.TrimSpace(string(p)))
	}), &slog.HandlerOptions{Level: slog.LevelWarn}))
	inBubble(t, 1, func(c *Config) { c.Prefetch, c.Log = 64, log }, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		refused := 0
		var lost queue.Subscription
		var lane string
		r.only().link.with(func(l *link) {
			l.dies = func(op, name string) bool {
				if op == "delete" && lost == nil {
					lane = name
					var err error
					if lost, err = r.broker.Consume(lane, queue.ConsumeOptions{Prefetch: 1}); err != nil {
						t.Errorf("Consume(%s) = %v, want nil", name, err)
					}
					refused++
				}
				return false
			}
		})
		for range 10 {
			r.text("page0", guests("h", 100)...)
		}
		r.sleep(2 * time.Minute)
		if refused != 1 || !slices.Contains(r.broker.Queues(), lane) {
			t.Fatalf("refused %d times, lanes %v, want once, and that the lane is there", refused, r.broker.Queues())
		}
		if err := lost.Close(); err != nil {
			t.Fatal(err)
		}
		r.text("page0", guests("h", 100)...)
		r.sleep(5 * time.Minute)
		if slices.Contains(r.broker.Queues(), lane) {
			t.Error("the lane is still there, want it deleted")
		}
		r.checkSentOnce()
		mu.Lock()
		defer mu.Unlock()
		if len(warnings) > 0 {
			t.Errorf("warnings: %q, want none", warnings)
		}
	})
}

// A lane of which nobody knows whether it is deleted is deleted later, and never made
// again: on a node that comes back RabbitMQ would find the old queue under the new one's
// name. Its page has another one meanwhile, and the partition's other page notices
// nothing.
func TestLaneIsDeletedUntilThatIsAnswered(t *testing.T) {
	t.Parallel()
	const silent = 30 * time.Second
	inBubble(t, 1, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		other := r.peers(2)[1]
		var lane string
		var until time.Time // the broker answers nothing about the lane
		asked := 0
		made := make(map[string]int)
		r.only().link.with(func(l *link) {
			l.refuse = func(op, name string) (err error) {
				r.with(func() {
					switch {
					case op == "delete" && lane == "":
						lane, until = name, time.Now().Add(silent)
					case op == "delete" && name == lane:
						asked++
					case op == "declare" && r.isLane(name, "page0", message.ClassText):
						made[name]++
					}
					if name == lane && time.Now().Before(until) {
						err = queue.ErrUnavailable
					}
				})
				return err
			}
		})
		for range 10 {
			r.text("page0", guests("h", 100)...)
		}
		r.sleep(30 * time.Second)
		r.laneOf("page0", message.ClassText)
		began := false
		for range 120 {
			if r.sleep(time.Second); began {
				break
			}
			r.with(func() { began = lane != "" })
		}
		if !began {
			t.Fatal("the lane was not deleted: nothing is tested")
		}
		for i := range 10 { // more than its page may send meanwhile
			r.text("page0", guests("h", 500)...)
			r.text(other, guests("c", 10*(i+1))[10*i:]...)
			r.sleep(time.Second)
		}
		r.sleep(3 * time.Minute)
		if left := r.laneQueues(); len(left) > 0 {
			t.Errorf("lanes %v are still there, want none", left)
		}
		r.with(func() {
			if asked == 0 || len(made) != 2 {
				t.Errorf("asked %d times more to delete the lane, want once at least, and made %v, want two lanes", asked, made)
			}
			for name, n := range made {
				if n != 1 {
					t.Errorf("%s was made %d times, want once", name, n)
				}
			}
		})
		if w := quantile(r.waits(other), 1); w > 100*time.Millisecond {
			t.Errorf("the other page waited %v, want 100 ms at most", w)
		}
		r.checkSentOnce()
	})
}
