package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/loadtest/judge"
)

// openLocal is a fleet in this process with so many dispatchers.
func openLocal(t *testing.T, o Options, n int) *Local {
	t.Helper()
	if o.Limit == 0 {
		o.Limit = 300
	}
	f, err := OpenLocal(t.Context(), Config{Options: o, Topology: queue.Topology{Prefix: "t", Partitions: 4}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l := f.(*Local)
	for range n {
		if err := l.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// publish publishes messages of so many pages.
func publish(t *testing.T, l *Local, n, pages int) {
	t.Helper()
	for i := range n {
		out := message.Outbound{
			ID: fmt.Sprint(1000+i%pages, "/m/", i), Page: strconv.Itoa(1000 + i%pages), To: strconv.Itoa(100_000 + i),
			Class: message.ClassText, Text: "hello", Time: time.Now().UnixMilli(),
		}
		encode := message.Outbound.Encode
		if l.cfg.Options.Strategy == Bare {
			encode = BareBody
		}
		body, err := encode(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Broker().Publish(t.Context(), queue.Message{
			Queue: l.cfg.Options.Queue(l.broker.Topology(), out.Page), ID: out.ID, Body: body,
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// totals is what the platform has seen.
func totals(t *testing.T, l *Local) ledger.Counts {
	t.Helper()
	j, err := judge.New(l.Platform().URL, l.Platform().Transport)
	if err != nil {
		t.Fatal(err)
	}
	c, err := j.Totals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Kill does not wait for the dispatcher. Neither broker nor platform sees
// anything of what it does until it has ended, which is soon. pinned gives
// half of the messages back, and naive all that are refused keep waiting; the
// bare loop gives back what is refused.
func TestKilledIsSilentAtOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pinned", "article", "chatclub", "naive", Bare} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := openLocal(t, Options{Strategy: name, Replicas: 2, Limit: 5}, 1)
				defer func() {
					if err := l.Close(context.Background()); err != nil {
						t.Error(err)
					}
				}()
				j, err := judge.New(l.Platform().URL, l.Platform().Transport)
				if err != nil {
					t.Fatal(err)
				}
				if err := j.Control(t.Context(), map[string]any{"text": map[string]any{"per_second": 5}, "latency": "fixed:40ms"}); err != nil {
					t.Fatal(err)
				}
				pages := 50
				if testing.Short() {
					pages = 10
				}
				publish(t, l, 60*pages, pages)
				time.Sleep(3817 * time.Millisecond) // the second's quota is used up, calls are in flight
				synctest.Wait()
				if totals(t, l).Accepted == 0 {
					t.Fatal("nothing was sent before the kill")
				}

				begin := time.Now()
				if err := l.Kill(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took != 0 {
					t.Errorf("Kill took %v, want no time", took)
				}
				operations, calls := l.broker.Operations(), totals(t, l)
				time.Sleep(time.Second)
				begin = time.Now()
				if err := l.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took != 0 {
					t.Errorf("Stop a second later took %v, want no time: the killed one must have ended", took)
				}
				if got := l.broker.Operations(); got != operations {
					t.Errorf("operations of the broker after Kill = %d, want 0", got-operations)
				}
				if got := totals(t, l); got != calls {
					t.Errorf("calls after Kill: %+v, want none after %+v", got, calls)
				}
				if errs := l.Errors(); len(errs) > 0 {
					t.Errorf("Errors() = %q, want none", errs)
				}
			})
		})
	}
}

// The oldest is killed, the second oldest leaves, and the last may do either.
func TestTake(t *testing.T) {
	t.Parallel()
	running := []int{0, 1, 2, 3}
	for _, step := range []struct{ place, want int }{{oldest, 0}, {second, 2}, {oldest, 1}, {second, 3}} {
		if got, err := take(&running, step.place); err != nil || got != step.want {
			t.Errorf("take(%d) = %d, %v, want %d", step.place, got, err, step.want)
		}
	}
	if _, err := take(&running, oldest); err == nil {
		t.Error("take of none = nil error, want one")
	}
}
