package core

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/command"
	"chatclub/internal/fanout"
	"chatclub/internal/message"
	"chatclub/internal/phrase"
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
	// maxAhead is how far ahead of ours the clock of who stamped an event may be:
	// more than clocks of servers differ. Believed further, one event from the
	// future would keep its user from being idle, and from its allowance, until
	// that time.
	maxAhead = time.Minute
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
	j.event.Time = min(j.event.Time, c.cfg.Now().Add(maxAhead).UnixMilli())
	switch j.event.Kind {
	case message.KindMessage, message.KindPostback, message.KindIdle:
		j.err = c.relay(run, work, j)
	case message.KindFeedback:
		j.err = c.feedback(run, work, j)
	case message.KindPolicy:
		j.err = c.policy(run, work, j)
	}
	switch {
	case j.err == nil:
		c.ack(run, j)
	case errors.Is(j.err, rooms.ErrData):
		c.deadLetter(run, work, j, message.ReasonBadMessage)
	}
	// Otherwise abandoned.
}

// relay makes the messages that an event of a user leads to and has them
// confirmed.
func (c *Core) relay(run, work context.Context, j job) error {
	in := intentOf(j.event)
	res, err := c.receive(run, work, j, in.do)
	if err != nil {
		return err
	}
	if res.Status == rooms.Finished {
		c.metrics.repeated.Inc()
		return nil
	}
	c.note(in, res)
	msgs, err := c.messages(c.produce(j.event, in, res))
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
	count := c.counts.copies
	if in.do.Action == rooms.Write && !res.Held {
		count = c.counts.add
	}
	count(rooms.Place{Page: j.event.Page, Room: res.Room.Number}, len(msgs))
	return c.retry(run, j.delivery.Live, stepDone, func() error {
		return onStore(work, func(ctx context.Context) error { return c.cfg.Store.Done(ctx, j.event.Page, j.event.ID) })
	})
}

// note counts what an event is and what became of it.
func (c *Core) note(in intent, res rooms.Result) {
	if res.Status == rooms.Unfinished {
		c.metrics.reproduced.Inc()
		return
	}
	if in.kind != command.None {
		c.metrics.commands.WithLabelValues(in.kind.String()).Inc()
	}
	if res.Joined {
		c.metrics.joins.Inc()
	}
	if res.Held {
		c.metrics.held.Inc()
	}
	if res.Notice == rooms.LeftIdle {
		c.metrics.idle.Inc()
	}
}

// produce makes the messages of an event: what its user is told, then the
// copies. What cannot be passed on, its user is told so.
func (c *Core) produce(ev message.Event, in intent, res rooms.Result) []message.Outbound {
	r := c.replyTo(in, res)
	var said fanout.Said
	if in.do.Action == rooms.Write && !res.Held && !res.Paused {
		var refused phrase.Key
		if said, refused = fanout.Say(ev, res.Name, in.text); refused != "" {
			r.say(refused, nil)
		}
	}
	out := fanout.Notice(ev, ev.User, strings.Join(r.texts, "\n"), r.buttons...)
	return append(out, said.Copies(ev, res.Relay)...)
}

// receive records the event. When it was begun before and is not finished,
// there are two cases. If this message was delivered before, or this is not
// the first try, the one who began it is most likely gone or ourselves: the
// copies are made again at once. Otherwise the same event is on the queue
// twice, because Messenger or webhook repeated it, and another core holds the
// other message: that one is given time to finish, so that its copies are not
// doubled.
func (c *Core) receive(run, work context.Context, j job, do rooms.Event) (rooms.Result, error) {
	var res rooms.Result
	tries := 0
	receive := func() error {
		tries++
		return onStore(work, func(ctx context.Context) error {
			var err error
			res, err = c.cfg.Store.Receive(ctx, do)
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
		if !backoff.Sleep(run, claimPoll) || !j.delivery.Live() {
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
	bodies, err := message.EncodeAll(copies)
	if err != nil { // would fail the same way every time
		return nil, fmt.Errorf("%w: %w", rooms.ErrData, err)
	}
	outbound, now := c.cfg.Broker.Topology().Outbound(), c.cfg.Now()
	msgs := make([]queue.Message, len(copies))
	for i, o := range copies {
		msgs[i] = queue.Message{Queue: outbound, ID: o.ID, Body: bodies[i]}
		if c.router != nil {
			msgs[i].Queue = c.router.queueOf(o, now)
		}
	}
	return msgs, nil
}

func (c *Core) publish(ctx context.Context, msgs []queue.Message) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.PublishTimeout)
	defer cancel()
	return c.cfg.Broker.Publish(ctx, msgs...)
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
