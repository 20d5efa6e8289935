package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chatclub/internal/fanout"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

const (
	// claimWait is how long an event that another core has begun, and seems
	// to be working on, is left to it. Handling takes milliseconds; only a
	// core whose broker or database hangs takes longer.
	claimWait = 5 * time.Second
	// claimPoll is how often to see whether the other core is through.
	claimPoll = 100 * time.Millisecond
)

// handle brings one event to its end and settles its delivery, or leaves it
// unsettled, to be delivered again, when run ended or the delivery became
// stale first. It is the one place that settles. work bounds what run's end
// must not interrupt.
func (c *Core) handle(run, work context.Context, j job) {
	if j.err != nil {
		c.deadLetter(run, work, j, message.ReasonUndecodable)
		return
	}
	c.metrics.events.WithLabelValues(string(j.event.Kind)).Inc()
	switch j.event.Kind {
	case message.KindMessage, message.KindPostback:
		j.err = c.relay(run, work, j)
	case message.KindFeedback:
		j.err = c.feedback(run, work, j)
	case message.KindPolicy:
		c.policy(run, j)
	}
	switch {
	case j.err == nil:
		c.ack(run, j)
	case errors.Is(j.err, rooms.ErrData):
		c.deadLetter(run, work, j, message.ReasonBadMessage)
	}
	// Otherwise abandoned.
}

// relay makes the copies of what a user did and has them confirmed.
func (c *Core) relay(run, work context.Context, j job) error {
	res, err := c.receive(run, work, j)
	if err != nil {
		return err
	}
	switch res.Status {
	case rooms.Finished:
		c.metrics.repeated.Inc()
		return nil
	case rooms.Unfinished:
		c.metrics.reproduced.Inc()
	case rooms.Fresh:
		if res.Joined {
			c.metrics.joins.Inc()
		}
	}
	msgs, err := c.messages(fanout.Copies(j.event, res))
	if err != nil {
		return err
	}
	if len(msgs) > 0 {
		publish := func() error { return c.publish(work, msgs) }
		if err := c.retry(run, j.delivery.Live, stepPublish, publish); err != nil {
			return err
		}
		c.metrics.copies.Add(float64(len(msgs)))
	}
	return c.retry(run, j.delivery.Live, stepDone, func() error {
		return onStore(work, func(ctx context.Context) error { return c.cfg.Store.Done(ctx, j.event.Page, j.event.ID) })
	})
}

// receive records the event. When it was begun before and is not finished,
// there are two cases. If this message was delivered before, or this is not
// the first try, the one who began it is most likely gone or ourselves: the
// copies are made again at once. Otherwise the same event is on the queue
// twice, because Messenger or webhook repeated it, and another core holds the
// other message: that one is given time to finish, so that its copies are not
// doubled.
func (c *Core) receive(run, work context.Context, j job) (rooms.Result, error) {
	var res rooms.Result
	tries := 0
	receive := func() error {
		tries++
		return onStore(work, func(ctx context.Context) error {
			var err error
			res, err = c.cfg.Store.Receive(ctx, rooms.Event{
				Page: j.event.Page, User: j.event.User, ID: j.event.ID, At: time.UnixMilli(j.event.Time),
			})
			return err
		})
	}
	if err := c.retry(run, j.delivery.Live, stepReceive, receive); err != nil {
		return res, err
	}
	if tries > 1 || j.delivery.Redelivered {
		return res, nil
	}
	for waited := time.Duration(0); res.Status == rooms.Unfinished && waited < claimWait; waited += claimPoll {
		if !sleep(run, claimPoll) || !j.delivery.Live() {
			return res, errAbandoned
		}
		if err := c.retry(run, j.delivery.Live, stepReceive, receive); err != nil {
			return res, err
		}
	}
	return res, nil
}

// messages puts copies into their wire form.
func (c *Core) messages(copies []message.Outbound) ([]queue.Message, error) {
	msgs := make([]queue.Message, 0, len(copies))
	for _, o := range copies {
		body, err := o.Encode()
		if err != nil { // would fail the same way every time
			return nil, fmt.Errorf("%w: %w", rooms.ErrData, err)
		}
		name := c.cfg.Broker.Topology().Outbound()
		if c.router != nil {
			name = c.router.queueOf(o)
		}
		msgs = append(msgs, queue.Message{Queue: name, ID: o.ID, Body: body})
	}
	return msgs, nil
}

func (c *Core) publish(ctx context.Context, msgs []queue.Message) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.PublishTimeout)
	defer cancel()
	return c.cfg.Broker.Publish(ctx, msgs...)
}

// feedback takes a member that cannot be sent to out of the fan-out: for good
// when it is gone, until it writes again when its window is closed or another
// app has the conversation.
func (c *Core) feedback(run, work context.Context, j job) error {
	var do func(ctx context.Context, page, user string, at time.Time) error
	switch reason := message.Reason(j.event.Reason); reason { //nolint:exhaustive // the others say nothing about a member
	case message.ReasonGone:
		do = c.cfg.Store.Leave
	case message.ReasonWindowClosed, message.ReasonNotOurs:
		do = c.cfg.Store.CloseWindow
	default:
		return fmt.Errorf("%w: feedback reason %.40q is unknown", rooms.ErrData, reason)
	}
	return c.retry(run, j.delivery.Live, stepFeedback, func() error {
		return onStore(work, func(ctx context.Context) error {
			return do(ctx, j.event.Page, j.event.User, time.UnixMilli(j.event.Time))
		})
	})
}

// policy tells operators what Meta did to the page; nothing else follows yet.
func (c *Core) policy(run context.Context, j job) {
	c.cfg.Log.WarnContext(run, "policy enforced on page", "page", j.event.Page,
		"action", fmt.Sprintf("%.40s", j.event.Action), "reason", fmt.Sprintf("%.200s", j.event.Reason))
}

// ack takes the event off the queue. When that fails the message comes again,
// and is recognised.
func (c *Core) ack(run context.Context, j job) {
	if err := j.delivery.Ack(); err != nil {
		c.failed(run, stepAck, err, 0)
	}
}

// deadLetter moves the event to the dead-letter queue, because of j.err.
func (c *Core) deadLetter(run, work context.Context, j job, reason message.Reason) {
	err := c.retry(run, j.delivery.Live, stepDeadLetter, func() error {
		ctx, cancel := context.WithTimeout(work, c.cfg.PublishTimeout)
		defer cancel()
		err := j.delivery.DeadLetter(ctx, message.Death{Reason: reason})
		if errors.Is(err, queue.ErrStale) || errors.Is(err, queue.ErrSettled) {
			return nil // published; the message comes again and is published again
		}
		return err
	})
	if err != nil {
		return // abandoned
	}
	c.metrics.dead.WithLabelValues(string(reason)).Inc()
	c.cfg.Log.WarnContext(run, "event is dead", "reason", reason, "err", j.err)
}
