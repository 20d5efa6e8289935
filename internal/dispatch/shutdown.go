package dispatch

import (
	"context"
	"errors"
	"time"
)

// flushTimeout is how long acknowledgements and moves may take when everything
// else has ended: a healthy broker needs milliseconds.
const flushTimeout = 5 * time.Second

// stop ends a Run, in order. Nothing more is taken, calls in flight end and are
// settled, and what was begun with the broker is finished. Then the
// subscriptions are closed, so that all the rest goes back to its queue.
func (e *engine) stop() error {
	e.stopping = true
	close(e.stopped)
	e.feeders.Wait()

	deadline := time.NewTimer(e.ShutdownTimeout)
	defer deadline.Stop()
	for e.inFlight > 0 {
		select {
		case r := <-e.results:
			e.ended(r)
		case <-deadline.C:
			e.Log.Warn("calls still in flight at the shutdown timeout are abandoned; their messages will be sent again",
				"timeout", e.ShutdownTimeout, "calls", e.inFlight)
			e.abort()
		}
	}
	close(e.due)
	e.callers.Wait()
	e.moves.End()
	flushed := make(chan struct{})
	go func() { // ends with the settlers, which settling's end ends at the latest
		e.settlers.Wait()
		close(flushed)
	}()
	select {
	case <-flushed:
	case <-time.After(flushTimeout):
		e.endSettling()
		<-flushed
	}
	errs := []error{e.outbound.close(), e.bulkIn.close()}
	for _, s := range e.laneIn {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// startSettlers starts the goroutine that finishes with the broker what the engine
// decided.
func (e *engine) startSettlers() {
	ctx, cancel := context.WithCancel(context.Background())
	e.endSettling = cancel
	e.settlers.Go(func() { e.moves.Run(ctx) })
}
