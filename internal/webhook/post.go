package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// post handles one delivery of events.
func (h *Handler) post(w http.ResponseWriter, r *http.Request) answer {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		return answer{result: overloaded}
	}
	claimed, ok := parseSignature(r.Header.Get(SignatureHeader))
	if !ok {
		return answer{result: forbidden}
	}
	body, err := readBody(w, r)
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return answer{result: tooLarge}
		}
		return answer{result: badRequest} // the client broke off
	}
	if !claimed.verifies(body, h.cfg.AppSecret) {
		return answer{result: forbidden}
	}
	parts, err := Split(body, h.cfg.Now())
	if err != nil {
		return answer{result: notFound}
	}
	return answer{result: h.enqueue(r.Context(), parts)}
}

// readBody reads at most MaxBody bytes.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > MaxBody {
		return nil, &http.MaxBytesError{Limit: MaxBody}
	}
	var b bytes.Buffer
	// ReadFrom wants MinRead bytes free to see the end without growing.
	b.Grow(int(max(0, r.ContentLength)) + bytes.MinRead)
	if _, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, MaxBody)); err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return b.Bytes(), nil
}

// enqueue publishes everything in one confirmed batch.
func (h *Handler) enqueue(ctx context.Context, p Parts) result {
	batch, err := h.batch(p)
	if err != nil {
		// No event fails to encode: FuzzSplit shows it.
		h.cfg.Log.ErrorContext(ctx, "event not encoded", "err", err)
		return unavailable
	}
	if len(batch) > 0 {
		ctx, cancel := context.WithTimeout(ctx, h.cfg.PublishTimeout)
		defer cancel()
		begun := h.cfg.Now()
		err := h.cfg.Broker.Publish(ctx, batch...)
		h.metrics.publish.Observe(h.cfg.Now().Sub(begun).Seconds())
		h.note(ctx, err)
		if err != nil {
			return unavailable
		}
	}
	h.metrics.count(p)
	return accepted
}

// batch makes the queue's messages of p.
func (h *Handler) batch(p Parts) ([]queue.Message, error) {
	batch := make([]queue.Message, 0, len(p.Events)+len(p.Bad))
	for _, e := range p.Events {
		body, err := e.Encode()
		if err != nil {
			return nil, err
		}
		batch = append(batch, queue.Message{Queue: h.cfg.Topology.Inbound(), ID: e.Page + "/" + e.ID, Body: body})
	}
	for _, raw := range p.Bad {
		digest := sha256.Sum256(raw)
		death := message.Death{Reason: message.ReasonUndecodable, Queue: h.cfg.Topology.Inbound()}
		batch = append(batch, queue.Message{
			Queue:   h.cfg.Topology.Dead(),
			ID:      "undecodable/" + hex.EncodeToString(digest[:digestBytes]),
			Body:    raw,
			Headers: death.Headers(),
		})
	}
	return batch, nil
}

// note logs when publishing begins to fail and when it works again, not every
// request between.
func (h *Handler) note(ctx context.Context, err error) {
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
