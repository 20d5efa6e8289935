package core

import (
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// TestNoPage checks that events without a page do not wait for those of another partition.
func TestNoPage(t *testing.T) {
	p := newPages(8, 8)
	add := func(q, page string) {
		p.add(inbound{delivery: &queue.Delivery{Message: queue.Message{Queue: q}}, event: message.Event{Page: page}})
	}
	add("a", "x")
	add("a", "y")
	for range 2 {
		if in, ok := p.next(); !ok || in.delivery.Queue != "a" {
			t.Fatal(in)
		}
	}
	add("a", "") // undecodable, on the partition that is full
	add("b", "") // the same on another one
	got := make(chan string, 1)
	go func() {
		if in, ok := p.next(); ok {
			got <- in.delivery.Queue
		}
	}()
	select {
	case q := <-got:
		t.Log(q)
	case <-time.After(10 * time.Second):
		t.Error("an event without a page on partition b waits for partition a")
	}
	p.close()
}
