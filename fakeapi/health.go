package fakeapi

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// health follows Messenger's rules for a webhook that keeps failing.
type health struct {
	mu           sync.Mutex
	failingSince time.Time
	alerted      bool
	unsubscribed bool
}

var errUnsubscribed = errors.New("the webhook failed for too long: unsubscribed")

// news is what an attempt changed about a webhook's health.
type news uint8

const (
	nothing      news = iota
	alert             // Messenger would write to the developer
	unsubscribed      // Messenger would send no more events
	recovered         // it answers again after an alert
)

// note enters the result of an attempt, and logs and counts what it changed.
func (s *Source) note(ok bool) {
	what, failing := s.health.note(ok, s.api.now(), s.cfg.AlertAfter, s.cfg.UnsubscribeAfter)
	switch what {
	case nothing:
	case alert:
		s.count.alerts.Add(1)
		s.cfg.Log.Warn("webhook keeps failing", slog.Duration("failing_for", failing), slog.Duration("unsubscribed_after", s.cfg.UnsubscribeAfter))
	case unsubscribed:
		s.count.unsubscribed.Add(1)
		s.cfg.Log.Error("webhook failed for too long: no more events", slog.Duration("failing_for", failing))
	case recovered:
		s.cfg.Log.Info("webhook answers again", slog.Duration("failed_for", failing))
	}
}

// note enters the result of an attempt. failing is for how long there has been
// no success.
func (h *health) note(ok bool, now time.Time, alertAfter, unsubscribeAfter time.Duration) (what news, failing time.Duration) {
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

func (s *Source) unsubscribed() bool {
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	return s.health.unsubscribed
}
