package core

import (
	"context"
	"errors"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

// maxAhead is how far the clock that stamped an event may be ahead of ours: more
// than the clocks of servers differ. An event whose later time was believed would
// keep its user from being idle, and from its allowance, until that time.
const maxAhead = time.Minute

// handler brings each event to its end.
type handler struct {
	cfg      Config
	metrics  *metrics
	retry    retrier
	relay    *relay
	feedback *feedback
}

func newHandler(cfg Config, m *metrics, r retrier, router *router) *handler {
	return &handler{
		cfg: cfg, metrics: m, retry: r,
		relay:    &relay{cfg: cfg, metrics: m, retry: r, router: router},
		feedback: &feedback{store: cfg.Store, metrics: m, retry: r, log: cfg.Log, now: cfg.Now},
	}
}

// handle handles one event and settles its delivery; it is the only place that
// settles. If run ends or the delivery becomes stale first, the delivery stays
// unsettled and the event is delivered again. work bounds what the end of run
// must not interrupt.
func (h *handler) handle(run, work context.Context, j job) {
	if j.err != nil {
		h.deadLetter(run, work, j, message.ReasonUndecodable)
		return
	}
	h.metrics.events.WithLabelValues(string(j.event.Kind)).Inc()
	j.event.Time = min(j.event.Time, h.cfg.Now().Add(maxAhead).UnixMilli())
	switch j.event.Kind {
	case message.KindMessage, message.KindPostback, message.KindIdle:
		j.err = h.relay.handle(run, work, j)
	case message.KindFeedback:
		j.err = h.feedback.handle(run, work, j)
	case message.KindPolicy:
		j.err = h.feedback.handlePolicy(run, work, j)
	}
	switch {
	case j.err == nil:
		h.ack(run, j)
	case errors.Is(j.err, rooms.ErrData):
		h.deadLetter(run, work, j, message.ReasonBadMessage)
	}
	// Otherwise it is abandoned.
}

// ack takes the event off the queue. If that fails, the event is delivered again
// and recognised.
func (h *handler) ack(run context.Context, j job) {
	if err := j.delivery.Ack(); err != nil {
		h.retry.note(run, stepAck, err, 0)
	}
}

// deadLetter moves the event to the dead-letter queue, because of j.err.
func (h *handler) deadLetter(run, work context.Context, j job, reason message.Reason) {
	err := h.retry.do(run, j.delivery.Live, stepDeadLetter, func() error {
		ctx, cancel := context.WithTimeout(work, h.cfg.PublishTimeout)
		defer cancel()
		err := j.delivery.DeadLetter(ctx, message.Death{Reason: reason})
		if errors.Is(err, queue.ErrStale) || errors.Is(err, queue.ErrSettled) {
			return nil // published; the event is delivered again and published again
		}
		return err
	})
	if err != nil {
		return // abandoned
	}
	h.metrics.dead.WithLabelValues(string(reason)).Inc()
	h.cfg.Log.WarnContext(run, "event is dead", "reason", reason, "err", j.err)
}
