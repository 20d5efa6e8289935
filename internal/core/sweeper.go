package core

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

// sweeper looks for members who have been silent for too long, and puts an event
// on its page's inbound partition for each. That event is handled like any other: once,
// however often it is put there, and in order with the member's own events.
type sweeper struct {
	cfg   Config
	retry retrier
}

// sweepEvery returns the time between two sweeps: a hundredth of the time after
// which members leave. So they leave on time by about that much, and the sweeps
// are no burden to the database.
func sweepEvery(idle time.Duration) time.Duration {
	return min(max(idle/100, time.Second), 10*time.Minute)
}

// run sweeps until ctx ends.
func (s sweeper) run(ctx context.Context) {
	every := sweepEvery(s.cfg.Idle)
	for backoff.Sleep(ctx, every) {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.retry.note(ctx, stepSweep, err, every)
		}
	}
}

// sweep puts an event for every silent member on the queue, some at a time. A sick
// partition keeps back none of the others' members. The error is the first one's.
func (s sweeper) sweep(ctx context.Context) error {
	if err := s.cfg.Store.CheckClock(ctx); err != nil {
		return err
	}
	var first error
	for last := (rooms.Silent{}); ; {
		silent, err := s.cfg.Store.SilentMembers(ctx, last)
		if err != nil || len(silent) == 0 {
			return cmp.Or(first, err)
		}
		first = cmp.Or(first, s.announce(ctx, silent))
		last = silent[len(silent)-1]
	}
}

func (s sweeper) announce(ctx context.Context, silent []rooms.Silent) error {
	msgs := make([]queue.Message, len(silent))
	for i, m := range silent {
		ev := message.Event{
			Kind: message.KindIdle, Page: m.Page, User: m.User, Time: s.cfg.Now().UnixMilli(),
			ID: fmt.Sprintf("idle/%s/%d", m.User, m.Since.UnixMilli()),
		}
		body, err := ev.Encode()
		if err != nil {
			return err
		}
		msgs[i] = queue.Message{Queue: s.cfg.Broker.Topology().InboundOf(ev.Page), ID: ev.Page + "/" + ev.ID, Body: body}
	}
	return s.cfg.publish(ctx, msgs)
}
