package dispatch

import (
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// asideTime is the wait of a broadcast's message for its page, after which core is told
	// that the page is busy. Then the message goes round by a retry queue, at once if half of
	// what the partition may hold is held, and after retryMedium if there is room.
	asideTime = 250 * time.Millisecond
	// busyTime is the time for which core puts no more of a page's broadcasts on the
	// queue once one has gone round. It is told again for as long as any does.
	busyTime = 3 * time.Second
)

// sendAside lets broadcasts go with what conversations leave. They stand aside, outside of
// their recipients' order, until nothing else of their page could be sent. People who wait
// for an earlier call of their own do not count: in a lively room somebody always does. But no
// more go behind such calls than the partition has room for.
func (e *engine) sendAside(l *line, now time.Time) {
	for len(l.aside) > 0 && len(l.ready) == 0 && !e.gate.InExcess(l.key) && !l.traffic.isFull(now) && e.calls.hasRoom() && !e.ending && l.fromPartition <= l.aside[0].source.free() {
		m := l.aside[0]
		l.aside[0] = nil
		l.aside = l.aside[1:]
		l.push(m)
		for e.step(l, now) {
		}
	}
}

// watchAside looks a little later whether broadcasts still stand aside.
func (p *pages) watchAside(l *line) {
	if !l.asideWatched {
		l.asideWatched = true
		p.timers.add(p.Now().Add(asideTime), func() { p.expireAside(l) })
	}
}

// expireAside sends those round that have waited for too long, and tells core
// that their page is busy.
func (p *pages) expireAside(l *line) {
	now := p.Now()
	l.asideWatched = false
	for len(l.aside) > 0 && now.Sub(l.aside[0].since) >= asideTime {
		m := l.aside[0]
		late := p.isLate(m, now)
		if !late {
			p.tellBusy(l, m, now)
			if s := m.source; 2*(s.inHand-s.moving) <= s.prefetch && now.Sub(m.since) < retryMedium {
				break
			}
		}
		l.aside[0] = nil
		l.aside = l.aside[1:]
		if late {
			p.settler.bury(m, death{reason: message.ReasonExpired})
		} else {
			p.settler.postpone(m, retryMedium)
		}
	}
	if len(l.aside) > 0 {
		p.watchAside(l)
	}
	p.mark(l)
}

// tellBusy tells core, once in a while, that a page takes no more broadcasts.
func (p *pages) tellBusy(l *line, m *held, now time.Time) {
	if p.NoFeedback || now.Sub(l.traffic.busy) < busyTime/3 {
		return
	}
	f, err := p.settler.feedback(m, death{reason: message.FeedbackBusy, at: now})
	if err != nil {
		p.Log.Error("core is not told of a busy page", "err", err)
		return
	}
	l.traffic.busy = now
	p.publish(askBroker, []queue.Message{f}, func(err error) {
		if err != nil {
			p.Log.Warn("tell core of a busy page", "err", err)
		}
	})
}
