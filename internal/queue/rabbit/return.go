package rabbit

import (
	"context"
	"time"

	"chatclub/internal/queue"
)

const (
	// returnPoll is the pause between two questions whether a batch has come.
	returnPoll = time.Millisecond
	// returnTimeout is how long all batches may take: a broker that needs longer
	// has other troubles than order. A batch may take as long as is left, because a
	// busy broker stands still for a second now and then.
	returnTimeout = 5 * time.Second
)

// Return gives deliveries back: see queue.Subscription. The broker confirms
// nothing that is given back, so the queue's length tells. A batch may not come:
// somebody else consumes the queue already, or the broker is busy. No order can be
// kept then, and the rest is given back at once.
func (s *subscription) Return(deliveries []*queue.Delivery) error {
	ctx, cancel := context.WithTimeout(context.Background(), returnTimeout)
	defer cancel()
	go func() { // who closes waits for no batch
		select {
		case <-s.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	ready, err := s.ready(ctx)
	ordered := err == nil
	for i, d := range deliveries {
		if err := d.Requeue(); err != nil {
			return err
		}
		ready++
		if ordered && ((i+1)%queue.ReturnBatch == 0 || i+1 == len(deliveries)) {
			ordered = s.awaitReady(ctx, ready)
		}
	}
	return nil
}

// ready is how many messages stand in the queue.
func (s *subscription) ready(ctx context.Context) (int, error) {
	info, err := s.broker.Inspect(ctx, s.queue)
	return info.Ready, err
}

// awaitReady waits until so many do, and reports whether they do.
func (s *subscription) awaitReady(ctx context.Context, want int) bool {
	for ; ctx.Err() == nil; time.Sleep(returnPoll) {
		if n, err := s.ready(ctx); err == nil && n >= want {
			return true
		}
	}
	return false
}
