package core

import (
	"context"
	"fmt"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/rooms"
)

// stoppedFor is how long a page is paused when the dispatcher does not tell
// when it tries again.
const stoppedFor = 30 * time.Minute

// busyAtMost bounds how long one word of a dispatcher holds up a page's
// broadcasts.
const busyAtMost = 10 * time.Second

// What pauses a page, beside its operators.
const (
	causeStopped = "stopped"
	causePolicy  = "policy"
)

// feedback takes a member that cannot be sent to out of the fan-out: for good
// when it is gone, until it writes again when its window is closed or another
// app has the conversation. Broadcasts to a page that can take none now wait. A
// page that the dispatchers stopped is paused
// until they let a message through to see whether it is well again: core would
// make copies only for the dead-letter queue until then.
func (c *Core) feedback(run, work context.Context, j job) error {
	ev, at := j.event, time.UnixMilli(j.event.Time)
	var do func(ctx context.Context) error
	switch reason := message.Reason(ev.Reason); reason { //nolint:exhaustive // the others say nothing about a member or a page
	case message.ReasonGone:
		do = func(ctx context.Context) error { return c.cfg.Store.Gone(ctx, ev.Page, ev.User, at) }
	case message.ReasonWindowClosed, message.ReasonNotOurs:
		do = func(ctx context.Context) error { return c.cfg.Store.CloseWindow(ctx, ev.Page, ev.User, at) }
	case message.FeedbackBusy:
		// Told by another clock, but for some seconds only.
		until := min(ev.Until, c.cfg.Now().Add(busyAtMost).UnixMilli())
		do = func(ctx context.Context) error {
			return c.cfg.Store.DelayBroadcasts(ctx, ev.Page, time.UnixMilli(until))
		}
	case message.ReasonPageStopped:
		until := at.Add(stoppedFor)
		if ev.Until > 0 {
			until = time.UnixMilli(ev.Until)
		}
		c.cfg.Log.ErrorContext(run, "page paused: its messages are refused", "page", ev.Page, "until", until)
		c.metrics.pauses.WithLabelValues(causeStopped).Inc()
		do = func(ctx context.Context) error { return c.cfg.Store.Pause(ctx, ev.Page, causeStopped, at, until) }
	default:
		return fmt.Errorf("%w: feedback reason %.40q is unknown", rooms.ErrData, reason)
	}
	return c.retry(run, j.delivery.Live, stepFeedback, func() error { return onStore(work, do) })
}

// policy pauses a page that Meta blocked until Meta unblocks it, or operators
// say so. A warning is only told.
func (c *Core) policy(run, work context.Context, j job) error {
	ev, at := j.event, time.UnixMilli(j.event.Time)
	c.cfg.Log.ErrorContext(run, "policy enforced on page", "page", ev.Page,
		"action", fmt.Sprintf("%.40s", ev.Action), "reason", fmt.Sprintf("%.200s", ev.Reason))
	var do func(ctx context.Context) error
	switch ev.Action {
	case "block":
		c.metrics.pauses.WithLabelValues(causePolicy).Inc()
		do = func(ctx context.Context) error {
			return c.cfg.Store.Pause(ctx, ev.Page, fmt.Sprintf("%s: %.100s", causePolicy, ev.Reason), at, time.Time{})
		}
	case "unblock":
		do = func(ctx context.Context) error {
			_, err := c.cfg.Store.Resume(ctx, ev.Page, at)
			return err
		}
	default:
		return nil
	}
	return c.retry(run, j.delivery.Live, stepPolicy, func() error { return onStore(work, do) })
}
