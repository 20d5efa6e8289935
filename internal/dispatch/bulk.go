package dispatch

import (
	"container/heap"
	"slices"
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// bulkPark is how many messages of a page may wait here when a broadcast of
	// it is sent. One would keep the page at its share; a few more do not delay
	// a conversation by more than some hundredths of a second.
	bulkPark = 4
	// bulkRest is how long a broadcast's message waits here for its page before
	// it goes to the tail of its queue. With bulkPrefetch it bounds what that
	// costs the broker: 128 moves a second.
	bulkRest = 250 * time.Millisecond
	// bulkHold is how long core puts no more of a page's broadcasts on the queue
	// once one has gone to its tail: that is told again once a second for as
	// long as any does.
	bulkHold = 3 * time.Second
)

// aside is a broadcast's message that waits for its page, outside of that
// page's messages and its recipient's line, so that no conversation is behind
// it. Nor is another page's broadcast: those behind it on the queue are taken
// meanwhile. There are at most bulkPrefetch.
type aside struct {
	job   *job
	until time.Time // then it goes to the tail of its queue
}

// hasRoom tells whether broadcasts may be sent: with what conversations leave.
func (e *engine) hasRoom() bool {
	return e.inFlight < e.limit.Limit()/2 && len(e.ready) == 0 && e.parked < e.Prefetch/4
}

// bulkNow is the channel to take the next broadcast's message from, nil while
// there is no room. Whatever changes that, or lets a message that was set
// aside go, is an event of the loop, which asks again.
func (e *engine) bulkNow() <-chan *job {
	if len(e.broadcasts) > 0 {
		e.sendAsides()
	}
	if !e.hasRoom() {
		return nil
	}
	return e.bulk
}

// takeBulk takes the message of a broadcast, and sets it aside if it cannot go.
func (e *engine) takeBulk(j *job) {
	a := aside{job: j, until: e.Now().Add(bulkRest)}
	if !e.sendBulk(a) {
		e.broadcasts = append(e.broadcasts, a)
		heap.Push(&e.alarms, alarm{at: a.until})
	}
}

// sendAsides lets go what was set aside, in order, where there is room.
func (e *engine) sendAsides() {
	e.broadcasts = slices.DeleteFunc(e.broadcasts, func(a aside) bool { return e.hasRoom() && e.sendBulk(a) })
}

// sendBulk lets the message go where it can: to the others of its page when
// they leave room, or, after bulkRest, back to its queue. It never puts its
// page in excess, because in the page's lane conversations would wait behind
// all of the broadcast. false means that it waits.
func (e *engine) sendBulk(a aside) bool {
	now, j := e.Now(), a.job
	switch {
	case !j.delivery.Live():
		e.metrics.stale.Inc()
	case j.fault != nil || !e.pageIsBusy(j) && !e.inExcess(j):
		e.arrive(j)
	case e.isLate(j, now):
		e.bury(j, rule{reason: message.ReasonExpired}, j.lastCode)
	case !now.Before(a.until):
		e.giveBack(j, 0, e.tellBusy(j)...)
	default:
		return false
	}
	return true
}

// tellBusy is the event that tells core, once between two ticks, that j's page
// takes no more broadcasts. Otherwise they would fill the queue before those of
// all other pages.
func (e *engine) tellBusy(j *job) []queue.Message {
	if e.toldBusy[j.out.Page] {
		return nil
	}
	m, err := e.feedback(j, message.FeedbackBusy)
	if err != nil {
		e.Log.Error("core is not told of a busy page", "err", err)
		return nil
	}
	e.toldBusy[j.out.Page] = true
	return []queue.Message{m}
}

// dropAsides lets go of what was set aside and whose subscription has ended.
func (e *engine) dropAsides() {
	e.broadcasts = slices.DeleteFunc(e.broadcasts, func(a aside) bool {
		if a.job.delivery.Live() {
			return false
		}
		e.metrics.stale.Inc()
		return true
	})
}

// inExcess tells whether j's page is in excess, where the gate knows of that.
func (e *engine) inExcess(j *job) bool {
	g, ok := e.Gate.(interface{ InExcess(k excess.Key) bool })
	return ok && g.InExcess(j.key())
}

// pageIsBusy tells whether messages of j's page wait already.
func (e *engine) pageIsBusy(j *job) bool {
	q := e.pages[pageID{Key: j.key(), lane: noLane}]
	return q != nil && q.waiting() >= bulkPark
}

// counted is the number of replicas as the broker last said.
func (e *engine) counted() int { return int(max(1, e.replicas.Load())) }
