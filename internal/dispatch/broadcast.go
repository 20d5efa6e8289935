package dispatch

import (
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// asideTime is the period of the look at broadcasts that stand aside. After it, or when
	// one goes round at once, core is told that their page is busy.
	asideTime = 250 * time.Millisecond
	// busyTime is the time for which core puts no more of a page's broadcasts on the
	// queue once it is told. It is told again for as long as any wait.
	busyTime = 3 * time.Second
)

// standAside has a broadcast wait until nothing else of its page does, or go round by a retry
// queue, so that the partition has room for conversations and for other pages.
func (p *pages) standAside(l *line, m *held, now time.Time) {
	switch {
	case p.isLate(m, now):
		p.settler.bury(m, death{reason: message.ReasonExpired})
	case l.leavesRoom(m.source):
		l.aside = append(l.aside, m)
		p.watchAside(l)
	default:
		p.settler.postpone(m, p.nextRound(l, m, now), p.settler.tellBusy(l, m, now)...)
	}
}

// leavesRoom reports whether a page's broadcasts and calls leave as much room as they take, and
// a small part of the partition to conversations.
func (l *line) leavesRoom(s *source) bool {
	return len(l.aside)+l.inFlight <= s.room()-s.prefetch/smallPart
}

// nextRound counts a broadcast that goes round, and returns its delay. In each second half as
// many of a partition as it may hold come back after a second, when there may be room.
func (p *pages) nextRound(l *line, m *held, now time.Time) time.Duration {
	s := m.source
	if now.Sub(s.roundSince) >= retryShort {
		s.rounds, s.roundSince = 0, now
	}
	if s.rounds++; 2*s.rounds > s.prefetch || !p.isServed(l, now) {
		return retryMedium
	}
	return retryShort
}

// isServed reports whether a page's broadcasts are sent, with what conversations leave.
func (p *pages) isServed(l *line, now time.Time) bool {
	return !p.gate.InExcess(l.key) && !l.traffic.isFull(now) && !p.isShut(l.key, now)
}

// sendAside lets broadcasts go with what conversations leave. They stand aside, outside of
// their recipients' order, until nothing else of their page could be sent. People who wait
// for an earlier call of their own do not count: in a lively room somebody always does. But no
// more go behind such calls than the partition has room for.
func (e *engine) sendAside(l *line, now time.Time) {
	for len(l.aside) > 0 && len(l.ready) == 0 && !e.gate.InExcess(l.key) && !l.traffic.isFull(now) && e.calls.hasRoom() && !e.ending && l.fromPartition <= l.aside[0].source.free() {
		m := l.aside[0]
		l.aside[0] = nil
		l.aside = l.aside[1:]
		e.pages.push(l, m)
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

// expireAside sends those round that cannot be sent soon. Core is told that their page is
// busy together with the move of one of them.
func (p *pages) expireAside(l *line) {
	now := p.Now()
	l.asideWatched = false
	for len(l.aside) > 0 && now.Sub(l.aside[0].since) >= asideTime {
		m := l.aside[0]
		late := p.isLate(m, now)
		soon := !late && now.Sub(m.since) < retryLong && l.leavesRoom(m.source) && p.isServed(l, now)
		var news []queue.Message
		if !late {
			news = p.settler.tellBusy(l, m, now)
		}
		if soon && len(news) == 0 {
			break
		}
		l.aside[0] = nil
		l.aside = l.aside[1:]
		switch {
		case late:
			p.settler.bury(m, death{reason: message.ReasonExpired})
		case soon:
			p.settler.postpone(m, retryShort, news...)
		default:
			p.settler.postpone(m, p.nextRound(l, m, now), news...)
		}
	}
	if len(l.aside) > 0 {
		p.watchAside(l)
	}
	p.mark(l)
}

// tellBusy is the event that tells core, once in a while, that a page takes no
// more broadcasts.
func (s *settler) tellBusy(l *line, m *held, now time.Time) []queue.Message {
	if s.NoFeedback || now.Sub(l.traffic.busy) < busyTime/3 {
		return nil
	}
	f, ok := s.feedback(m, death{reason: message.FeedbackBusy, at: now})
	if !ok {
		return nil
	}
	l.traffic.busy = now
	return []queue.Message{f}
}
