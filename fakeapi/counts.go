package fakeapi

import (
	"sync/atomic"
	"time"
)

// SourceCounts is what a Source has done.
type SourceCounts struct {
	Joined       int64 `json:"joined"`       // users who got their welcome
	Events       int64 `json:"events"`       // events posted, each counted once
	Pictures     int64 `json:"pictures"`     // of these, messages with pictures
	Posts        int64 `json:"posts"`        // webhooks sent, attempts included
	Retries      int64 `json:"retries"`      // attempts after the first
	Repeats      int64 `json:"repeats"`      // webhooks sent a second time although the first was answered 200
	Receipts     int64 `json:"receipts"`     // echo, delivery and read events posted
	Undelivered  int64 `json:"undelivered"`  // events that the system never took: what they announced is withdrawn
	Skipped      int64 `json:"skipped"`      // events not posted because too many were unanswered
	Alerts       int64 `json:"alerts"`       // times that Messenger would have written to the developer
	Unsubscribed int64 `json:"unsubscribed"` // 1 once Messenger would send no more events

	// Of attempts that got any answer, to an eighth.
	AnswerP50 time.Duration `json:"-"`
	AnswerP99 time.Duration `json:"-"`
}

// add adds what can be added: not the times.
func (c *SourceCounts) add(d SourceCounts) {
	c.Joined += d.Joined
	c.Events += d.Events
	c.Pictures += d.Pictures
	c.Posts += d.Posts
	c.Retries += d.Retries
	c.Repeats += d.Repeats
	c.Receipts += d.Receipts
	c.Undelivered += d.Undelivered
	c.Skipped += d.Skipped
	c.Alerts += d.Alerts
	c.Unsubscribed += d.Unsubscribed
}

// SourceTotals is what all sources of the platform have done.
func (a *API) SourceTotals() SourceCounts {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var sum SourceCounts
	for _, s := range a.sources {
		sum.add(s.Counts())
	}
	return sum
}

type counters struct {
	joined, pictures, repeats, receipts, skipped atomic.Int64
}

// Counts is a snapshot.
func (s *Source) Counts() SourceCounts {
	c, h := &s.count, s.hook.Counts()
	return SourceCounts{
		Joined: c.joined.Load(), Events: h.Events, Posts: h.Posts, Retries: h.Retries, Pictures: c.pictures.Load(),
		Repeats: c.repeats.Load(), Receipts: c.receipts.Load(), Undelivered: h.Undelivered,
		Skipped: c.skipped.Load(), Alerts: h.Alerts, Unsubscribed: h.Unsubscribed,
		AnswerP50: h.AnswerP50, AnswerP99: h.AnswerP99,
	}
}
