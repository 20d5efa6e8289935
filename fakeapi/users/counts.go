package users

import (
	"sync/atomic"
	"time"

	"chatclub/fakeapi"
)

// Counts is how often the users did what so far.
type Counts struct {
	fakeapi.UserCounts

	// The time until the webhook gave any answer, to an eighth.
	AnswerP50, AnswerP99 time.Duration
}

type counters struct{ joined, pictures, repeats, receipts, skipped atomic.Int64 }

// Counts returns the counts so far.
func (u *Users) Counts() Counts {
	n, h := &u.counts, u.hook.Counts()
	return Counts{
		UserCounts: fakeapi.UserCounts{
			Joined: n.joined.Load(), Events: h.Events, Pictures: n.pictures.Load(), Posts: h.Posts, Retries: h.Retries,
			Repeats: n.repeats.Load(), Receipts: n.receipts.Load(), Undelivered: h.Undelivered, Skipped: n.skipped.Load(),
			Alerts: h.Alerts, Unsubscribed: h.Unsubscribed,
		},
		AnswerP50: h.AnswerP50, AnswerP99: h.AnswerP99,
	}
}
