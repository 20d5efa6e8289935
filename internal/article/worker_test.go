package article

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/sender"
)

// platform takes 100 ms for a call, and notes the calls. answer may be nil.
type platform struct {
	answer func(id string, n int) sender.Outcome // to the n-th call of a message, from 1

	mu    sync.Mutex
	tries map[string]int
	taken []string          // ids, in order
	busy  map[recipient]int // calls of each recipient
	most  int               // of one recipient
}

func (p *platform) Send(ctx context.Context, out message.Outbound) sender.Result {
	p.mu.Lock()
	if p.tries == nil {
		p.tries, p.busy = make(map[string]int), make(map[recipient]int)
	}
	r := recipient{out.Page, out.To}
	p.tries[out.ID]++
	p.busy[r]++
	p.most = max(p.most, p.busy[r])
	n := p.tries[out.ID]
	p.mu.Unlock()
	outcome := sender.Sent
	select {
	case <-time.After(100 * time.Millisecond):
		if p.answer != nil {
			outcome = p.answer(out.ID, n)
		}
	case <-ctx.Done():
		outcome = sender.Canceled
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy[r]--
	if outcome == sender.Sent {
		p.taken = append(p.taken, out.ID)
	}
	return sender.Result{Outcome: outcome, Latency: 100 * time.Millisecond}
}

// work runs a worker for so long. It starts with n messages to each of the recipients.
func work(t *testing.T, p *platform, length time.Duration, n int, to ...string) *memory.Broker {
	t.Helper()
	top := queue.Topology{Prefix: "t", Partitions: 1, WithShared: true}
	b := memorytest.New(t, top)
	for i := range n {
		for _, user := range to {
			o := message.Outbound{ID: fmt.Sprintf("1/m%d/%s", i, user), Page: "1", To: user, Class: message.ClassText, Text: "x", Time: time.Now().UnixMilli()}
			body, err := o.Encode()
			if err == nil {
				err = b.Publish(t.Context(), queue.Message{Queue: top.Shared(), ID: o.ID, Body: body})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	w := NewWorker(WorkerConfig{
		Broker: b, Caller: p, Strategy: New(nil), Log: slog.New(slog.DiscardHandler),
		Prefetch: 100, MaxInFlight: 10, MaxAttempts: 3, MessageTTL: time.Minute, ShutdownTimeout: 20 * time.Second,
	})
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	if err := w.Run(ctx); err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
	return b
}

// Messages to one recipient go one after another, in their order.
func TestWorkerKeepsOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(platform)
		b := work(t, p, 10*time.Second, 5, "a", "b", "c")
		if got := len(memorytest.Drain(t, b, b.Topology().Shared())); got != 0 {
			t.Errorf("messages left = %d, want none", got)
		}
		for _, user := range []string{"a", "b", "c"} {
			var own []string
			for _, id := range p.taken {
				if strings.HasSuffix(id, "/"+user) {
					own = append(own, id)
				}
			}
			if len(own) != 5 || !slices.IsSorted(own) {
				t.Errorf("sent to %s: %v, want its five in order", user, own)
			}
		}
		if p.most != 1 {
			t.Errorf("calls of one recipient at a time = %d, want 1", p.most)
		}
	})
}

// A refused message is tried again, and those behind it go round. What fails too often
// is dead.
func TestWorkerTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &platform{answer: func(id string, n int) sender.Outcome {
			switch {
			case strings.HasPrefix(id, "1/m0/a") && n < 4:
				return sender.PageThrottled
			case strings.HasSuffix(id, "/sick"):
				return sender.Transient
			}
			return sender.Sent
		}}
		b := work(t, p, 20*time.Second, 2, "a", "b", "sick")
		if got := slices.Sorted(slices.Values(p.taken)); !slices.Equal(got, []string{"1/m0/a", "1/m0/b", "1/m1/a", "1/m1/b"}) {
			t.Errorf("sent: %v, want all four that can be", got)
		}
		if n := p.tries["1/m0/a"]; n != 4 {
			t.Errorf("calls of the refused message = %d, want 4", n)
		}
		dead := memorytest.Drain(t, b, b.Topology().Dead())
		if len(dead) != 2 || p.tries["1/m0/sick"] != 3 || p.tries["1/m1/sick"] != 3 {
			t.Errorf("dead letters = %d after %v, want two after three calls each", len(dead), p.tries)
		}
	})
}

// At the end the calls in flight end, and everything else goes back.
func TestWorkerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(platform)
		begin := time.Now()
		b := work(t, p, 150*time.Millisecond, 20, "a", "b")
		if took := time.Since(begin); took < 200*time.Millisecond || took > 300*time.Millisecond {
			t.Errorf("Run() ended after %v, want when the second calls had, after 200 ms", took)
		}
		left := len(memorytest.Drain(t, b, b.Topology().Shared()))
		if len(p.taken) != 4 || left != 36 {
			t.Errorf("sent %v, and %d are left, want 4 and 36", p.taken, left)
		}
	})
}
