package webhook

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// ErrUnsubscribed is the end of a webhook that failed for too long.
var ErrUnsubscribed = errors.New("the webhook failed for too long: unsubscribed")

// health follows Messenger's rules for a webhook that keeps failing.
type health struct {
	mu           sync.Mutex
	failingSince time.Time
	alerted      bool
	unsubscribed bool
}

// change is the effect of an attempt on a webhook's health.
type change uint8

const (
	unchanged    change = iota
	alert               // Messenger would write to the developer
	unsubscribed        // Messenger would send no more events
	recovered           // the webhook answers again after an alert
)

// Unsubscribed reports whether the webhook failed for so long that Messenger
// would send no more events.
func (c *Client) Unsubscribed() bool {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	return c.health.unsubscribed
}

// note enters the result of an attempt, and logs and counts the change.
func (c *Client) note(ok bool) {
	what, failing := c.health.note(ok, c.cfg.Now(), c.cfg.AlertAfter, c.cfg.UnsubscribeAfter)
	switch what {
	case unchanged:
	case alert:
		c.counts.alerts.Add(1)
		c.cfg.Log.Warn("webhook keeps failing", slog.Duration("failing_for", failing), slog.Duration("unsubscribed_after", c.cfg.UnsubscribeAfter))
	case unsubscribed:
		c.counts.unsubscribed.Add(1)
		c.cfg.Log.Error("webhook failed for too long: no more events", slog.Duration("failing_for", failing))
	case recovered:
		c.cfg.Log.Info("webhook answers again", slog.Duration("failed_for", failing))
	}
}

// note enters the result of an attempt. failing is the time since the first
// failure after the last success.
func (h *health) note(ok bool, now time.Time, alertAfter, unsubscribeAfter time.Duration) (what change, failing time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.failingSince.IsZero() {
		failing = now.Sub(h.failingSince)
	}
	if ok {
		if h.alerted {
			what = recovered
		}
		h.failingSince, h.alerted = time.Time{}, false
		return what, failing
	}
	if h.failingSince.IsZero() {
		h.failingSince = now
	}
	if failing >= alertAfter && !h.alerted {
		h.alerted = true
		what = alert
	}
	if failing >= unsubscribeAfter && !h.unsubscribed {
		h.unsubscribed = true
		what = unsubscribed
	}
	return what, failing
}
