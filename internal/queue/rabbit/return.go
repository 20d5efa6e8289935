package rabbit

import (
	"context"
	"time"

	"chatclub/internal/queue"
)

const (
	// returnPoll is the pause between two questions whether a batch has come.
	returnPoll = time.Millisecond
	// returnTimeout is how long a batch may take, and returnMost how long all of
	// them: a broker that needs longer has other troubles than order.
	returnTimeout = 500 * time.Millisecond
	returnMost    = 5 * time.Second
)

// Return gives deliveries back: see queue.Subscription. The broker confirms
// nothing that is given back, so the queue's length tells. A batch may not come:
// somebody else consumes the queue already, or the broker is busy. No order can be
// kept then, and the rest is given back at once.
func (s *subscription) Return(deliveries []*queue.Delivery) error {
	began := time.Now()
	ready, err := s.ready()
	ordered := err == nil
	for i, d := range deliveries {
		if err := d.Requeue(); err != nil {
			return err
		}
		ready++
		if ordered && ((i+1)%queue.ReturnBatch == 0 || i+1 == len(deliveries)) {
			ordered = s.awaitReady(ready) && time.Since(began) < returnMost
		}
	}
	return nil
}

// ready is how many messages stand in the queue.
func (s *subscription) ready() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), returnTimeout)
	defer cancel()
	info, err := s.broker.Inspect(ctx, s.queue)
	return info.Ready, err
}

// awaitReady waits until so many do, and reports whether they do.
func (s *subscription) awaitReady(want int) bool {
	for deadline := time.Now().Add(returnTimeout); time.Now().Before(deadline); time.Sleep(returnPoll) {
		if n, err := s.ready(); err == nil && n >= want {
			return true
		}
	}
	return false
}
