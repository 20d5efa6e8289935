package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// A lane is a queue of one page and class, for as long as that has more than
// the partition should hold for it.
//
// It begins with a token: a message on the page's partition that names the lane
// and is confirmed before the lane is declared. Whoever owns the partition
// holds the token without acknowledging it, and consumes the lane. When it ends,
// however it does, the next owner is delivered the token and consumes the lane,
// so no message of a lane is ever forgotten. The lane is deleted before its token
// is acknowledged.
//
// No two lanes have the same name. Only who makes one declares it, so nothing is
// declared that may still be being deleted. A lane that is sick, or about to be
// deleted, is retired: nothing goes there any more, and its page gets another one when
// it needs it. What is in it still comes out, and once it is empty it goes.
//
// While a lane is in use all of its page's messages go there, behind those that
// are in it. Once nobody waits for the page's pace a marker goes behind them all,
// and what comes next waits for it. When the marker comes out of the lane nothing
// else is in it, and the page's messages are sent directly again: so their order
// stays, and a page that is busy all the time leaves excess, too.
const (
	// declareTime is how long the broker may take to make a lane.
	declareTime = 2 * time.Second
	// markerTime is how long a page's messages wait for the marker in its lane:
	// longer than a healthy broker needs, and no longer than a call takes. After
	// that they go behind it.
	markerTime = 500 * time.Millisecond
	// markerPause is how long a lane that took no marker is left alone.
	markerPause = time.Minute
	// linger is how long an empty lane is kept for the page's next burst.
	linger = time.Minute
	// renewTime is how long a token is held: less than half of what RabbitMQ
	// takes for a hung consumer, 30 minutes.
	renewTime = 10 * time.Minute
	// lostTime is how long a token that went back, or was lost with its connection,
	// may take to be delivered again. What is not, is another replica's.
	lostTime = 10 * time.Second
	// sickLane is how long a page waits for its lane, or a message until the lane
	// takes it. After that they go on without it: later, and not in order. A broker
	// that is restarted, or elects leaders, needs less. As long is waited for what is
	// in a lane that was retired.
	sickLane = 20 * time.Second
	// longestRest is how long at most a retired lane is left alone of which nothing came,
	// twice as long each time from linger on. RabbitMQ may end the connection of who
	// consumes a queue that is broken.
	longestRest = 10 * time.Minute
	// mostRetired is how many lanes of one page and class there may be that are still to
	// be deleted, before it is made another one: the replica has lanes for others, too.
	mostRetired = 4
	// laneBudget, shared by the lanes there are when one is opened, bounds what
	// that holds: four hold LanePrefetch each, all 128 some 300,000 together.
	laneBudget = 1 << 16
)

// lane is one page's lane, as its owner knows it.
type lane struct {
	line  *line
	id    string // the page, and when it was made
	queue string
	owner *source // the partition's subscription for which this replica owns it
	src   *source // nil: not consumed

	token   *held     // nil: it is on its way here
	tokenAt time.Time // when it came, or went
	lost    bool      // it was here and went, back to its queue or with its connection

	open    bool      // it exists
	inUse   bool      // all of its page's messages go there, but for answers that pass
	answers bool      // answers went there too: those after them do
	busy    bool      // something is asked of the broker
	failing time.Time // since when it has taken nothing, or was not found; zero: it serves
	moving  int       // messages on their way to it
	marker  string    // id of the marker that is in it, or on its way; empty: none
	marking bool      // its page's messages wait for the marker
	empty   time.Time // when it was found empty, or retired; zero: it was neither, since it took something
	came    time.Time // when something came out of it last, or it was consumed
	barren  int       // how often it was consumed in a row and nothing came
	rest    time.Time // until when it is left alone, if it is retired and not consumed
	gone    bool      // it is forgotten

	since      time.Time // when its page was in excess first; zero: it was not yet
	overflowed int       // messages that were moved to it, of all
}

// lanes is those of this replica.
type lanes struct{ list []*lane }

// of returns the lane of a queue, nil if it is not known.
func (s *lanes) of(name string) *lane {
	if i := slices.IndexFunc(s.list, func(k *lane) bool { return k.queue == name }); i >= 0 {
		return s.list[i]
	}
	return nil
}

