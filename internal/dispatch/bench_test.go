package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/sender"
)

// instant is a platform that accepts every call at once, and makes a place for
// another message.
type instant chan struct{}

func (i instant) Send(context.Context, message.Outbound) sender.Result {
	<-i
	return sender.Result{Outcome: sender.Sent, Latency: time.Millisecond}
}

// What a message costs from its delivery to its acknowledgement, without the
// broker's and the call's own part: with all of some thousand on their way.
func BenchmarkDispatch(b *testing.B) {
	const pages, people, partitions = 200, 100, 64
	broker := memorytest.New(b, queue.Topology{Prefix: "t", Partitions: partitions})
	msgs := make([]queue.Message, pages*people)
	for i := range msgs {
		page := fmt.Sprintf("page-%d", i%pages)
		out := message.Outbound{
			ID: fmt.Sprintf("%s/m_%d/7", page, i), Page: page, To: fmt.Sprintf("person-%d", i/pages), Class: message.ClassText,
			Text: "A line of a conversation, about as long as most.", Time: time.Now().UnixMilli(),
		}
		body, err := out.Encode()
		if err != nil {
			b.Fatal(err)
		}
		msgs[i] = queue.Message{Queue: broker.Topology().OutboundOf(page), ID: out.ID, Body: body}
	}
	api := make(instant, partitions*MinPrefetch*8)
	d, err := New(Config{
		Broker: broker, Sender: api, Limit: message.Limits{Text: 1e6, Media: 10}.Of,
		Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		MaxInFlight: 64, MaxAttempts: 8, MessageTTL: 24 * time.Hour, ShutdownTimeout: 20 * time.Second,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	publish := func(m queue.Message) {
		api <- struct{}{}
		if err := broker.Publish(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
	for range 2 { // by then every partition has an owner
		for _, m := range msgs {
			publish(m)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		publish(msgs[i%len(msgs)])
	}
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
