package dispatch

import (
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

// news is the pages and persons of which core is to be told.
type news struct {
	*run
	list []resumption
}

func (n *news) add(page, to string, at time.Time) { n.list = append(n.list, resumption{page, to, at}) }

// tell tells core of pages and persons that can be sent to again. What it cannot
// be told now it is told a second later.
func (n *news) tell() {
	list := n.list
	if n.list = nil; len(list) == 0 || n.NoFeedback {
		return
	}
	msgs := make([]queue.Message, 0, len(list))
	for _, one := range list {
		m, ok := n.toCore(message.Event{
			Kind: message.KindFeedback, Page: one.page, User: one.to, Time: one.at.UnixMilli(), Reason: message.FeedbackResumed,
			ID: message.FeedbackResumed + "/" + digest(fmt.Sprintf("%s/%s/%d", one.page, one.to, one.at.UnixNano())),
		})
		if ok {
			msgs = append(msgs, m)
		}
	}
	n.publish(flushTimeout, msgs, func(err error) {
		if err != nil {
			n.Log.Warn("tell core who can be sent to again", "err", err)
			n.list = append(list, n.list...)
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
