package fleet

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
	"chatclub/loadtest/strategy"
)

// slow is a platform that answers after a second.
type slow struct{}

func (slow) Send(context.Context, message.Outbound) sender.Result {
	time.Sleep(time.Second)
	return sender.Result{Outcome: sender.Sent}
}

// watched is a strategy whose Run the test does.
type watched struct {
	strategy.Strategy
	run func(context.Context) error
}

func (w watched) Run(ctx context.Context) error { return w.run(ctx) }

// A strategy outlives its dispatcher's calls in flight, but not a kill. Without
// that it would go on to talk to Redis.
func TestStrategyEndsWithItsDispatcher(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		cause error
		want  time.Duration
	}{
		{"stopped", nil, 700 * time.Millisecond},
		{"killed", errKilled, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := openLocal(t, Options{}, 0)
				r, err := newRunner(t.Context(), Options{Strategy: "naive", Replicas: 1, Limit: 300}, parts{
					broker: l.broker, caller: slow{}, reg: prometheus.NewRegistry(), log: l.cfg.Log, fault: l.strategyFault,
				})
				if err != nil {
					t.Fatal(err)
				}
				var ended time.Time
				r.strategy = watched{r.strategy, func(ctx context.Context) error {
					<-ctx.Done()
					ended = time.Now()
					return nil
				}}
				ctx, cancel := context.WithCancelCause(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.run(ctx) }()
				time.Sleep(10 * time.Second)
				publish(t, l, 10, 50)
				time.Sleep(300 * time.Millisecond)
				begin := time.Now()
				cancel(row.cause)
				if err := <-done; err != nil {
					t.Errorf("run = %v, want nil", err)
				}
				if got := ended.Sub(begin); got != row.want {
					t.Errorf("the strategy ended after %v, want %v", got, row.want)
				}
				if errs := l.Errors(); len(errs) > 0 {
					t.Errorf("Errors() = %q, want none", errs)
				}
			})
		})
	}
}

// A strategy that ends by itself, and a Redis that is not there, are the run's
// faults; the log has them, too.
func TestStrategyFaultsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		f, err := OpenLocal(t.Context(), Config{
			Options:  Options{Strategy: "redis", Replicas: 1, Limit: 300, RedisURL: "redis://:secret@127.0.0.1:1"},
			Topology: queue.Topology{Prefix: "t", Partitions: 4}, Log: slog.New(slog.NewTextHandler(&logged, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		l := f.(*Local)
		if err := l.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		publish(t, l, 10, 50)
		time.Sleep(10 * time.Second)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // go-redis's own goroutines look once a second whether it is closed
		errs := strings.Join(l.Errors(), "\n")
		if !strings.Contains(errs, "the strategy of the dispatchers met ") || !strings.Contains(errs, "refused") || strings.Contains(errs, "secret") {
			t.Errorf("Errors() = %q, want the strategy's, without the password", errs)
		}
		if !strings.Contains(logged.String(), "ask Redis") {
			t.Errorf("log = %q, want the errors of Redis", logged.String())
		}
	})
}

func TestStrategyThatEndsByItselfIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := openLocal(t, Options{}, 0)
		r, err := newRunner(t.Context(), Options{Strategy: "naive", Replicas: 1, Limit: 300}, parts{
			broker: l.broker, caller: slow{}, reg: prometheus.NewRegistry(), log: l.cfg.Log, fault: l.strategyFault,
		})
		if err != nil {
			t.Fatal(err)
		}
		broken := errors.New("broken")
		r.strategy = watched{r.strategy, func(context.Context) error { return broken }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.run(ctx); !errors.Is(err, broken) {
			t.Errorf("run = %v, want the strategy's error", err)
		}
		if errs := l.Errors(); len(errs) != 1 || !strings.Contains(errs[0], "broken") {
			t.Errorf("Errors() = %q, want the strategy's", errs)
		}
	})
}

// A dispatcher that joins those configured is one of its own, and memory of this
// process is not said to be the dispatchers'.
func TestJoinedHasItsOwnIndex(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// One dispatcher is configured; it is killed, and the one that joined owns nothing.
		l := openLocal(t, Options{Strategy: "pinned", Replicas: 1}, 2)
		if err := l.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		publish(t, l, 100, 50)
		time.Sleep(10 * time.Second)
		if got := totals(t, l).Accepted; got != 0 {
			t.Errorf("sent by the second of one = %d, want 0", got)
		}
		u, err := l.Usage()
		if err != nil || u.Memory != nil || u.All == nil || !u.Whole {
			t.Errorf("Usage() = %+v, %v, want CPU time of the whole and no memory", u, err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
