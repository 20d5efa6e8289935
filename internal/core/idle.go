package core

import (
	"context"
	"fmt"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

// sweepEvery is how often silent members are looked for: a hundredth of the
// time after which they leave, so that they leave on time by about that much,
// within what is neither a burden to the database nor a surprise.
func sweepEvery(idle time.Duration) time.Duration {
	return min(max(idle/100, time.Second), 10*time.Minute)
}

// sweep puts an event on the inbound queue for each member who has been silent
// for too long, until ctx ends. The event is handled like any other: once,
// however often it is put there, and in line with what the member writes.
func (c *Core) sweep(ctx context.Context) {
	for backoff.Sleep(ctx, sweepEvery(c.cfg.Idle)) {
		if err := c.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			c.failed(ctx, stepSweep, err, sweepEvery(c.cfg.Idle))
		}
	}
}

// sweepOnce announces all who are silent, some at a time.
func (c *Core) sweepOnce(ctx context.Context) error {
	for last := (rooms.Silent{}); ; {
		var silent []rooms.Silent
		err := onStore(ctx, func(ctx context.Context) (err error) {
			silent, err = c.cfg.Store.SilentMembers(ctx, last)
			return err
		})
		if err != nil || len(silent) == 0 {
			return err
		}
		if err := c.announce(ctx, silent); err != nil {
			return err
		}
		last = silent[len(silent)-1]
	}
}

func (c *Core) announce(ctx context.Context, silent []rooms.Silent) error {
	msgs := make([]queue.Message, len(silent))
	for i, m := range silent {
		ev := message.Event{
			Kind: message.KindIdle, Page: m.Page, User: m.User, Time: c.cfg.Now().UnixMilli(),
			ID: fmt.Sprintf("idle/%s/%d", m.User, m.Since.UnixMilli()),
		}
		body, err := ev.Encode()
		if err != nil {
			return err
		}
		msgs[i] = queue.Message{Queue: c.cfg.Broker.Topology().Inbound(), ID: ev.Page + "/" + ev.ID, Body: body}
	}
	return c.publish(ctx, msgs)
}
