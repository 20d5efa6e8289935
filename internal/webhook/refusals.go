package webhook

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// tellEvery is the period of the line about refused requests. Anybody can make one.
const tellEvery = time.Minute

// refusals logs, once a minute at most, how many requests were refused by a secret: with a
// wrong one in the settings all are. The setting must be set; safe for concurrent use.
type refusals struct {
	setting string // that has the secret

	mu    sync.Mutex
	count int // since the last line
	told  time.Time
}

// add counts a request.
func (r *refusals) add(ctx context.Context, log *slog.Logger, now time.Time) {
	r.mu.Lock()
	r.count++
	n, tell := r.count, now.Sub(r.told) >= tellEvery
	if tell {
		r.count, r.told = 0, now
	}
	r.mu.Unlock()
	if tell {
		log.WarnContext(ctx, "requests are refused; is the setting the same at Meta?", "setting", r.setting, "requests", n)
	}
}
