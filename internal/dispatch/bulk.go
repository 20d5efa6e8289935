package dispatch

import (
	"container/heap"
	"slices"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// bulkMaxWaiting is how many messages of a page may wait here when a broadcast
	// of it is sent. One would keep the page at its share. A few more do not delay
	// a conversation by more than some hundredths of a second.
	bulkMaxWaiting = 4
	// bulkRest is how long a broadcast's message waits here for its page before
	// it goes to the tail of its queue. With bulkPrefetch it bounds what that
	// costs the broker: 128 moves a second.
	bulkRest = 250 * time.Millisecond
	// bulkHold is how long core puts no more of a page's broadcasts on the queue
	// once one has gone to its tail. Core is told again once a second for as long
	// as any does.
	bulkHold = 3 * time.Second
)

// deferred is a broadcast's message that waits for its page, outside of that
// page's messages and its recipient's order, so that no conversation is behind
// it. Nor is another page's broadcast: those behind it on the queue are taken
// meanwhile. There are at most bulkPrefetch.
type deferred struct {
	item  *item
	until time.Time // then it goes to the tail of its queue
}

// hasRoom reports whether broadcasts may be sent: with what conversations leave.
func (e *engine) hasRoom() bool {
	return e.inFlight < e.limit.Limit()/2 && len(e.ready) == 0 && e.held < e.Prefetch/4
}

// bulkChannel returns the channel to take the next broadcast's message from, nil
// while there is no room. Only an event of the loop can change that, and the loop
// asks again.
func (e *engine) bulkChannel() <-chan *item {
	if !e.hasRoom() {
		return nil
	}
	return e.bulk
}

// takeBulk takes the message of a broadcast, and defers it if it cannot go.
func (e *engine) takeBulk(m *item) {
	d := deferred{item: m, until: e.Now().Add(bulkRest)}
	if !e.sendBulk(d) {
		e.deferred = append(e.deferred, d)
		heap.Push(&e.timers, timer{at: d.until})
	}
}

// sendDeferred sends what was deferred, in order, where there is room.
func (e *engine) sendDeferred() {
	e.deferred = slices.DeleteFunc(e.deferred, func(d deferred) bool { return e.hasRoom() && e.sendBulk(d) })
}

// sendBulk sends the message where it can: to the others of its page when they
// leave room, or, after bulkRest, back to its queue. It never puts its page in
// excess, because in the page's lane conversations would wait behind all of the
// broadcast. It reports whether the message is gone.
func (e *engine) sendBulk(d deferred) bool {
	now, m := e.Now(), d.item
	switch {
	case !m.delivery.Live():
		e.metrics.stale.Inc()
	case m.fault != nil || !e.pageIsBusy(m) && !e.Gate.InExcess(m.key()):
		e.arrive(m)
	case e.isLate(m, now):
		e.bury(m, disposition{reason: message.ReasonExpired}, m.lastCode)
	case !now.Before(d.until):
		e.republish(m, 0, e.tellBusy(m)...)
	default:
		return false
	}
	return true
}

// tellBusy returns the event that tells core, once between two ticks, that m's
// page takes no more broadcasts. Otherwise they would fill the queue before those
// of all other pages.
func (e *engine) tellBusy(m *item) []queue.Message {
	if e.toldBusy[m.out.Page] {
		return nil
	}
	event, err := e.feedback(m, message.FeedbackBusy)
	if err != nil {
		e.Log.Error("core is not told of a busy page", "err", err)
		return nil
	}
	e.toldBusy[m.out.Page] = true
	return []queue.Message{event}
}

// dropDeferred lets go of what was deferred and whose subscription has ended.
func (e *engine) dropDeferred() {
	e.deferred = slices.DeleteFunc(e.deferred, func(d deferred) bool {
		if d.item.delivery.Live() {
			return false
		}
		e.metrics.stale.Inc()
		return true
	})
}

// pageIsBusy reports whether messages of m's page wait already.
func (e *engine) pageIsBusy(m *item) bool {
	q := e.pages[pageID{Key: m.key(), lane: noLane}]
	return q != nil && q.waiting() >= bulkMaxWaiting
}
