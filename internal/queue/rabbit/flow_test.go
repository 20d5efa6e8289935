package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"chatclub/internal/queue"
)

// flow publishes and consumes on one queue until finish, and keeps the books.
type flow struct {
	stop    chan struct{} // closed: publish no more
	drained chan struct{} // closed: consume no more
	pubs    sync.WaitGroup
	subs    sync.WaitGroup

	mu        sync.Mutex
	confirmed map[string]bool
	received  map[string]int
}

// startFlow starts three publishers, in calls of five, and two consumers.
func startFlow(t *testing.T, b queue.Broker, name string) *flow {
	t.Helper()
	f := &flow{
		stop: make(chan struct{}), drained: make(chan struct{}),
		confirmed: make(map[string]bool), received: make(map[string]int),
	}
	for p := range 3 {
		f.pubs.Go(func() { f.publish(t, b, name, p) })
	}
	for range 2 {
		s := consume(t, b, name, 50)
		f.subs.Go(func() { f.consume(t, s) })
	}
	return f
}

func (f *flow) publish(t *testing.T, b queue.Broker, name string, p int) {
	for i := 0; ; i += 5 {
		select {
		case <-f.stop:
			return
		case <-t.Context().Done():
			return
		case <-time.After(time.Millisecond): // a pace, so that a long restart does not pile up millions
		}
		var msgs []queue.Message
		for j := range 5 {
			msgs = append(msgs, queue.Message{Queue: name, ID: fmt.Sprintf("%d/%d", p, i+j)})
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := b.Publish(ctx, msgs...)
		cancel()
		if err != nil {
			t.Errorf("Publish(%d/%d …) = %v, want nil", p, i, err)
			return
		}
		f.mu.Lock()
		for _, m := range msgs {
			f.confirmed[m.ID] = true
		}
		f.mu.Unlock()
	}
}

func (f *flow) consume(t *testing.T, s queue.Subscription) {
	for {
		select {
		case d, ok := <-s.Deliveries():
			if !ok {
				return
			}
			if err := d.Ack(); err != nil && !errors.Is(err, queue.ErrStale) {
				t.Errorf("Ack(%q) = %v, want nil or %v", d.ID, err, queue.ErrStale)
			} else if err == nil {
				f.mu.Lock()
				f.received[d.ID]++
				f.mu.Unlock()
			}
		case <-f.drained:
			return
		case <-t.Context().Done():
			return
		}
	}
}

// awaitReceived waits until n different messages were handled.
func (f *flow) awaitReceived(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d messages handled", n), func() (string, bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return fmt.Sprint(len(f.received)), len(f.received) >= n
	})
}

// finish stops the flow and checks that everything confirmed was handled.
func (f *flow) finish(t *testing.T) {
	t.Helper()
	close(f.stop)
	f.pubs.Wait()
	missing := func() (n int, example string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for id := range f.confirmed {
			if f.received[id] == 0 {
				n, example = n+1, id
			}
		}
		return n, example
	}
	eventually(t, "every confirmed message is handled", func() (string, bool) {
		n, example := missing()
		return fmt.Sprintf("%d of %d missing, as %q", n, len(f.confirmed), example), n == 0
	})
	close(f.drained)
	f.subs.Wait()
	again := 0
	for _, n := range f.received {
		again += n - 1
	}
	t.Logf("%d messages confirmed and handled, %d of them again", len(f.confirmed), again)
}
