package core

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"chatclub/internal/backoff"
)

// waitReason says why events of a page wait in core. The list is closed.
type waitReason string

const (
	waitsForBroker waitReason = "broker" // it is silent
	waitsForStep   waitReason = "step"   // of the event in hand, which failed and is tried again: database or broker
	waitsForWorker waitReason = "worker" // all that the partition may have are taken
)

const (
	// watchEvery is the period of looking at what waits.
	watchEvery = time.Second
	// longWait is the time without progress of a page from which on its reason is checked.
	longWait = 10 * time.Second
	// overdue is the time for which a reason that does not hold may be one that has just ended:
	// a worker is on its way.
	overdue = 5 * time.Second
	// failureHolds is the time after a failed step in which another failure, or the end, comes:
	// a step ends within 10 s, and the longest pause is 2 s.
	failureHolds = 15 * time.Second
	// sayAgain is the period of saying that the same page waits.
	sayAgain = time.Minute
)

// watch looks once a second whether the pages that wait for long do so for a reason that
// holds, until ctx ends.
func (c *Core) watch(ctx context.Context) {
	for backoff.Sleep(ctx, watchEvery) {
		now := time.Now()
		c.pages.check(now, c.waitsOutside(now), func(page string, g *page) {
			c.metrics.unexplained.Inc()
			c.cfg.Log.LogAttrs(ctx, slog.LevelError, "events wait without a reason that holds", slog.String("page", page),
				slog.Bool("in_hand", g.busy), slog.Int("waiting", len(g.waiting)), slog.Time("since", g.moved))
		})
	}
}

// waitsOutside returns why an event in hand makes no progress, "" if nothing explains that.
func (c *Core) waitsOutside(now time.Time) waitReason {
	switch {
	case c.cfg.Broker.IsSilent():
		return waitsForBroker
	case now.Sub(time.Unix(0, c.retry.failed.Load())) <= failureHolds:
		return waitsForStep
	}
	return ""
}

// check calls say, under the lock, for each page that has made no progress for long without a
// reason. outside is the reason of events in hand. Workers that sleep are woken.
func (p *pages) check(now time.Time, outside waitReason, say func(page string, g *page)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, g := range p.pages {
		if now.Sub(g.moved) < longWait || p.whyLocked(g, outside) != "" {
			g.odd = time.Time{}
			continue
		}
		if g.odd.IsZero() {
			g.odd = now
		}
		if now.Sub(g.odd) >= overdue {
			g.odd = now.Add(sayAgain - overdue)
			say(name, g)
			p.wake.Broadcast()
		}
	}
}

// whyLocked returns why a page makes no progress, "" if nothing explains that.
func (p *pages) whyLocked(g *page, outside waitReason) waitReason {
	switch {
	case g.busy:
		return outside
	case slices.Contains(p.ready, g) && (p.idle == 0 || p.busy[g.waiting[0].delivery.Queue] >= p.share):
		return waitsForWorker
	}
	return ""
}
