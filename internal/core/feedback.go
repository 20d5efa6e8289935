package core

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/rooms"
)

const (
	// maxHold bounds how long one feedback of a dispatcher pauses a page, or holds a
	// member's copies. After that core tries by itself, because the dispatcher that
	// would tell it the end may be gone. One for which it is still so says so again.
	maxHold = 5 * time.Minute
	// maxBusy bounds how long one feedback of a dispatcher delays a page's
	// broadcasts.
	maxBusy = 10 * time.Second
)

// The causes of a page's pause: dispatchers that stopped it, and Meta. Every other
// reason is an operator's, from before such pauses were orders.
const (
	causeStopped  = "stopped"
	causePolicy   = "policy"
	causeOperator = "operator"
)

// feedback handles the events about members and pages that cannot be sent to, and
// about users who want to be forgotten, as dispatchers and Meta report them.
type feedback struct {
	store    Store
	metrics  *metrics
	retry    retrier
	backlog  *Backlog
	pressure *pressure
	limits   *Limits
	log      *slog.Logger
	now      func() time.Time
}

// handle handles a report of a dispatcher:
//
//   - a member who is gone leaves its room;
//   - a member whose window is closed, or whose conversation another app has,
//     gets no copies until it writes again;
//   - a member whom every message fails to reach gets no copies for a while, or
//     until it writes again, and stays in its room;
//   - broadcasts to a page that can take none now wait;
//   - a page that the dispatchers stopped is paused for a while, because its copies
//     would only go to the dead-letter queue;
//   - a page or member that they can send to again is not held any longer;
//   - a page's backlog and limits say which messages would come too late, and when its
//     members keep to their shares.
func (f *feedback) handle(run, work context.Context, in inbound) error {
	ev, at := in.event, notAfter(in.event.Time, f.now().Add(maxAhead))
	var do func() error
	switch reason := message.Reason(ev.Reason); reason { //nolint:exhaustive // the others say nothing about a member or a page
	case message.ReasonGone:
		do = func() error { return f.store.Gone(work, ev.Page, ev.User, at) }
	case message.ReasonWindowClosed, message.ReasonNotOurs:
		do = func() error { return f.store.CloseWindow(work, ev.Page, ev.User, at) }
	case message.ReasonFailing:
		until := notAfter(ev.Until, f.now().Add(maxHold))
		f.log.WarnContext(run, "copies to a member are held: every message to it fails", "page", ev.Page, "until", until)
		do = func() error { return f.store.HoldCopies(work, ev.Page, ev.User, at, until) }
	case message.FeedbackBusy:
		do = func() error { return f.store.DelayBroadcasts(work, ev.Page, notAfter(ev.Until, f.now().Add(maxBusy))) }
	case message.ReasonPageStopped:
		until := notAfter(ev.Until, f.now().Add(maxHold))
		if ev.Until == 0 {
			until = f.now().Add(maxHold)
		}
		f.log.ErrorContext(run, "page paused: its messages are refused", "page", ev.Page, "until", until)
		f.metrics.pauses.WithLabelValues(causeStopped).Inc()
		do = func() error { return f.store.Pause(work, ev.Page, causeStopped, notAfter(ev.Time, f.now()), until) }
	case message.FeedbackResumed:
		f.log.InfoContext(run, "dispatchers can send again", "page", ev.Page, "member", ev.User != "")
		do = func() error {
			if ev.User != "" {
				return f.store.ReleaseCopies(work, ev.Page, ev.User)
			}
			return f.store.EndPause(work, ev.Page, causeStopped, notAfter(ev.Time, f.now()))
		}
	case message.FeedbackWaiting:
		f.limits.tell(ev.Page, ev.Limits)
		f.pressure.tell(f.now(), notAfter(ev.Time, f.now()), ev.Page, ev.Wait, ev.Pace)
		f.backlog.Tell(f.now(), notAfter(ev.Time, f.now()), ev.Page, ev.Waiting, ev.Rate)
		return nil
	default:
		return fmt.Errorf("%w: feedback reason %.40q is unknown", rooms.ErrData, reason)
	}
	return f.retry.do(run, in.delivery.Live, stepFeedback, do)
}

// handlePolicy handles a policy event: a page that Meta blocked is paused until
// Meta unblocks it or an operator resumes it. A warning is only logged.
func (f *feedback) handlePolicy(run, work context.Context, in inbound) error {
	ev, at := in.event, notAfter(in.event.Time, f.now().Add(maxAhead))
	level := slog.LevelWarn
	var do func() error
	switch ev.Action {
	case "block":
		level = slog.LevelError
		f.metrics.pauses.WithLabelValues(causePolicy).Inc()
		do = func() error {
			return f.store.Pause(work, ev.Page, fmt.Sprintf("%s: %.100s", causePolicy, ev.Reason), at, time.Time{})
		}
	case "unblock":
		level = slog.LevelInfo
		do = func() error { return f.store.Resume(work, ev.Page, at) }
	}
	f.log.Log(run, level, "policy enforced on page", "page", ev.Page,
		"action", fmt.Sprintf("%.40s", ev.Action), "reason", fmt.Sprintf("%.200s", ev.Reason))
	if do == nil {
		return nil
	}
	return f.retry.do(run, in.delivery.Live, stepPolicy, do)
}

// handleDeletion notes in the log that a user wants its data deleted, for an operator.
// Meta's request holds the user's id in the app, by which no page knows it.
func (f *feedback) handleDeletion(run context.Context, in inbound) {
	f.log.WarnContext(run, "data deletion was requested", "code", in.event.ID)
}
