package queuetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/queue"
)

func publishCases() []testCase {
	return []testCase{
		{"message arrives whole and in order", wholeAndInOrder},
		{"large, empty and bare messages", extremeMessages},
		{"every queue of the topology exists", everyQueue},
		{"unroutable is named, the others arrive", unroutable},
		{"an error tells which messages are queued", whichAreQueued},
		{"invalid is refused, and all with it", invalid},
		{"equal ids in flight are told apart", equalIDs},
		{"publishing nothing succeeds", publishNothing},
		{"ended context", endedContext},
		{"many publishers and consumers", manyAtOnce},
	}
}

func wholeAndInOrder(e env) {
	const n = 50
	msgs := make([]queue.Message, n)
	for i := range msgs {
		msgs[i] = queue.Message{
			Queue:   e.plain(),
			ID:      fmt.Sprintf("page/mid/%d", i),
			Body:    fmt.Appendf(nil, `{"n":%d,"text":"żółw 🐢"}`, i),
			Headers: map[string]string{"chatclub-reason": "gone", "empty": "", "n": fmt.Sprint(i)},
		}
	}
	if err := e.broker.Publish(e.Context(), msgs...); err != nil {
		e.Fatalf("Publish(%d messages) = %v, want nil", n, err)
	}
	s := e.consume(e.plain(), n)
	for i, want := range msgs {
		d := e.receive(s)
		if diff := cmp.Diff(want, d.Message); diff != "" {
			e.Errorf("delivery %d differs (-published +received):\n%s", i, diff)
		}
		if d.Redelivered {
			e.Errorf("delivery %d: Redelivered = true, want false", i)
		}
		if !d.Live() {
			e.Errorf("delivery %d: Live() = false, want true", i)
		}
		e.ack(d)
		if d.Live() {
			e.Errorf("delivery %d: Live() = true after Ack, want false", i)
		}
	}
}

func extremeMessages(e env) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB, many frames
	want := []queue.Message{
		{Queue: e.plain(), ID: "big", Body: big},
		{Queue: e.plain(), ID: "empty", Body: []byte{}, Headers: map[string]string{}},
		{Queue: e.plain(), ID: strings.Repeat("i", 255), Body: nil},
	}
	if err := e.broker.Publish(e.Context(), want...); err != nil {
		e.Fatalf("Publish(3 messages) = %v, want nil", err)
	}
	s := e.consume(e.plain(), 3)
	for _, w := range want {
		d := e.receive(s)
		if d.ID != w.ID || !bytes.Equal(d.Body, w.Body) || len(d.Headers) != 0 {
			e.Errorf("received id %.10q with %d bytes and %d headers, want id %.10q with %d bytes and 0 headers",
				d.ID, len(d.Body), len(d.Headers), w.ID, len(w.Body))
		}
		e.ack(d)
	}
}

func everyQueue(e env) {
	for _, spec := range e.top.Specs() {
		if spec.Delay > 0 { // the cases of delays show these
			continue
		}
		e.publish(spec.Name, "for "+spec.Name)
		s := e.consume(spec.Name, 1)
		d := e.receive(s)
		if d.ID != "for "+spec.Name || d.Queue != spec.Name {
			e.Errorf("received %q from %q, want %q from %q", d.ID, d.Queue, "for "+spec.Name, spec.Name)
		}
		e.ack(d)
	}
}

func unroutable(e env) {
	missing := e.top.Prefix + ".no-such-queue"
	err := e.broker.Publish(e.Context(),
		queue.Message{Queue: e.plain(), ID: "a", Body: []byte("a")},
		queue.Message{Queue: missing, ID: "lost", Body: []byte("secret text")},
		queue.Message{Queue: e.plain(), ID: "b", Body: []byte("b")},
	)
	if !errors.Is(err, queue.ErrUnroutable) {
		e.Fatalf("Publish(to a missing queue) = %v, want %v", err, queue.ErrUnroutable)
	}
	if errors.Is(err, queue.ErrUnavailable) {
		e.Errorf("Publish(to a missing queue) = %v, which is also %v", err, queue.ErrUnavailable)
	}
	if !strings.Contains(err.Error(), missing) {
		e.Errorf("error %q does not name the queue %q", err, missing)
	}
	if strings.Contains(err.Error(), "secret text") {
		e.Errorf("error %q holds the message's text", err)
	}
	e.ack(e.receiveIDs(e.consume(e.plain(), 5), "a", "b")...)
	e.awaitInfo(e.plain(), queue.Info{Consumers: 1})
}

func whichAreQueued(e env) {
	missing := e.top.Prefix + ".no-such-queue"
	err := e.broker.Publish(e.Context(),
		queue.Message{Queue: e.plain(), ID: "a"},
		queue.Message{Queue: missing, ID: "b"},
		queue.Message{Queue: e.plain(), ID: "c"},
	)
	some, ok := errors.AsType[*queue.PublishError](err)
	if !ok || len(some.Errs) != 3 {
		e.Fatalf("Publish(to a missing queue) = %v, want a PublishError of 3 messages", err)
	}
	if some.Errs[0] != nil || !errors.Is(some.Errs[1], queue.ErrUnroutable) || some.Errs[2] != nil {
		e.Errorf("errors = %v, want %v of the second alone", some.Errs, queue.ErrUnroutable)
	}
}

