package fakeapi

import "sync"

// UserCounts is how often simulated users did what.
type UserCounts struct {
	Joined       int64 `json:"joined"`       // users who got their welcome
	Events       int64 `json:"events"`       // events posted, each counted once
	Pictures     int64 `json:"pictures"`     // of these, messages with pictures
	Posts        int64 `json:"posts"`        // webhooks sent, attempts included
	Retries      int64 `json:"retries"`      // attempts after the first
	Repeats      int64 `json:"repeats"`      // webhooks sent a second time although the first was answered 200
	Receipts     int64 `json:"receipts"`     // echo, delivery and read events posted
	Undelivered  int64 `json:"undelivered"`  // events that the system never took; their copies are not expected
	Skipped      int64 `json:"skipped"`      // events not posted because too many were unanswered
	Alerts       int64 `json:"alerts"`       // times that Messenger would have written to the developer
	Unsubscribed int64 `json:"unsubscribed"` // 1 once Messenger would send no more events
}

func (c *UserCounts) add(d UserCounts) {
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

// userReports are the functions that return the counts of users.
type userReports struct {
	mu   sync.Mutex
	list []func() UserCounts
}

func (r *userReports) add(f func() UserCounts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, f)
}

func (r *userReports) sum() UserCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sum UserCounts
	for _, f := range r.list {
		sum.add(f())
	}
	return sum
}

// ReportUsers makes GET /ledger and the metrics report the counts that f returns.
// The counts of several functions are summed.
func (a *API) ReportUsers(f func() UserCounts) { a.users.add(f) }

// UserTotals returns the sum over all simulated users.
func (a *API) UserTotals() UserCounts { return a.users.sum() }
