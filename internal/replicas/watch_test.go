package replicas

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatch: a replica that hangs holds up one look, for as long as it may, and none
// after that; once it answers in time it is waited for again.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const wait, timeout = 200 * time.Millisecond, 2 * time.Second
		errTimeout := errors.New("time-out")
		var sick atomic.Int64 // how long its answer takes
		var asked atomic.Int64
		w := Watch[int64]{Wait: wait, Ask: func(ctx context.Context, r Replica) (int64, error) {
			n, took := asked.Add(1), time.Millisecond
			if r.URL == "sick" {
				took = time.Duration(sick.Load())
			}
			select {
			case <-time.After(min(took, timeout)):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			if took > timeout {
				return 0, errTimeout
			}
			return n, nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		list := []Replica{{URL: "quick"}, {URL: "sick"}}
		look := func(want time.Duration) Answer[int64] {
			t.Helper()
			began := time.Now()
			answers := w.Look(ctx, list)
			if took := time.Since(began); took != want {
				t.Errorf("a look took %v, want %v", took, want)
			}
			if a := answers[0]; a.Value == 0 || a.Err != nil || a.Late {
				t.Errorf("the quick one's answer = %+v, want one that has just come", a)
			}
			time.Sleep(time.Second - time.Since(began))
			return answers[len(answers)-1]
		}
		sick.Store(int64(time.Millisecond))
		before := look(time.Millisecond)
		sick.Store(int64(time.Hour))
		if got := look(wait); got.Value != before.Value || !got.Late {
			t.Errorf("answer of one that hangs = %+v, want the one before, %d, and that it is late", got, before.Value)
		}
		look(time.Millisecond)
		look(time.Millisecond) // the request has timed out, and another one runs
		if got := look(time.Millisecond); !errors.Is(got.Err, errTimeout) {
			t.Errorf("answer after the time-out = %+v, want its error", got)
		}
		sick.Store(int64(time.Millisecond))
		for range 3 { // the request that hung ends first
			look(time.Millisecond)
		}
		sick.Store(int64(wait / 2))
		if got := look(wait / 2); got.Err != nil || got.Late || got.Value == before.Value {
			t.Errorf("answer of one that is well again = %+v, want a new one, which was waited for", got)
		}
		list = list[:1]
		look(time.Millisecond)
		look(time.Millisecond)
		if len(w.known) != 1 {
			t.Errorf("%d replicas are kept, want 1: the other is gone", len(w.known))
		}
		list = append(list, Replica{URL: "sick"})
		sick.Store(int64(time.Hour))
		if got := w.Look(ctx, list)[1]; !errors.Is(got.Err, errSilent) || !got.Late {
			t.Errorf("answer of one that never answered = %+v, want an error, and that it is late", got)
		}
		stop()
		w.End()
	})
}
