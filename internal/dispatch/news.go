package dispatch

import (
	"context"
	"fmt"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// resumption is a page, or a person on it, that can be sent to again.
type resumption struct {
	page, to string // to: empty for the page
	at       time.Time
}

// tellNews tells core of pages and persons that can be sent to again. What it cannot
// be told now it is told a second later.
func (e *engine) tellNews() {
	news := e.news
	if e.news = nil; len(news) == 0 || e.NoFeedback {
		return
	}
	msgs := make([]queue.Message, 0, len(news))
	for _, n := range news {
		m, ok := e.toCore(message.Event{
			Kind: message.KindFeedback, Page: n.page, User: n.to, Time: n.at.UnixMilli(), Reason: message.FeedbackResumed,
			ID: message.FeedbackResumed + "/" + digest(fmt.Sprintf("%s/%s/%d", n.page, n.to, n.at.UnixNano())),
		})
		if ok {
			msgs = append(msgs, m)
		}
	}
	e.beside(flushTimeout, func(ctx context.Context) error { return e.Broker.Publish(ctx, msgs...) }, func(err error) {
		if err != nil {
			e.Log.Warn("tell core who can be sent to again", "err", err)
			e.news = append(news, e.news...)
		}
	})
}

// toCore returns the message that tells core of an event; it is not ok where that cannot be
// encoded, which is logged.
func (d *Dispatcher) toCore(ev message.Event) (m queue.Message, ok bool) {
	body, err := ev.Encode()
	if err != nil {
		d.Log.Error("core is not told of an event", "reason", ev.Reason, "page", ev.Page, "err", err)
		return m, false
	}
	return queue.Message{Queue: d.Broker.Topology().InboundOf(ev.Page), ID: ev.ID, Body: body}, true
}
