package dispatch

import (
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// strays sends messages on that are on another partition than their page's.
type strays struct {
	*Dispatcher
	settler *settler
	logged  map[string]bool // pages
}

// has reports whether a message is to go on to its page's partition: it came on the
// queue for all pages, or on another partition, where another owner sends for the page,
// too, and knows nothing of this one's calls.
func (st *strays) has(m *held) bool {
	at := m.source.claim.partition.index
	return at == allPages || st.Broker.Topology().PartitionOf(m.out.Page) != at && m.delivery.Headers[message.HeaderRouted] == ""
}

// maxStrays bounds the pages of which it is known that they were logged.
const maxStrays = 1000

// sendOn moves a message to its page's partition. Headers of others are left behind: they
// could be too long to be published.
func (st *strays) sendOn(m *held) {
	to := queue.Message{
		Queue: st.Broker.Topology().OutboundOf(m.out.Page), ID: m.delivery.ID, Body: m.delivery.Body,
		Headers: message.CarryTrace(map[string]string{message.HeaderRouted: "1"}, m.delivery.Headers),
	}
	later := to // the others of this queue would wait behind those that a partition does not take
	later.Delay = retryMedium
	if m.source.claim.partition.index == allPages {
		st.settler.move(m, destination{ends: st.metrics.passed}, &later, to)
		return
	}
	if !st.logged[m.out.Page] {
		if len(st.logged) == maxStrays {
			clear(st.logged)
		}
		st.logged[m.out.Page] = true
		st.Log.Warn("messages of a page come on another partition than its own; they are sent on", "page", m.out.Page, "queue", m.source.queue, "to", to.Queue)
	}
	st.settler.move(m, destination{ends: st.metrics.strays}, &later, to)
}
