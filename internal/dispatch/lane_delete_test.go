package dispatch

import (
	"context"
	"fmt"
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

// slowDeleter is a broker that does not tell in time that it has deleted a lane, and
// then makes none for a while, as RabbitMQ does while it misses a node.
type slowDeleter struct {
	*link

	mu                  sync.Mutex
	unanswered          int // questions that it will not answer
	deleted, madeBefore int // how often it was asked to delete; and to make one before it answered that
}

func (s *slowDeleter) Delete(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted++; s.unanswered > 0 {
		s.unanswered--
		return fmt.Errorf("delete: %w", queue.ErrUnavailable)
	}
	return s.link.Delete(ctx, name)
}

// asked is how often it was asked to delete a lane.
func (s *slowDeleter) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleted
}

func (s *slowDeleter) Declare(ctx context.Context, spec queue.Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted > 0 && s.unanswered > 0 {
		s.madeBefore++
	}
	return s.link.Declare(ctx, spec)
}

// A lane of which nobody knows whether it is deleted is deleted again, and not made
// anew: on a node that comes back later RabbitMQ would find the old queue under the
// new one's name. Its page goes on meanwhile.
func TestLaneIsDeletedUntilThatIsAnswered(t *testing.T) {
	t.Parallel()
	const unanswered = 5
	s := &slowDeleter{unanswered: unanswered}
	inBubble(t, 1, func(c *Config) {
		c.Prefetch = 64
		s.link = c.Broker.(*link)
		c.Broker = s
	}, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		lane := r.top.Lane("page0", string(message.ClassText))
		for range 10 {
			r.text("page0", guests("h", 100)...)
		}
		r.sleep(30 * time.Second)
		if !slices.Contains(r.broker.Queues(), lane) {
			t.Fatal("there was no lane: nothing is tested")
		}
		for r.sleep(time.Second); s.asked() == 0; r.sleep(time.Second) {
		}
		for range 10 { // more than its page may send meanwhile
			r.text("page0", guests("h", 100)...)
		}
		r.sleep(3 * time.Minute)
		if slices.Contains(r.broker.Queues(), lane) {
			t.Error("the lane is still there, want it deleted")
		}
		if s.deleted < unanswered+1 || s.madeBefore > 0 {
			t.Errorf("deleted %d times, and made %d times before that was answered, want %d at least and 0", s.deleted, s.madeBefore, unanswered+1)
		}
		r.checkSentOnce()
	})
}
