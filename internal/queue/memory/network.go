package memory

import (
	"context"
	"fmt"

	"chatclub/internal/queue"
)

// Network is the way between programs and a broker. It runs what it is given, and what
// arrives at one time in the order in which it was given. It is safe for concurrent use.
type Network interface {
	// To runs do once it has come to the broker, and the process of a queue has done so
	// many operations after all that it was given before.
	To(queue string, operations int, do func())
	// Deliver runs do once a queue's process has done one operation, and its result has
	// come to a program.
	Deliver(queue string, do func())
	// Back runs do in a program once it has come from the broker.
	Back(do func())
	// Stop runs at once what is still to come. What is given later runs at once, too.
	Stop()
}

// Direct is the Network within one process: all arrives at once.
type Direct struct{}

// To implements Network.
func (Direct) To(_ string, _ int, do func()) { do() }

// Deliver implements Network.
func (Direct) Deliver(_ string, do func()) { do() }

// Back implements Network.
func (Direct) Back(do func()) { do() }

// Stop implements Network.
func (Direct) Stop() {}

// wait waits until done is closed, or ctx ends before that.
func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done: // whether or not ctx has ended
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, ctx.Err())
	}
}
