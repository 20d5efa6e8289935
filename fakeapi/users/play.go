package users

import (
	"context"
	"fmt"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/wire"
)

const (
	// settlePoll is the period of settle's checks. It bounds how late the end is seen.
	settlePoll = 20 * time.Millisecond
	// stopQuiet is the time without a copy after which, in a run that was asked to
	// stop, nobody seems to send any more. Some calls of a sick API fail for that long.
	stopQuiet = 10 * time.Second
)

// PlayOptions say how a run is played.
type PlayOptions struct {
	Duration time.Duration     // of the chat; 0: until ctx ends
	Settle   time.Duration     // how long no copy may arrive before the rest is given up
	Say      func(line string) // for people who wait for the end
}

// Play is Run, followed by the function of that name's waiting.
func (u *Users) Play(ctx, again context.Context, p PlayOptions) (whole bool, err error) {
	return Play(ctx, again, u.api, func(ctx context.Context) error { return u.Run(ctx, p.Duration) }, p)
}

// Play runs users, and then waits until the ledger awaits no id. When ctx ends while
// copies are awaited, Play says how many and about how long they take, and goes on
// waiting until again ends too. It returns false if it was asked to stop, and what is
// still awaited may be on its way.
func Play(ctx, again context.Context, api *fakeapi.API, run func(context.Context) error, p PlayOptions) (whole bool, err error) {
	err = run(ctx)
	if left := settle(ctx, api, p.Settle); left == 0 || ctx.Err() == nil {
		return ctx.Err() == nil, err
	}
	p.Say(stopping(api))
	settle(again, api, min(p.Settle, stopQuiet))
	return false, err
}

// settle waits until the ledger awaits no id, until ctx ends, or until no id has
// come for so long as quiet. It returns how many ids are still awaited.
func settle(ctx context.Context, api *fakeapi.API, quiet time.Duration) int {
	latest, since := -1, time.Time{}
	for {
		left, now := api.Ledger().Pending(), api.Now()
		if left != latest {
			latest, since = left, now
		}
		if left == 0 || now.Sub(since) >= quiet || !wire.Sleep(settlePoll, ctx.Done()) {
			return left
		}
	}
}

// stopping names the awaited copies, and about how long they take.
func stopping(api *fakeapi.API) string {
	c, wait := api.Ledger().Totals(), remaining(api).Round(time.Second)
	return fmt.Sprintf("stopping: %d copies wait for their page's limit, about %v; Ctrl-C again leaves them on the queue", c.Pending, max(wait, time.Second))
}

// maxPages is above all pages that there can be.
const maxPages = 1 << 20

// recentSeconds is the time over which remaining looks how many messages go out
// with one call.
const recentSeconds = 10

// remaining estimates how long the awaited copies take if every page is sent as
// fast as its limit allows.
func remaining(api *fakeapi.API) time.Duration {
	set := api.Settings()
	var longest time.Duration
	for _, p := range api.Ledger().Report(ledger.Query{Pages: maxPages, Seconds: recentSeconds}).Pages {
		var calls, messages float64
		for _, s := range p.Series {
			calls += float64(s.Text.Accepted)
			messages += float64(s.Text.Messages)
		}
		needed := float64(p.Totals.Pending)
		if messages > 0 {
			needed *= calls / messages
		}
		longest = max(longest, time.Duration(needed/float64(set.TextLimit(p.Page))*float64(time.Second)))
	}
	return longest
}
