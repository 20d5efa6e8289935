package webhook

import (
	"context"
	"log/slog"
	"time"

	"chatclub/internal/audit"
)

// tellEvery is the period of the line about refused requests. Anybody can make one.
const tellEvery = time.Minute

// refusals logs, once a minute at most, how many requests were refused by a secret: with a
// wrong one in the settings all are. The setting must be set; safe for concurrent use.
type refusals struct {
	setting string // that has the secret
	seldom  audit.Seldom
}

// add counts a request.
func (r *refusals) add(ctx context.Context, log *slog.Logger, now time.Time) {
	if n, tell := r.seldom.Add(now); tell {
		log.WarnContext(ctx, "requests are refused; is the setting the same at Meta?", "setting", r.setting, "requests", n)
	}
}