// retired counts the lanes of a page that has none in use.
func (s *lanes) retired(key excess.Key) (n int) {
	for _, k := range s.list {
		if k.line.key == key {
			n++
		}
	}
	return n
}

// isRetired reports whether nothing goes to a lane any more.
func (k *lane) isRetired() bool { return k.line.lane != k }

// awaitsLane reports whether m must wait for its page's lane to be found, or found
// empty, because older messages may be there.
func (l *line) awaitsLane(m *held) bool {
	return l.lane != nil && l.lane.inUse && (!l.lane.open || l.lane.marking) && m.source.lane == nil && !m.tried
}

// fail notes that the broker has not taken something for a lane, or does not tell
// whether there is one.
func (k *lane) fail(now time.Time) {
	if k.failing.IsZero() {
		k.failing = now
	}
}

// serve notes that a lane has taken something, or is there.
func (k *lane) serve() { k.failing = time.Time{} }

// retire has nothing go to a lane any more. Its page goes on without it, and gets
// another one when it needs it.
func (e *engine) retire(k *lane) {
	if k.isRetired() {
		return
	}
	k.inUse, k.marking, k.marker = false, false, ""
	k.rest = e.Now().Add(linger)
	if k.empty.IsZero() {
		k.empty = e.Now()
	}
	k.line.lane = nil
	e.gate.Leave(k.line.key)
	e.pages.mark(k.line)
}

// overflow moves what waits of a page, and came from the partition, to its lane.
// Behind latest, if it is not nil, all others went there before it. It returns
// false when that must wait for the lane to be made.
func (e *engine) overflow(l *line, latest *held) bool {
	k := l.lane
	switch {
	case k == nil && (len(e.lanes.list) >= e.Lanes || e.lanes.retired(l.key) >= mostRetired || e.Now().Before(l.noLane)):
		e.postponeAll(l)
		return true
	case k == nil:
		p := e.sources.partitions[e.Broker.Topology().PartitionOf(l.key.Page)]
		if p.src == nil || p.src.leaving {
			return false
		}
		e.makeLane(l, p.src)
		return false
	case !k.failing.IsZero() && (!k.open || k.moving >= e.sickRoom()):
		e.postponeAll(l)
		return true
	}
	if !k.inUse {
		k.inUse = true
		e.gate.Enter(e.Now(), l.key)
		e.logExcess(k)
	}
	k.empty = time.Time{}
	var list []*held
	if latest != nil && !latest.isAnswer() && l.direct-l.answers == 1 { // as with each message of a page in excess
		list = l.recipients[latest.out.To].remove(e.mayMove(l))
	} else {
		list = l.remove(e.mayMove(l))
	}
	for _, m := range list {
		k.answers = k.answers || m.isAnswer()
		k.moving++
		k.overflowed++
		to := queue.Message{Queue: k.queue, ID: m.delivery.ID, Body: e.encode(m), Headers: m.delivery.Headers}
		e.move(m, destination{lane: k}, to)
	}
	return true
}

// mayMove returns a function that reports whether a message that waits came from
// the partition and may go behind others.
func (e *engine) mayMove(l *line) func(*held) bool {
	pass := e.answersPass(l) // before any is moved
	return func(m *held) bool {
		return m.source.lane == nil && !m.source.leaving && !m.tried && m.out.Priority() != message.PriorityBroadcast && (!pass || !m.isAnswer())
	}
}

// logExcess logs that a page has entered excess. A lane outlives its page's excess
// by linger, so a page that enters it again and again is logged once.
func (e *engine) logExcess(k *lane) {
	if k.since.IsZero() {
		k.since = e.Now()
		e.Log.Info("page is in excess", "page", k.line.key.Page, "class", k.line.key.Class)
	}
}

// postponeAll moves what waits of a page to a retry queue, where no lane can be
// had for it.
func (e *engine) postponeAll(l *line) {
	for _, m := range l.remove(e.mayMove(l)) {
		e.postpone(m, retryMedium)
	}
}

