package dispatch

import (
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// isStray reports whether a message is to go on to its page's partition: it came on the
// queue for all pages, or on another partition, where another owner sends for the page,
// too, and knows nothing of this one's calls.
func (e *engine) isStray(m *held) bool {
	at := m.source.claim.partition.index
	return at == allPages || e.Broker.Topology().PartitionOf(m.out.Page) != at && m.delivery.Headers[message.HeaderRouted] == ""
}

// maxStrays bounds the pages of which it is known that they were logged.
const maxStrays = 1000

// sendOn moves a message to its page's partition. Headers of others are left behind: they
// could be too long to be published.
func (e *engine) sendOn(m *held) {
	to := queue.Message{
		Queue: e.Broker.Topology().OutboundOf(m.out.Page), ID: m.delivery.ID, Body: m.delivery.Body,
		Headers: message.CarryTrace(map[string]string{message.HeaderRouted: "1"}, m.delivery.Headers),
	}
	later := to // the others of this queue would wait behind those that a partition does not take
	later.Delay = retryMedium
	if m.source.claim.partition.index == allPages {
		e.settler.move(m, destination{passed: true}, &later, to)
		return
	}
	if !e.strays[m.out.Page] {
		if len(e.strays) == maxStrays {
			clear(e.strays)
		}
		e.strays[m.out.Page] = true
		e.Log.Warn("messages of a page come on another partition than its own; they are sent on", "page", m.out.Page, "queue", m.source.queue, "to", to.Queue)
	}
	e.settler.move(m, destination{stray: true}, &later, to)
}
