package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// The id of a body that cannot be decoded begins with Undecodable, or with UndecodableAll
// where Config.All is set: a later reader makes the same events of it.
const (
	Undecodable    = "undecodable/"
	UndecodableAll = Undecodable + "all/"
)

// post answers one request with events.
func (h *Handler) post(w http.ResponseWriter, r *http.Request) answer {
	begun := h.cfg.Now()
	body, signed, release, res := h.readSigned(w, r)
	defer release()
	if res != accepted {
		return answer{result: res}
	}
	if h.taken.has(signed, begun) {
		return answer{result: repeated}
	}
	parts, err := Split(body, h.cfg.Now(), h.cfg.All)
	switch {
	case errors.Is(err, ErrObject):
		return answer{result: notFound}
	case err != nil:
		return answer{result: badRequest}
	}
	ctx, span := h.cfg.Tracer.Request(r.Context(), "/webhook", begun)
	defer span.End()
	if res = h.enqueue(ctx, parts); res == accepted {
		h.taken.add(signed, h.cfg.Now())
	}
	if span.Status(outcomes[res].status); res != accepted {
		span.Fail(outcomes[res].label)
	}
	return answer{result: res}
}

// enqueue publishes all parts in one confirmed batch.
func (h *Handler) enqueue(ctx context.Context, p Parts) result {
	batch, err := h.batch(p)
	if err != nil {
		// Every event can be encoded, as FuzzSplit shows.
		h.cfg.Log.ErrorContext(ctx, "event not encoded", "err", err)
		return unavailable
	}
	if len(batch) > 0 {
		client := ctx
		ctx, cancel := context.WithTimeout(ctx, h.cfg.PublishTimeout)
		defer cancel()
		begun := h.cfg.Now()
		span := h.cfg.Tracer.Send(ctx, batch[0].Queue, len(batch))
		span.Inject(batch)
		err := h.cfg.Broker.Publish(ctx, batch...)
		if err != nil {
			span.Fail("unconfirmed")
		}
		span.End()
		h.metrics.publish.Observe(h.cfg.Now().Sub(begun).Seconds())
		if err == nil || client.Err() == nil { // the broker is not to blame for a client that left
			h.logChange(ctx, err)
		}
		if err != nil {
			return unavailable
		}
	}
	h.metrics.count(p)
	if h.cfg.Log.Enabled(ctx, slog.LevelDebug) {
		for _, m := range batch {
			h.cfg.Log.DebugContext(ctx, "event queued", "id", m.ID, "queue", m.Queue)
		}
	}
	return accepted
}

// batch returns the messages of p for the queues.
func (h *Handler) batch(p Parts) ([]queue.Message, error) {
	batch := make([]queue.Message, 0, len(p.Events)+len(p.Bad))
	for _, e := range p.Events {
		body, err := e.Encode()
		if err != nil {
			return nil, err
		}
		batch = append(batch, queue.Message{Queue: h.cfg.Topology.InboundOf(e.Page), ID: e.Page + "/" + e.ID, Body: body})
	}
	prefix := Undecodable
	if h.cfg.All {
		prefix = UndecodableAll
	}
	for _, raw := range p.Bad {
		digest := sha256.Sum256(raw)
		death := message.Death{Reason: message.ReasonUndecodable, Queue: h.cfg.Topology.InboundOf(""), Time: h.cfg.Now(), Error: "it cannot be read as an event of Messenger"}
		batch = append(batch, queue.Message{
			Queue:   h.cfg.Topology.Dead(),
			ID:      prefix + hex.EncodeToString(digest[:digestBytes]),
			Body:    raw,
			Headers: death.Headers(),
		})
	}
	return batch, nil
}

// logChange logs when publishing begins to fail and when it works again, not
// every request between.
func (h *Handler) logChange(ctx context.Context, err error) {
	failed := err != nil
	if h.degraded.Swap(failed) == failed {
		return
	}
	if failed {
		h.cfg.Log.WarnContext(ctx, "broker does not confirm, answering 503", "err", err)
	} else {
		h.cfg.Log.InfoContext(ctx, "broker confirms again")
	}
}