func invalid(e env) {
	for what, bad := range map[string]queue.Message{
		"no id":             {Queue: e.plain()},
		"id too long":       {Queue: e.plain(), ID: strings.Repeat("i", 256)},
		"headers too large": {Queue: e.plain(), ID: "b", Headers: map[string]string{"h": strings.Repeat("x", 4000)}},
	} {
		good := queue.Message{Queue: e.plain(), ID: "a"}
		if err := e.broker.Publish(e.Context(), good, bad); !errors.Is(err, queue.ErrInvalid) {
			e.Errorf("Publish(message with %s) = %v, want %v", what, err, queue.ErrInvalid)
		}
	}
	e.publish(e.plain(), "after")
	e.ack(e.receiveIDs(e.consume(e.plain(), 5), "after")...)
}

func equalIDs(e env) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 50 {
		good, missing := i%2 == 0, e.top.Prefix+".no-such-queue"
		wg.Go(func() {
			m := queue.Message{Queue: e.plain(), ID: "same"}
			if !good {
				m.Queue = missing
			}
			err := e.broker.Publish(e.Context(), m)
			if good && err != nil {
				e.Errorf("Publish(%q to %q) = %v, want nil", m.ID, m.Queue, err)
			}
			if !good && !errors.Is(err, queue.ErrUnroutable) {
				e.Errorf("Publish(%q to %q) = %v, want %v", m.ID, m.Queue, err, queue.ErrUnroutable)
			}
		})
	}
}

func publishNothing(e env) {
	if err := e.broker.Publish(e.Context()); err != nil {
		e.Errorf("Publish() = %v, want nil", err)
	}
}

func endedContext(e env) {
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	err := e.broker.Publish(ctx, queue.Message{Queue: e.plain(), ID: "late"})
	if !errors.Is(err, queue.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		e.Errorf("Publish(cancelled context) = %v, want %v and %v", err, queue.ErrUnavailable, context.Canceled)
	}
	if _, err := e.broker.Inspect(ctx, e.plain()); err != nil && !errors.Is(err, context.Canceled) {
		e.Errorf("Inspect(cancelled context) = %v, want nil or %v", err, context.Canceled)
	}
}

// manyAtOnce: 8 publishers and 4 consumers share a queue; every message
// arrives once, and each publisher's own messages arrive at each consumer in
// the order they were published.
func manyAtOnce(e env) {
	const publishers, consumers, each, batch = 8, 4, 60, 7
	ctx, cancel := context.WithTimeout(e.Context(), 3*patience)
	defer cancel()
	var mu sync.Mutex
	seen := make(map[string]int)
	enough := make(chan struct{})
	var wg sync.WaitGroup
	for range consumers {
		s := e.consume(e.plain(), 16)
		wg.Go(func() {
			next := make(map[byte]int)
			for {
				var d *queue.Delivery
				select {
				case d = <-s.Deliveries():
				case <-enough:
					return
				case <-ctx.Done():
					return
				}
				who, n := d.ID[0], 0
				if _, err := fmt.Sscanf(d.ID[1:], "-%d", &n); err != nil || n < next[who] {
					e.Errorf("received %q, want number %d or later of that publisher (%v)", d.ID, next[who], err)
				}
				next[who] = n + 1
				if err := d.Ack(); err != nil {
					e.Errorf("Ack(%q) = %v, want nil", d.ID, err)
				}
				mu.Lock()
				seen[d.ID]++
				if len(seen) == publishers*each && seen[d.ID] == 1 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	for p := range publishers {
		wg.Go(func() { e.publishAll(ctx, byte('a'+p), each, batch) })
	}
	wg.Wait()
	if len(seen) != publishers*each {
		e.Errorf("%d different messages arrived, want %d", len(seen), publishers*each)
	}
	for id, n := range seen {
		if n != 1 {
			e.Errorf("%q arrived %d times, want 1", id, n)
		}
	}
	e.awaitInfo(e.plain(), queue.Info{Consumers: consumers})
}

// publishAll publishes who's n messages to outbound, batch at a time.
func (e env) publishAll(ctx context.Context, who byte, n, batch int) {
	for i := 0; i < n; i += batch {
		var msgs []queue.Message
		for j := i; j < min(i+batch, n); j++ {
			msgs = append(msgs, queue.Message{Queue: e.plain(), ID: fmt.Sprintf("%c-%d", who, j)})
		}
		if err := e.broker.Publish(ctx, msgs...); err != nil {
			e.Errorf("Publish(%c from %d) = %v, want nil", who, i, err)
			return
		}
	}
}
