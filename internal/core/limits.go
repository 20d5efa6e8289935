package core

import (
	"sync"
	"time"

	"chatclub/internal/message"
)

// Limits holds the limits of each page: those that operators ordered, else those that its
// dispatcher told, else those of the settings. A nil Limits knows none. Make one with
// NewLimits. Safe for concurrent use.
type Limits struct {
	configured message.Limits
	ordered    func(page string) message.Limits

	mu   sync.RWMutex
	told map[string]toldLimits // where they differ from the configured ones
}

// toldLimits is the limits of a page that its dispatcher told.
type toldLimits struct {
	message.Limits
	at time.Time
}

// toldTime is the time for which a page has the limits that were told. Those of its own are
// told again every five minutes while it has traffic, so the others are gone from the file.
const toldTime = 12 * time.Minute

// NewLimits returns Limits with those of the settings and of the orders, which may be nil.
func NewLimits(configured message.Limits, ordered func(page string) message.Limits) *Limits {
	if ordered == nil {
		ordered = func(string) message.Limits { return message.Limits{} }
	}
	return &Limits{configured: configured, ordered: ordered, told: make(map[string]toldLimits)}
}

// Of returns the limits of a page.
func (l *Limits) Of(page string) message.Limits {
	if l == nil {
		return message.Limits{}
	}
	l.mu.RLock()
	t := l.told[page]
	l.mu.RUnlock()
	if time.Since(t.at) > toldTime {
		t.Limits = message.Limits{}
	}
	return l.ordered(page).Or(t.Limits).Or(l.configured)
}

// tell takes the limits of a page from its dispatcher. An older dispatcher tells none.
func (l *Limits) tell(page string, limits message.Limits) {
	if l == nil || limits == (message.Limits{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if limits.Or(l.configured) == l.configured.Or(limits) {
		delete(l.told, page)
	} else {
		l.told[page] = toldLimits{limits, time.Now()}
	}
}
