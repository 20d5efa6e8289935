package dispatch

import (
	"container/heap"
	"time"

	"chatclub/internal/excess"
)

const (
	// bulkJoin is how long after its first count a replica takes no broadcasts:
	// the others need half a second to count it, and it them, and until then
	// the sum of all replicas' parts would be above a broadcast's rate.
	bulkJoin = time.Second
	// bulkPark is how many messages of a page may wait here when a broadcast of
	// it is sent. One would keep the page at its share; a few more do not delay
	// a conversation by more than some hundredths of a second.
	bulkPark = 4
	// bulkRest is how long a broadcast to a page in excess is held before it
	// goes to the tail of its queue. With bulkPrefetch it bounds what that
	// costs the broker: 128 moves a second.
	bulkRest = 250 * time.Millisecond
	// bulkLate is how far a broadcast may be behind and still make up for it:
	// what a busy replica loses otherwise, a few milliseconds at each message,
	// adds up to a tenth of the rate.
	bulkLate = 100 * time.Millisecond
	// maxInterval is the longest time between two messages of a broadcast on
	// one replica, however low its rate.
	maxInterval = time.Hour
	// forgetBroadcast is how long after the turn of a broadcast that nobody
	// took it is forgotten.
	forgetBroadcast = time.Minute
)

// broadcasts is when the next message of each broadcast with a rate is due on
// this replica. Each of R replicas takes its rate / R, in steps that begin at
// a random moment, so that together they send at most
//
//	rate × (T + 0.1 s) + R
//
// in any T seconds, as long as they agree on R. A broadcast that is idle is
// forgotten. The zero value is not useful. Not safe for concurrent use.
type broadcasts struct {
	random func() float64
	due    map[string]time.Time
}

func newBroadcasts(random func() float64) *broadcasts {
	return &broadcasts{random: random, due: make(map[string]time.Time)}
}

// interval is the time between two messages of a broadcast on one replica.
func interval(rate float64, replicas int) time.Duration {
	return time.Duration(min(float64(replicas)/rate, maxInterval.Seconds()) * float64(time.Second))
}

// wait is how long the next message of j's broadcast must wait; a broadcast
// without a rate never does.
func (b *broadcasts) wait(now time.Time, j *job, replicas int) time.Duration {
	if j.out.Rate == 0 {
		return 0
	}
	due, known := b.due[j.out.Broadcast]
	if !known {
		due = now.Add(time.Duration(b.random() * float64(interval(j.out.Rate, replicas))))
		b.due[j.out.Broadcast] = due
	}
	return max(0, due.Sub(now))
}

// take takes the turn of j's broadcast; wait must have answered 0.
func (b *broadcasts) take(now time.Time, j *job, replicas int) {
	if j.out.Rate == 0 {
		return
	}
	due := b.due[j.out.Broadcast]
	if earliest := now.Add(-bulkLate); due.Before(earliest) {
		due = earliest
	}
	b.due[j.out.Broadcast] = due.Add(interval(j.out.Rate, replicas))
}

// sweep forgets the broadcasts that had their last message.
func (b *broadcasts) sweep(now time.Time) {
	for id, due := range b.due {
		if now.Sub(due) > forgetBroadcast {
			delete(b.due, id)
		}
	}
}

// hasRoom tells whether broadcasts may be sent: with what conversations leave.
func (e *engine) hasRoom() bool {
	return e.inFlight < e.limit.Limit()/2 && len(e.ready) == 0 && e.parked < e.Prefetch/4
}

// bulkNow is the channel to take the next broadcast's message from, nil while
// there is one in hand that waits or there is no room. Only one waits here, and
// outside of its page and its recipient's line: no conversation is behind it.
func (e *engine) bulkNow() <-chan *job {
	if e.next != nil {
		e.sendNext()
	}
	if e.next != nil || !e.hasRoom() {
		return nil
	}
	return e.bulk
}

// takeBulk takes the message of a broadcast.
func (e *engine) takeBulk(j *job) {
	e.next, e.nextAt = j, time.Time{}
	e.sendNext()
}

// sendNext lets the broadcast's message in hand go where it can: to the others
// of its page when it is due and they leave room, or back to its queue when
// its page is in excess, because in the page's lane conversations would wait
// behind all of the broadcast.
func (e *engine) sendNext() {
	now, j := e.Now(), e.next
	switch {
	case !j.delivery.Live():
		e.next = nil
		e.metrics.stale.Inc()
	case j.fault != nil:
		e.next = nil
		e.arrive(j)
	case e.inExcess(j):
		e.next = nil
		e.giveBack(j, bulkRest)
	case !e.hasRoom() || e.pageIsBusy(j):
		// Whatever changes that is an event of the loop, which asks again.
	default:
		if wait := e.broadcasts.wait(now, j, e.counted()); wait > 0 {
			e.alarmNext(now.Add(wait))
			return
		}
		e.next = nil
		e.broadcasts.take(now, j, e.counted())
		e.arrive(j)
	}
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

// alarmNext makes the loop turn when the message in hand is due.
func (e *engine) alarmNext(at time.Time) {
	if !at.Equal(e.nextAt) {
		e.nextAt = at
		heap.Push(&e.alarms, alarm{at: at})
	}
}

// counted is the number of replicas as the broker last said.
func (e *engine) counted() int { return int(max(1, e.replicas.Load())) }