// newLane makes a lane known, in place of those that a subscription before had.
func (e *engine) newLane(l *line, owner *source, id string) *lane {
	k := &lane{line: l, owner: owner, id: id, queue: e.Broker.Topology().Lane(id, l.key.Class)}
	for _, old := range []*lane{e.lanes.of(k.queue), l.lane} {
		if old != nil && old.owner != owner {
			e.forgetLane(old)
		}
	}
	e.lanes.list = append(e.lanes.list, k)
	return k
}

// ask has the broker asked something about a lane, beside the engine.
func (e *engine) ask(k *lane, f func(ctx context.Context) error, then func(e *engine, err error)) {
	k.busy = true
	e.beside(declareTime, f, func(e *engine, err error) {
		k.busy = false
		then(e, err)
	})
}

// makeLane makes a lane for a page, with a token.
func (e *engine) makeLane(l *line, owner *source) {
	now := e.Now()
	k := e.newLane(l, owner, message.LaneID(l.key.Page, now))
	l.lane = k
	token := e.newToken(k, "lane/"+k.id)
	e.ask(k, func(ctx context.Context) error {
		if err := e.Broker.Publish(ctx, token); err != nil {
			return err
		}
		return e.Broker.Declare(ctx, e.Broker.Topology().LaneSpec(k.queue))
	}, func(e *engine, err error) {
		switch {
		case k.gone:
		case k.owner.leaving:
			e.forgetLane(k)
		case err != nil: // there may be a token, and a queue: it is looked for later
			e.Log.Warn("no lane for a page; its messages wait in a retry queue", "queue", k.queue, "err", err)
			l.noLane = e.Now().Add(retryMedium)
			e.postponeAll(l)
			e.retire(k)
		default:
			e.consumeLane(k)
		}
	})
}

// findLane consumes a lane that somebody has made, if it is there. Without a queue it
// was deleted, or its owner was lost before it could declare it, or will do so yet.
func (e *engine) findLane(k *lane) {
	var info queue.Info
	e.ask(k, func(ctx context.Context) error {
		var err error
		info, err = e.Broker.Inspect(ctx, k.queue)
		return err
	}, func(e *engine, err error) {
		switch {
		case k.gone:
		case k.owner.leaving:
			e.forgetLane(k)
		case errors.Is(err, queue.ErrUnroutable) && !k.isRetired():
			e.retire(k)
		case k.isRetired() && (errors.Is(err, queue.ErrUnroutable) || err == nil && info == queue.Info{}):
			e.deleteLane(k)
		case err != nil && k.isRetired():
			k.rest = e.Now().Add(linger)
		case err != nil: // there may be messages in it: until that is known, the page waits
			e.Log.Warn("lane cannot be consumed; trying again", "queue", k.queue, "err", err)
			k.fail(e.Now())
			e.retryLane(k)
		default:
			e.consumeLane(k)
		}
	})
}

// newToken is the message that makes whoever is delivered it the lane's owner.
func (e *engine) newToken(k *lane, id string) queue.Message {
	return queue.Message{
		Queue: e.Broker.Topology().OutboundOf(k.line.key.Page), ID: id,
		Body: []byte(k.line.key.Class), Headers: map[string]string{message.HeaderLane: k.id},
	}
}

// consumeLane subscribes to a lane that exists.
func (e *engine) consumeLane(k *lane) {
	k.open, k.came = true, e.Now()
	k.barren++ // until something comes
	k.serve()
	prefetch := min(e.LanePrefetch, max(MinLanePrefetch, laneBudget/len(e.lanes.list)))
	if k.src = e.open(k.queue, k.owner.partition, k, prefetch); k.src == nil {
		e.retryLane(k)
	}
	if !k.isRetired() {
		e.goBehind(k)
	}
}

// retryLane looks later once more for a lane that is not consumed.
func (e *engine) retryLane(k *lane) {
	e.timers.add(e.Now().Add(consumeRetry), func() {
		if !k.isRetired() && k.src == nil && !k.busy && !k.owner.leaving {
			e.findLane(k)
		}
	})
}

