package dispatch

import (
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// asideTime is the longest wait of a broadcast's message here for its page, before
	// it goes round by a retry queue.
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

// expireAside sends those round that have waited for too long, and tells core
// that their page is busy.
func (p *pages) expireAside(l *line) {
	now := p.Now()
	for len(l.aside) > 0 && now.Sub(l.aside[0].since) >= asideTime {
		m := l.aside[0]
		l.aside[0] = nil
		l.aside = l.aside[1:]
		if p.isLate(m, now) {
			p.settler.bury(m, death{reason: message.ReasonExpired})
		} else {
			p.settler.postpone(m, retryMedium, p.settler.tellBusy(l, m, now)...)
		}
	}
	p.mark(l)
}

// tellBusy is the event that tells core, once in a while, that a page takes no
// more broadcasts.
func (s *settler) tellBusy(l *line, m *held, now time.Time) []queue.Message {
	if s.NoFeedback || now.Sub(l.traffic.busy) < busyTime/3 {
		return nil
	}
	f, err := s.feedback(m, death{reason: message.FeedbackBusy, at: now})
	if err != nil {
		s.Log.Error("core is not told of a busy page", "err", err)
		return nil
	}
	l.traffic.busy = now
	return []queue.Message{f}
}
