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
		lane := r.top.Lane("page0", string(message.ClassText))
		refused := 0
		var lost queue.Subscription
		r.only().link.with(func(l *link) {
			l.dies = func(op, name string) bool {
				if op == "delete" && lost == nil {
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
		r.sleep(3 * time.Minute)
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

// A lane of which nobody knows whether it is deleted is deleted again, and not made
// anew: on a node that comes back later RabbitMQ would find the old queue under the
// new one's name. Its page goes on meanwhile, and so does the partition's other page.
func TestLaneIsDeletedUntilThatIsAnswered(t *testing.T) {
	t.Parallel()
	const silent = 30 * time.Second
	inBubble(t, 1, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		lane, other := r.top.Lane("page0", string(message.ClassText)), r.peers(2)[1]
		var until time.Time // the broker answers nothing about the lane
		asked, made := 0, 0
		r.only().link.with(func(l *link) {
			l.dies = func(op, name string) bool {
				r.with(func() {
					switch {
					case op == "delete" && until.IsZero():
						until = time.Now().Add(silent)
					case op == "delete":
						asked++
					case op == "declare" && name == lane && time.Now().Before(until):
						made++
					}
				})
				return false
			}
			l.refuse = func(name string) (err error) {
				r.with(func() {
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
		if len(r.laneQueues()) == 0 {
			t.Fatal("there was no lane: nothing is tested")
		}
		began := false
		for range 120 {
			if r.sleep(time.Second); began {
				break
			}
			r.with(func() { began = !until.IsZero() })
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
			if asked < 5 || made > 0 {
				t.Errorf("asked %d times to delete the lane, and %d times to make it before that was answered, want 5 at least and 0", asked, made)
			}
		})
		if w := quantile(r.waits(other), 1); w > 100*time.Millisecond {
			t.Errorf("the other page waited %v, want 100 ms at most", w)
		}
		r.inversions = nil // the price, of a page in excess
		r.checkSentOnce()
	})
}
