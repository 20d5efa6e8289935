package partitions

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/metric"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

// watching is a replica that has a slot, consumes the partitions and answers.
func watching(t *testing.T, b *memory.Broker, slot, priority int, log *slog.Logger) (w *Watch, end func()) {
	t.Helper()
	names := b.Topology().Outbounds()
	w = NewWatch(b, names, log, metric.Set{Subsystem: "test", Registerer: prometheus.NewRegistry()})
	consume := func(name string, priority int) queue.Subscription {
		s, err := b.Consume(name, queue.ConsumeOptions{Prefetch: 10, Priority: priority})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	own := consume(b.Topology().CoreSlots()[slot], 0)
	w.follow(b.Topology().CoreSlots()[slot], own)
	subs := []queue.Subscription{own}
	for _, name := range names {
		s := consume(name, priority)
		subs = append(subs, s)
		go func() {
			for d := range s.Deliveries() {
				if !w.Take(d) {
					t.Errorf("received %q, want questions alone", d.ID)
				}
			}
		}()
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	return w, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		for _, s := range subs {
			_ = s.Close()
		}
	}
}

// A partition stands for all replicas once it is delivered to nobody that answers, and no
// longer once it is delivered again. Until then an error a minute names it.
func TestPartitionStands(t *testing.T) {
	t.Parallel()
	inBubble(t, 16, func(t *testing.T, b *memory.Broker) {
		var text strings.Builder
		one, endOne := watching(t, b, 0, 1, slog.New(slog.NewTextHandler(&text, nil)))
		two, endTwo := watching(t, b, 1, 2, slog.New(slog.DiscardHandler))
		time.Sleep(10 * time.Minute)
		if one.Ready() != nil || two.Ready() != nil {
			t.Fatalf("Ready() = %v, %v beside owners that answer, want nil", one.Ready(), two.Ready())
		}
		name := b.Topology().Outbound(3)
		gone, err := b.Consume(name, queue.ConsumeOptions{Prefetch: 10, Priority: 3}) // nobody reads it
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(16*probeEvery + standsAfter + 2*probeEvery)
		for _, w := range []*Watch{one, two} {
			if got := w.Standing(); !slices.Equal(got, []string{name}) || w.Ready() == nil || !strings.Contains(w.Ready().Error(), name) {
				t.Errorf("Standing() = %v, Ready() = %v, want %s", got, w.Ready(), name)
			}
		}
		time.Sleep(10 * time.Minute)
		_ = gone.Close()
		time.Sleep(time.Minute)
		if one.Ready() != nil || two.Ready() != nil {
			t.Errorf("Ready() = %v, %v once it is delivered again, want nil", one.Ready(), two.Ready())
		}
		endOne()
		endTwo()
		synctest.Wait()
		if n := strings.Count(text.String(), "level=ERROR"); n < 10 || n > 12 {
			t.Errorf("%d errors in ten minutes, want one a minute: %s", n, text.String())
		}
	})
}

// An owner that holds as much as it can gets no question, and its partition does not stand.
// One whose owner has never answered, maybe of a version before, is given five minutes, and makes
// nobody unready.
func TestFullPartitionDoesNotStand(t *testing.T) {
	t.Parallel()
	inBubble(t, 16, func(t *testing.T, b *memory.Broker) {
		for i, judged := range []bool{true, false} {
			full, err := b.Consume(b.Topology().Outbound(i), queue.ConsumeOptions{Prefetch: 1, Priority: 3})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = full.Close() }()
			if judged {
				put(t, b, b.Topology().Outbound(i), "held")
			}
		}
		w, end := watching(t, b, 0, 1, slog.New(slog.DiscardHandler))
		w.Saw(b.Topology().Outbound(0))
		time.Sleep(4 * time.Minute)
		if got := w.Standing(); len(got) > 0 {
			t.Errorf("Standing() = %v after 4 minutes, want none", got)
		}
		time.Sleep(3 * time.Minute)
		if got := w.Standing(); !slices.Equal(got, []string{b.Topology().Outbound(1)}) || w.Ready() != nil {
			t.Errorf("Standing() = %v, Ready() = %v, want the one that never answered, nil", got, w.Ready())
		}
		end()
	})
}

// A replica that has met another one on its slot takes a second slot. Answers that went to the
// first one say nothing of their partitions.
func TestAnswersToASlotBefore(t *testing.T) {
	t.Parallel()
	inBubble(t, 16, func(t *testing.T, b *memory.Broker) {
		slots := b.Topology().CoreSlots()
		other, err := b.Consume(slots[0], queue.ConsumeOptions{Prefetch: 100, Priority: 1}) // takes the answers
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Close() }()
		one, end := watching(t, b, 0, 1, slog.New(slog.DiscardHandler))
		for _, name := range b.Topology().Outbounds() {
			one.Saw(name)
		}
		_, endOwner := watching(t, b, 2, 2, slog.New(slog.DiscardHandler))
		time.Sleep(15 * time.Second)
		second, err := b.Consume(slots[1], queue.ConsumeOptions{Prefetch: 10})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = second.Close() }()
		one.follow(slots[1], second)
		time.Sleep(5 * time.Minute)
		if got := one.Standing(); len(got) > 0 {
			t.Errorf("Standing() = %v, want none: their owner answers", got)
		}
		end()
		endOwner()
	})
}
