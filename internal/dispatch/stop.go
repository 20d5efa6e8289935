package dispatch

import (
	"context"
	"slices"
	"time"
)

// flushTimeout is the time limit of what the broker is still told: news, and at the end
// acknowledgements and moves. A healthy broker needs milliseconds.
const flushTimeout = 5 * time.Second

// stop ends a Run: each queue is given up, without waiting for calls of others,
// so that another replica goes on with it; what is in no call goes back with it.
// Calls that take longer than the shutdown timeout are abandoned.
func (e *engine) stop() error {
	e.ending = true
	close(e.standing.quit)
	e.standing.closeSlot(e.standing.Place)
	for _, p := range e.claims.partitions {
		e.claims.renew(p, "stop")
	}
	e.drain(e.ShutdownTimeout)
	if e.calls.inFlight > 0 {
		e.Log.Warn("calls still in flight at the shutdown timeout are abandoned; their messages will be sent again",
			"timeout", e.ShutdownTimeout, "calls", e.calls.inFlight)
	}
	e.calls.abort()
	e.drain(flushTimeout)
	close(e.calls.due)
	e.settler.End()
	time.AfterFunc(flushTimeout, e.settler.stop)
	close(e.finished)
	e.calls.workers.Wait()
	e.settler.runs.Wait()
	e.settler.stop()
	e.outcomes.moved()
	open := slices.Clone(e.claims.all)
	for _, c := range open {
		if c.state != isClosing {
			e.claims.closeAll(c.sources, func() {})
		}
	}
	e.others.Wait()
	for _, c := range open {
		e.claims.closed(c)
	}
	e.metrics.held.Set(float64(e.pages.inHand))
	return nil
}

// drain goes on with what is begun until all is given up, or for a time.
func (e *engine) drain(most time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	e.loop(ctx.Done(), func() bool { return e.calls.inFlight == 0 && len(e.claims.all) == 0 })
}
