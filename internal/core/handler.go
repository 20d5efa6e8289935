package core

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

// maxAhead is the most by which the clock that stamped an event may be ahead of ours:
// more than the clocks of servers differ. An event whose later time was believed would
// keep its user from being idle, and from its allowance, until that time. Its copies keep
// the time as it is: the clock that judges their age is a dispatcher's.
const maxAhead = time.Minute

// notAfter returns a time of another clock, which may be ahead: latest at most.
func notAfter(millis int64, latest time.Time) time.Time {
	return time.UnixMilli(min(millis, latest.UnixMilli()))
}

// handler brings each event to its end.
type handler struct {
	cfg      Config
	metrics  *metrics
	retry    retrier
	relay    *relay
	feedback *feedback
}

func newHandler(cfg Config, m *metrics, r retrier) *handler {
	b, p := NewBacklog(), newPressure(cfg.Limits)
	return &handler{
		cfg: cfg, metrics: m, retry: r,
		relay:    &relay{cfg: cfg, metrics: m, retry: r, backlog: b, pressure: p, floods: newFloods()},
		feedback: &feedback{store: cfg.Store, metrics: m, retry: r, backlog: b, pressure: p, limits: cfg.Limits, log: cfg.Log, now: cfg.Now},
	}
}

// handle handles one event and settles its delivery; it is the only place that
// settles. If run ends or the delivery becomes stale first, the delivery stays
// unsettled and the event is delivered again. work bounds steps that the end of run
// must not interrupt.
func (h *handler) handle(run, work context.Context, in inbound) {
	work, span := h.cfg.Tracer.Process(work, in.delivery, in.delivery.Queue, h.cfg.Now())
	defer span.End()
	if in.err != nil {
		span.Fail(string(message.ReasonUndecodable))
		h.deadLetter(run, work, in, message.ReasonUndecodable)
		return
	}
	h.metrics.events.WithLabelValues(string(in.event.Kind)).Inc()
	span.SetString("chatclub.page", in.event.Page)
	span.SetString("chatclub.event", string(in.event.Kind))
	h.cfg.Log.LogAttrs(run, slog.LevelDebug, "event received", slog.String("id", in.delivery.ID), slog.String("kind", string(in.event.Kind)),
		slog.Bool("redelivered", in.delivery.Redelivered))
	switch in.event.Kind {
	case message.KindMessage, message.KindPostback, message.KindIdle:
		in.err = h.relay.handle(run, work, in)
	case message.KindFeedback:
		in.err = h.feedback.handle(run, work, in)
	case message.KindPolicy:
		in.err = h.feedback.handlePolicy(run, work, in)
	case message.KindDeletion:
		h.feedback.handleDeletion(run, in)
	case message.KindOther: // it is for other programs
	}
	switch {
	case in.err == nil:
		h.ack(run, in)
	case errors.Is(in.err, rooms.ErrData):
		span.Fail(string(message.ReasonBadMessage))
		h.deadLetter(run, work, in, message.ReasonBadMessage)
	default: // it is abandoned
		span.Fail("abandoned")
	}
}

// ack takes the event off the queue. If that fails, the event is delivered again
// and recognised.
func (h *handler) ack(run context.Context, in inbound) {
	if err := in.delivery.Ack(); err != nil {
		h.retry.note(run, stepAck, err, 0)
	}
}

// deadLetter moves the event to the dead-letter queue, because of in.err.
func (h *handler) deadLetter(run, work context.Context, in inbound, reason message.Reason) {
	letter := in.delivery.Dead(message.Death{Reason: reason, Error: in.err.Error(), Time: h.cfg.Now(), Page: in.event.Page})
	stale := false
	err := h.retry.do(run, in.delivery.Live, stepDeadLetter, func() error {
		ctx, cancel := context.WithTimeout(work, h.cfg.PublishTimeout)
		defer cancel()
		dead := queue.Transfer{Delivery: in.delivery, To: []queue.Message{letter}}
		err := queue.TransferAll(ctx, h.cfg.Broker, []queue.Transfer{dead})[0]
		if errors.Is(err, queue.ErrStale) || errors.Is(err, queue.ErrSettled) {
			stale = true // the event is delivered again
			return nil
		}
		return err
	})
	if err != nil || stale {
		return // abandoned
	}
	h.metrics.dead.WithLabelValues(string(reason)).Inc()
	h.cfg.Log.WarnContext(run, "event is dead", "id", in.delivery.ID, "reason", reason, "err", in.err)
}
