package queuetest

import (
	"fmt"

	"chatclub/internal/queue"
)

func streamCases() []testCase {
	return []testCase{
		{"a stream is delivered whole to every consumer", streamToAll},
		{"a stream goes on beyond the prefetch as it is acknowledged", streamPrefetch},
	}
}

// wantAll receives the stream's messages, acknowledges each, and compares their ids.
func (e env) wantAll(s queue.Subscription, ids ...string) {
	e.Helper()
	for i, want := range ids {
		d := e.receive(s)
		if d.ID != want || string(d.Body) != want {
			e.Fatalf("message %d of the stream is %q with body %q, want %q", i, d.ID, d.Body, want)
		}
		e.ack(d)
	}
}

func streamToAll(e env) {
	name := e.top.Orders()
	e.publish(name, "1", "2")
	first := e.consume(name, 10)
	e.wantAll(first, "1", "2")
	second := e.consume(name, 10)
	e.publish(name, "3")
	e.wantAll(first, "3")
	e.wantAll(second, "1", "2", "3")
	e.close(first)
	e.wantAll(e.consume(name, 10), "1", "2", "3")
}

func streamPrefetch(e env) {
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprint(i))
	}
	e.publish(e.top.Orders(), ids...)
	e.wantAll(e.consume(e.top.Orders(), 3), ids...)
}
