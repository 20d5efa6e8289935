package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
// is acknowledged: an owner that finds a token without a queue makes it anew, and
// finds it empty.
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
	// sickLane is how long a page waits for its lane to be made, or a message until
	// the lane takes it. After that they go on without it: later, and not in order.
	// A broker that is restarted, or elects leaders, needs less. One that is locked is
	// not waited for: it is hardly locked for longer than declareTime unless it was being
	// deleted, and so was empty, by a program that is lost.
	sickLane = 20 * time.Second
	// laneBudget, shared by the lanes there are when one is opened, bounds what
	// that holds: four hold LanePrefetch each, all 128 some 300,000 together.
	laneBudget = 1 << 16
)

// lane is one page's lane, as its owner knows it.
type lane struct {
	line  *line
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
	failing time.Time // since when it has taken nothing, or could not be made; zero: it serves
	overdue bool      // it has been failing for long, or is not deleted in time: its page goes on without it
	moving  int       // messages on their way to it
	marker  string    // id of the marker that is in it, or on its way; empty: none
	marking bool      // its page's messages wait for the marker
	empty   time.Time // when it was found empty; zero: it was not, since

	since      time.Time // when its page was in excess first; zero: it was not yet
	overflowed int       // messages that were moved to it, of all
}

// lanes is those of this replica.
type lanes struct{ list []*lane }

// awaitsLane reports whether m must wait for its page's lane to be made or found
// empty, because older messages may be there.
func (l *line) awaitsLane(m *held) bool {
	return l.lane != nil && l.lane.inUse && !l.lane.overdue && (!l.lane.open || l.lane.marking) && m.source.lane == nil && !m.tried
}

// fail notes that the broker has not taken something for a lane, or has not made it.
func (k *lane) fail(now time.Time) {
	if k.failing.IsZero() {
		k.failing = now
	}
}

// serve notes that a lane has taken something, or was made.
func (k *lane) serve() { k.failing, k.overdue = time.Time{}, false }

// goWithout has the page of a lane that is sick go on without it, until it serves.
func (e *engine) goWithout(k *lane) {
	if k.overdue {
		return
	}
	e.Log.Warn("lane is sick; its page goes on without it, and loses its order", "queue", k.queue)
	k.overdue = true
	e.pages.mark(k.line)
}

