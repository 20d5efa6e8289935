package fakeapi

import (
	"sync"

	"chatclub/fakeapi/webhook"
)

// UserCounts counts the actions of simulated users and their results.
type UserCounts struct {
	webhook.Counts

	Joined   int64 `json:"joined"`   // users who got their welcome
	Pictures int64 `json:"pictures"` // of the events, messages with pictures
	Repeats  int64 `json:"repeats"`  // webhooks sent a second time although the first was answered 200
	Receipts int64 `json:"receipts"` // echo, delivery and read events posted
	Skipped  int64 `json:"skipped"`  // events not posted because too many were unanswered
}

// userReports are the functions that return the counts of users.
type userReports struct {
	mu   sync.Mutex
	list []func() UserCounts
}

// ReportUsers makes GET /ledger and the metrics report the counts that f returns.
// The counts of several functions are summed.
func (a *API) ReportUsers(f func() UserCounts) {
	a.users.mu.Lock()
	defer a.users.mu.Unlock()
	a.users.list = append(a.users.list, f)
}

// UserTotals returns the sum over all simulated users.
func (a *API) UserTotals() (sum UserCounts) {
	a.users.mu.Lock()
	defer a.users.mu.Unlock()
	for _, f := range a.users.list {
		n := f()
		sum.Add(n.Counts)
		sum.Joined += n.Joined
		sum.Pictures += n.Pictures
		sum.Repeats += n.Repeats
		sum.Receipts += n.Receipts
		sum.Skipped += n.Skipped
	}
	return sum
}