// takeToken takes a lane over, or keeps the new token of one that is ours. The page's
// newest lane is in use, as far as is known, and the others are retired.
func (e *engine) takeToken(m *held) {
	l, id := e.pages.line(m.key()), m.delivery.Headers[message.HeaderLane]
	k := e.lanes.of(e.Broker.Topology().LaneOf(m.delivery.Message))
	switch {
	case m.source.leaving: // it goes back with the subscription
		if k != nil && k.owner == m.source {
			k.lost = true
		}
	case k == nil || k.owner != m.source:
		k = e.newLane(l, m.source, id)
		k.token, k.tokenAt = m, e.Now()
		if now := l.lane; now == nil || now.queue < k.queue {
			if now != nil {
				now.since = time.Time{} // the page is still in excess
				e.retire(now)
			}
			l.lane = k
			k.inUse, k.answers, k.since = true, true, k.tokenAt // the owner before may have put some there
			e.Log.Info("lane of a page in excess taken over", "page", l.key.Page, "class", l.key.Class)
			e.gate.Enter(e.Now(), l.key)
		}
		e.findLane(k)
	default:
		old := k.token
		k.token, k.tokenAt, k.lost = m, e.Now(), false
		if old != nil {
			e.endToken(old)
		}
	}
	e.pages.mark(l)
}

// endToken takes a token or marker off its queue.
func (e *engine) endToken(m *held) {
	if err := m.delivery.Ack(); err != nil {
		e.Log.Debug("acknowledge lane's token", "id", m.delivery.ID, "err", err)
	}
	e.letGo(m)
}

// leaveLanes gives the lanes of a partition up.
func (e *engine) leaveLanes(owner *source, reason string) {
	for _, k := range e.lanes.list {
		if k.owner == owner && k.src != nil {
			e.leave(k.src, reason)
		}
	}
}

// lanesOpen reports whether a lane of a source that leaves is not given up yet,
// or its token not here: it must be in the partition before what the next owner
// is delivered. Late, only what is being given back is waited for.
func (e *engine) lanesOpen(owner *source, late bool) bool {
	return slices.ContainsFunc(e.lanes.list, func(k *lane) bool {
		goes := k.src != nil && (k.src.phase == returning || k.src.phase == closing)
		return k.owner == owner && (goes || !late && (k.src != nil && k.src.phase != over || k.busy || k.token == nil && !k.lost || k.moving > 0))
	})
}

// laneClosed follows the end of a lane's subscription.
func (e *engine) laneClosed(k *lane) {
	k.src = nil
	switch {
	case k.gone || k.owner.leaving:
	case k.lost:
		e.forgetLane(k)
	case !k.isRetired() && (k.inUse || k.empty.IsZero()): // what was held for too long comes again
		e.consumeLane(k)
	default:
		e.deleteLane(k)
	}
}

// deleteLane retires a lane and deletes it, and then its token. Where the broker does
// not do that now, somebody else consumes it or something is in it, it is left alone for
// a while.
func (e *engine) deleteLane(k *lane) {
	e.retire(k)
	e.ask(k, func(ctx context.Context) error {
		return e.Broker.Delete(ctx, k.queue, e.Broker.Topology().OutboundOf(k.line.key.Page))
	}, func(e *engine, err error) {
		switch {
		case k.gone:
		case errors.Is(err, queue.ErrInUse) && k.barren == 0: // something is in it
			e.findLane(k)
		case errors.Is(err, queue.ErrInUse): // or a lost connection consumes it until the broker gives that up
			e.Log.Debug("lane is not deleted yet", "queue", k.queue, "err", err)
			k.rest = e.Now().Add(min(linger<<min(k.barren-1, 10), longestRest))
		case err == nil:
			if k.token != nil {
				e.endToken(k.token)
			}
			e.forgetLane(k)
			if !k.since.IsZero() {
				e.Log.Info("page is out of excess", "page", k.line.key.Page, "class", k.line.key.Class,
					"lasted", k.empty.Sub(k.since), "overflowed", k.overflowed)
			}
		default:
			e.Log.Warn("lane is not deleted yet; trying again", "queue", k.queue, "err", err)
			k.rest = e.Now().Add(linger)
		}
	})
}

// forgetLane drops what is known of a lane; its page's line may be gone then.
func (e *engine) forgetLane(k *lane) {
	e.retire(k)
	e.lanes.list = slices.DeleteFunc(e.lanes.list, func(o *lane) bool { return o == k })
	k.gone = true
}

