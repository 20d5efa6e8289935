package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// Bare is not a strategy but what a dispatcher is measured against: a loop that
// consumes, calls and acknowledges, and knows no limits, no order, no retries
// and no dead letters. What a call refuses goes to the queue's end.
const Bare = "bare loop"

// bareWorkers make calls at a time, as many as a good simple consumer would.
const bareWorkers = 64

// bare runs the loop until ctx ends. What is in hand then is settled.
func (p *parts) bare(ctx context.Context) (err error) {
	sub, err := p.broker.Consume(p.broker.Topology().Outbound(), queue.ConsumeOptions{Prefetch: prefetch})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sub.Close()) }()
	var workers sync.WaitGroup
	faults := make([]error, bareWorkers)
	for i := range bareWorkers {
		workers.Go(func() {
			for faults[i] == nil {
				select {
				case <-ctx.Done():
					return
				case d, ok := <-sub.Deliveries():
					if !ok {
						return
					}
					faults[i] = p.handle(context.WithoutCancel(ctx), d)
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(faults...)
}

func (p *parts) handle(ctx context.Context, d *queue.Delivery) error {
	out, err := message.DecodeOutbound(d.Body)
	if err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	if p.caller.Send(ctx, out).Outcome != sender.Sent {
		err = p.requeue(ctx, d)
	} else {
		err = d.Ack()
	}
	if errors.Is(err, queue.ErrStale) {
		return nil // it comes again
	}
	return err
}

// requeue puts a message at its queue's end by the dispatcher's own connection,
// which, unlike the delivery's, may have been cut.
func (p *parts) requeue(ctx context.Context, d *queue.Delivery) error {
	return queue.MoveAll(ctx, p.broker, []queue.Transfer{{Delivery: d, To: []queue.Message{d.Message}}})[0]
}