// overflow moves what waits of a page, and came from the partition, to its lane.
// Behind latest, if it is not nil, all others went there before it. It returns
// false when that must wait for the lane to be made.
func (e *engine) overflow(l *line, latest *held) bool {
	k := l.lane
	switch {
	case k == nil && len(e.lanes.list) >= e.Lanes:
		e.postponeAll(l)
		return true
	case k == nil:
		p := e.sources.partitions[e.Broker.Topology().PartitionOf(l.key.Page)]
		if p.src == nil || p.src.leaving {
			return false
		}
		e.makeLane(e.newLane(l, p.src), true)
		return false
	case k.overdue, !k.failing.IsZero() && (!k.open || k.moving >= e.sickRoom()):
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

// newLane makes a lane known, in place of the one that a subscription before had.
func (e *engine) newLane(l *line, owner *source) *lane {
	k := &lane{line: l, owner: owner, queue: e.Broker.Topology().Lane(l.key.Page, l.key.Class)}
	e.lanes.list = append(slices.DeleteFunc(e.lanes.list, func(o *lane) bool { return o == l.lane }), k)
	l.lane = k
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

// makeLane declares a lane, and sends its token where there is none yet.
func (e *engine) makeLane(k *lane, withToken bool) {
	token := e.newToken(k, e.Now())
	e.ask(k, func(ctx context.Context) error {
		if withToken {
			if err := e.Broker.Publish(ctx, token); err != nil {
				return err
			}
		}
		return e.declareLane(ctx, k.queue)
	}, func(e *engine, err error) { e.laneMade(k, err) })
}

// errNoLane is why a lane cannot be used that does not exist, so that nothing
// is in it.
var errNoLane = errors.New("there is no such queue, and none can be made")

// declareLane makes a lane unless it exists.
func (e *engine) declareLane(ctx context.Context, name string) error {
	err := e.Broker.Declare(ctx, e.Broker.Topology().LaneSpec(name))
	if err == nil {
		return nil
	}
	if _, missing := e.Broker.Inspect(ctx, name); errors.Is(missing, queue.ErrUnroutable) {
		return fmt.Errorf("%w: %w", errNoLane, err)
	}
	return err
}

// newToken is the message that makes whoever is delivered it the lane's owner.
func (e *engine) newToken(k *lane, now time.Time) queue.Message {
	return queue.Message{
		Queue: e.Broker.Topology().OutboundOf(k.line.key.Page), ID: fmt.Sprintf("lane/%s/%d", k.line.key.Page, now.UnixNano()),
		Body: []byte(k.line.key.Class), Headers: map[string]string{message.HeaderLane: k.line.key.Page},
	}
}

// laneMade begins to use a lane that exists now.
func (e *engine) laneMade(k *lane, err error) {
	l := k.line
	switch {
	case l.lane != k:
		return
	case k.owner.leaving:
		e.forgetLane(k)
	case err != nil && k.token != nil && !errors.Is(err, errNoLane): // there may be messages in it: until it is there, the page waits
		e.Log.Warn("lane cannot be consumed; trying again", "queue", k.queue, "err", err)
		k.fail(e.Now())
		if errors.Is(err, queue.ErrLocked) {
			e.goWithout(k)
		}
		e.retryLane(k, func() { e.makeLane(k, false) })
	case err != nil:
		e.Log.Warn("no lane for a page; its messages wait in a retry queue", "queue", k.queue, "err", err)
		if k.token != nil {
			e.endToken(k.token)
		}
		e.postponeAll(l)
		e.forgetLane(k)
	default:
		k.open = true
		k.serve()
		e.consumeLane(k)
		e.goBehind(k)
	}
}

// consumeLane subscribes to a lane that exists.
func (e *engine) consumeLane(k *lane) {
	prefetch := min(e.LanePrefetch, max(MinLanePrefetch, laneBudget/len(e.lanes.list)))
	if k.src = e.open(k.queue, k.owner.partition, k, prefetch); k.src == nil {
		e.retryLane(k, func() { e.makeLane(k, false) }) // which changes nothing where it exists
	}
}

// retryLane tries again later what has failed with a lane that is not consumed.
func (e *engine) retryLane(k *lane, again func()) {
	e.timers.add(e.Now().Add(consumeRetry), func() {
		if k.line.lane == k && k.src == nil && !k.busy && !k.owner.leaving {
			again()
		}
	})
}

// takeToken takes a lane over, or keeps the new token of one that is ours.
func (e *engine) takeToken(m *held) {
	l := e.pages.line(m.key())
	k := l.lane
	switch {
	case m.source.leaving: // it goes back with the subscription
		if k != nil && k.owner == m.source {
			k.lost = true
		}
	case k == nil || k.owner != m.source:
		k = e.newLane(l, m.source)
		k.token, k.tokenAt, k.inUse, k.answers = m, e.Now(), true, true // the owner before may have put some there
		k.since = k.tokenAt
		e.Log.Info("lane of a page in excess taken over", "page", l.key.Page, "class", l.key.Class)
		e.gate.Enter(e.Now(), l.key)
		e.makeLane(k, false)
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
	case k.line.lane != k || k.owner.leaving:
	case k.lost:
		e.forgetLane(k)
	case k.inUse || k.empty.IsZero(): // what was held for too long comes again
		e.consumeLane(k)
	default:
		e.deleteLane(k)
	}
}

// deleteLane ends a lane that is empty, and then its token. Its page's messages are
// sent directly meanwhile, or wait for the next lane. Where the broker takes long, what
// would wait goes to a retry queue, and holds up nobody.
func (e *engine) deleteLane(k *lane) {
	k.open = false
	e.ask(k, func(ctx context.Context) error { return e.Broker.Delete(ctx, k.queue) }, func(e *engine, err error) {
		switch {
		case k.line.lane != k:
		case errors.Is(err, queue.ErrUnavailable): // it may be gone, or go later: until that is known it is not made anew
			e.Log.Warn("lane is not deleted yet; trying again", "queue", k.queue, "err", err)
			k.overdue = true
			e.retryLane(k, func() { e.deleteLane(k) })
		case err != nil: // it may have messages: look again
			if errors.Is(err, queue.ErrInUse) { // a lost connection consumes it until the broker gives that up
				e.Log.Debug("lane is not deleted yet", "queue", k.queue, "err", err)
			} else {
				e.Log.Warn("delete lane", "queue", k.queue, "err", err)
			}
			k.inUse = true
			e.gate.Enter(e.Now(), k.line.key)
			e.makeLane(k, false)
		default:
			if k.token != nil {
				e.endToken(k.token)
			}
			e.forgetLane(k)
			e.Log.Info("page is out of excess", "page", k.line.key.Page, "class", k.line.key.Class,
				"lasted", k.empty.Sub(k.since), "overflowed", k.overflowed)
		}
	})
}

// forgetLane drops what is known of a lane; its page's line may be gone then.
func (e *engine) forgetLane(k *lane) {
	e.lanes.list = slices.DeleteFunc(e.lanes.list, func(o *lane) bool { return o == k })
	k.line.lane = nil
	e.gate.Leave(k.line.key)
	e.pages.mark(k.line)
}

// checkLanes finds lanes that are empty, no longer needed, or another's. A token that
// is old goes back to its queue, and comes again.
func (e *engine) checkLanes(now time.Time) {
	for _, k := range slices.Clone(e.lanes.list) {
		if !k.failing.IsZero() && now.Sub(k.failing) > sickLane {
			e.goWithout(k)
		}
		switch {
		case k.owner.phase == closing || k.owner.partition.src != k.owner:
			if k.src == nil && !k.busy {
				e.forgetLane(k)
			}
		case k.owner.leaving || k.busy || !k.open || k.src == nil || k.src.leaving:
		case k.token != nil && (!k.token.delivery.Live() || now.Sub(k.tokenAt) > renewTime):
			e.requeue(k.token)
			k.token, k.tokenAt, k.lost = nil, now, true
		case k.lost && now.Sub(k.tokenAt) > lostTime:
			e.leave(k.src, "lost")
		case k.inUse && k.marker == "": // at a random time, because events may come with the ticks
			e.timers.add(now.Add(time.Duration(e.Random()*float64(tickEvery))), func() { e.sendMarker(k) })
		case !k.inUse && k.token != nil && k.src.held == 0 && now.Sub(k.empty) > linger:
			e.leave(k.src, "idle")
		}
	}
}

// sendMarker finds out whether a lane is empty, unless messages wait for their
// page's pace. What has come out of it is in order here; what is in it comes out
// before the marker.
func (e *engine) sendMarker(k *lane) {
	if k.line.lane != k || k.busy || !k.open || !k.inUse || k.src == nil || k.src.leaving || k.marker != "" ||
		k.moving > 0 || len(k.line.ready) > 0 && !k.overdue {
		return
	}
	now := e.Now()
	marker := e.newToken(k, now)
	marker.Queue, marker.ID = k.queue, fmt.Sprintf("mark/%s/%d", k.line.key.Page, now.UnixNano())
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
		if errors.Is(err, queue.ErrUnroutable) { // somebody has deleted it; the subscription waits for it
			e.ask(k, func(ctx context.Context) error { return e.declareLane(ctx, k.queue) }, func(*engine, error) {})
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
	empty := k.marking && k.line.lane == k
	k.marker, k.marking = "", false
	if empty {
		k.inUse, k.answers, k.empty = false, false, e.Now()
		e.gate.Leave(k.line.key)
		e.pages.mark(k.line)
	}
}
