package webhook

import "sync/atomic"

// Counts counts a client's deliveries by their results.
type Counts struct {
	Events       int64 `json:"events"`       // delivered or given up, each counted once
	Undelivered  int64 `json:"undelivered"`  // of these, given up: their copies are not expected
	Posts        int64 `json:"posts"`        // webhooks sent, every attempt counted
	Retries      int64 `json:"retries"`      // attempts after the first
	Alerts       int64 `json:"alerts"`       // times that Messenger would have written to the developer
	Unsubscribed int64 `json:"unsubscribed"` // 1 once Messenger would send no more events
}

// Add adds the counts of another client.
func (c *Counts) Add(d Counts) {
	c.Events += d.Events
	c.Undelivered += d.Undelivered
	c.Posts += d.Posts
	c.Retries += d.Retries
	c.Alerts += d.Alerts
	c.Unsubscribed += d.Unsubscribed
}

type counters struct {
	events, undelivered, posts, retries, alerts, unsubscribed atomic.Int64
}

// Counts returns the counts so far.
func (c *Client) Counts() Counts {
	n := &c.counts
	return Counts{
		Events: n.events.Load(), Undelivered: n.undelivered.Load(), Posts: n.posts.Load(), Retries: n.retries.Load(),
		Alerts: n.alerts.Load(), Unsubscribed: n.unsubscribed.Load(),
	}
}
