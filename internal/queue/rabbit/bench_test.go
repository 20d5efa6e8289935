package rabbit_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// BenchmarkPublish publishes 2,000 messages of 300 bytes per round, by so many
// callers, so many messages a call. The first line is what waiting for each
// confirm costs.
func BenchmarkPublish(b *testing.B) {
	for _, c := range []struct{ window, callers, each int }{
		{512, 1, 1},
		{512, 1, 10},
		{512, 1, 100},
		{512, 16, 1},
		{512, 64, 1},
		{512, 8, 100},
		{64, 8, 100},
		{256, 8, 100},
		{1024, 8, 100},
		{2048, 8, 100},
	} {
		b.Run(fmt.Sprintf("window=%d/callers=%d/each=%d", c.window, c.callers, c.each), func(b *testing.B) {
			broker := open(b, rabbit.Config{
				URLs:     []string{rabbittest.URL(b)},
				Topology: queue.Topology{Prefix: rabbittest.Prefix(b), Partitions: 1},
				Window:   c.window,
				Log:      slog.New(slog.DiscardHandler),
			})
			awaitReady(b, broker)
			const round = 2000
			body := make([]byte, 300)
			for b.Loop() {
				var wg sync.WaitGroup
				for range c.callers {
					wg.Go(func() {
						for range round / c.callers / c.each {
							msgs := make([]queue.Message, c.each)
							for i := range msgs {
								msgs[i] = queue.Message{Queue: broker.Topology().Inbound(0), ID: "page/mid/recipient", Body: body}
							}
							if err := broker.Publish(b.Context(), msgs...); err != nil {
								b.Errorf("Publish(%d messages) = %v, want nil", len(msgs), err)
							}
						}
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.N)*round/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}

// BenchmarkConsume receives and acknowledges one message per round.
func BenchmarkConsume(b *testing.B) {
	broker := shared(b, nil)
	name := broker.Topology().Inbound(0)
	msgs := make([]queue.Message, 5000)
	for i := range msgs {
		msgs[i] = queue.Message{Queue: name, ID: "page/mid/recipient", Body: make([]byte, 300)}
	}
	s := consume(b, broker, name, 256)
	left := 0
	for b.Loop() {
		if left == 0 {
			b.StopTimer()
			if err := broker.Publish(b.Context(), msgs...); err != nil {
				b.Fatalf("Publish(%d messages) = %v, want nil", len(msgs), err)
			}
			left = len(msgs)
			b.StartTimer()
		}
		left--
		if err := receive(b, s).Ack(); err != nil {
			b.Fatalf("Ack() = %v, want nil", err)
		}
	}
}
