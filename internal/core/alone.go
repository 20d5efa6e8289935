package core

import (
	"context"
	"fmt"
	"time"

	"chatclub/internal/backoff"
)

const (
	// lookEvery is the pause between two looks for a bot. What a core that was killed has
	// left on the broker is gone after some.
	lookEvery = time.Second
	// tellEvery is the period of the line that core waits for a bot.
	tellEvery = time.Minute
	// lookTime bounds one look, 80 questions by default, and askTime one question.
	lookTime = 30 * time.Second
	askTime  = time.Second
)

// awaitBot waits while a bot consumes events in core's place. The broker would give all of
// them to this core, for its priorities, and neither would notice. It reports whether ctx
// goes on.
func (c *Core) awaitBot(ctx context.Context) bool {
	var told time.Time
	for looks := 0; !c.cfg.TakeInbound; looks++ {
		name, err := c.findBot(ctx)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			c.cfg.Log.WarnContext(ctx, "whether a bot takes the events is not known yet", "err", err)
		case name == "":
			return true
		case looks > 0:
			c.startup.set(fmt.Errorf("a bot consumes %s: end it, or set TAKE_INBOUND=true", name))
			if c.cfg.Now().Sub(told) >= tellEvery {
				told = c.cfg.Now()
				c.cfg.Log.ErrorContext(ctx, "a bot consumes events, so core takes none: end it, or set TAKE_INBOUND=true", "queue", name)
			}
		}
		if !backoff.Sleep(ctx, lookEvery) {
			return false
		}
	}
	return true
}

// findBot returns a partition that somebody consumes while there is no core; "" without
// one. A bot consumes all partitions. One that has a consumer beside another without has that
// of a core that is gone, which RabbitMQ 4.3 may keep for 20 minutes. A core takes its number
// before it consumes, so the numbers are looked at last. A partition that does not answer is
// left out.
func (c *Core) findBot(ctx context.Context) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	top := c.cfg.Broker.Topology()
	consumers := func(name string) (int, error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		info, err := c.cfg.Broker.Inspect(ctx, name)
		return info.Consumers, err
	}
	for _, partition := range top.Inbounds() {
		n, err := consumers(partition)
		if err == nil && n == 0 {
			return "", nil
		}
		if err == nil && name == "" {
			name = partition
		}
	}
	if err := context.Cause(ctx); err != nil || name == "" {
		return "", err
	}
	for _, slot := range top.CoreSlots() {
		if n, err := consumers(slot); err != nil || n > 0 {
			return "", err
		}
	}
	return name, nil
}