// checkLanes finds lanes that are sick, empty, no longer needed, or another's. A token
// that is old goes back to its queue, and comes again.
func (e *engine) checkLanes(now time.Time) {
	for _, k := range slices.Clone(e.lanes.list) {
		if !k.isRetired() && !k.failing.IsZero() && now.Sub(k.failing) > sickLane {
			e.Log.Warn("lane is sick; its page goes on without it, and loses its order", "queue", k.queue)
			k.since = time.Time{} // the page is still in excess
			e.retire(k)
		}
		switch {
		case k.owner.phase == closing || k.owner.partition.src != k.owner:
			if k.src == nil && !k.busy {
				e.forgetLane(k)
			}
		case k.owner.leaving || k.busy || k.src != nil && k.src.leaving:
		case k.token != nil && (!k.token.delivery.Live() || now.Sub(k.tokenAt) > renewTime):
			e.requeue(k.token)
			k.token, k.tokenAt, k.lost = nil, now, true
		case k.lost && now.Sub(k.tokenAt) > lostTime:
			if k.src == nil {
				e.forgetLane(k)
			} else {
				e.leave(k.src, "lost")
			}
		case k.isRetired():
			e.checkRetired(k, now)
		case k.src == nil:
		case k.inUse && k.marker == "": // at a random time, because events may come with the ticks
			e.timers.add(now.Add(time.Duration(e.Random()*float64(tickEvery))), func() { e.sendMarker(k) })
		case !k.inUse && k.token != nil && k.src.held == 0 && now.Sub(k.empty) > linger:
			e.leave(k.src, "idle")
		}
	}
}

// checkRetired gives a retired lane up of which nothing comes any more, to delete it,
// and consumes one that could not be deleted.
func (e *engine) checkRetired(k *lane, now time.Time) {
	switch {
	case k.moving > 0: // for sickLane at most
	case k.src != nil && k.src.held == 0 && now.Sub(k.came) > sickLane:
		e.leave(k.src, "idle")
	case k.src == nil && now.After(k.rest):
		e.findLane(k)
	}
}

// sendMarker finds out whether a lane is empty, unless messages wait for their
// page's pace. What has come out of it is in order here; what is in it comes out
// before the marker.
func (e *engine) sendMarker(k *lane) {
	if k.isRetired() || k.busy || !k.inUse || k.src == nil || k.src.leaving || k.marker != "" || k.moving > 0 || len(k.line.ready) > 0 {
		return
	}
	now := e.Now()
	marker := e.newToken(k, fmt.Sprintf("mark/%s/%d", k.line.key.Page, now.UnixNano()))
	marker.Queue = k.queue
	k.marker, k.marking = marker.ID, true
	e.ask(k, func(ctx context.Context) error { return e.Broker.Publish(ctx, marker) }, func(e *engine, err error) {
		if err == nil {
			k.serve()
		}
		if err == nil || k.marker != marker.ID {
			return
		}
		e.Log.Warn("send lane's marker", "queue", k.queue, "err", err)
		k.fail(e.Now())
		if errors.Is(err, queue.ErrUnroutable) { // somebody has deleted it, or is about to
			e.retire(k)
			return
		}
		e.timers.add(e.Now().Add(markerPause), func() {
			if k.marker == marker.ID { // it may come all the same
				k.marker = ""
			}
		})
		e.goBehind(k)
	})
	e.timers.add(now.Add(markerTime), func() {
		if k.marking && k.marker == marker.ID {
			e.goBehind(k)
		}
	})
}

// goBehind has what waited for a lane go there, behind what is in it, whether or
// not it could be sent now.
func (e *engine) goBehind(k *lane) {
	k.marking = false
	k.line.goBehind = true
	e.pages.mark(k.line)
}

// takeMarker ends the use of a lane whose marker came in time.
func (e *engine) takeMarker(m *held) {
	k := m.source.lane
	if m.source.leaving { // it goes back with the subscription
		return
	}
	e.endToken(m)
	if k.marker != m.delivery.ID { // of an owner before
		return
	}
	empty := k.marking
	k.marker, k.marking = "", false
	if empty {
		k.inUse, k.answers, k.empty = false, false, e.Now()
		e.gate.Leave(k.line.key)
		e.pages.mark(k.line)
	}
}
