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
