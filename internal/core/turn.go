package core

import (
	"context"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

const (
	// castEvery is how often a broadcast has its turn, or less often where its
	// rate says so. A turn costs two round trips to the database, which others
	// share.
	castEvery = time.Second
	// castLate is how far behind its rate a broadcast makes up for what it
	// missed: a turn that comes half a second late loses nothing.
	castLate = castEvery + 500*time.Millisecond
	// castChunk is how many messages are published at once: what a broker takes
	// in a tenth of a second, far from the time for a confirmation.
	castChunk = 1000
)

// cast is a broadcast that this core holds, as far as it has come.
type cast struct {
	rooms.Broadcast
	parts []string  // the messages to each recipient, which go together
	at    time.Time // when its turn is
}

// every is the time between two recipients.
func (b *cast) every() time.Duration {
	return max(1, time.Duration(min(float64(len(b.parts))/b.Rate, maxDeadline.Seconds())*float64(time.Second)))
}

// allowed is how many recipients may be sent to by now, and from when on that
// counts: 1 + rate × the time since it was last due, at most castLate.
func (b *cast) allowed(now time.Time) (n int, from time.Time) {
	from = b.Due
	if earliest := now.Add(-castLate); from.Before(earliest) {
		from = earliest
	}
	if from.After(now) {
		return 0, from
	}
	return int(min(int64(now.Sub(from)/b.every())+1, int64(max(1, castChunk/len(b.parts))))), from
}

// batches are those that have their turn together: castBatch of them at most,
// with about castChunk messages.
func batches(due []*cast, now time.Time) [][]*cast {
	var list [][]*cast
	room, messages := 0, 0
	for _, b := range due {
		n, _ := b.allowed(now)
		if room == 0 || messages >= castChunk {
			list, room, messages = append(list, nil), castBatch, 0
		}
		list[len(list)-1] = append(list[len(list)-1], b)
		room--
		messages += n * len(b.parts)
	}
	return list
}

// turn is of the casts of one batch. Nobody else has them meanwhile.
type turn struct {
	r     *caster
	now   time.Time
	casts []*cast
}

// take puts what is due on the bulk queue and then writes it down. work bounds
// what ctx's end must not interrupt. What fails is tried again a second later.
func (t turn) take(ctx, work context.Context) {
	var asked []*cast
	var turns []rooms.Lookup
	ahead := make(map[*cast]rooms.Progress)
	for _, b := range t.casts {
		n, from := b.allowed(t.now)
		switch {
		case !t.now.Before(b.Deadline):
			ahead[b] = b.step(0, from, rooms.BroadcastExpired)
		case !t.r.open.Load():
			b.at = t.now.Add(castEvery)
		case n == 0:
			b.at = from
		default:
			asked = append(asked, b)
			turns = append(turns, rooms.Lookup{Broadcast: b.Broadcast, Limit: n + 1}) // one more, to know the end
		}
	}
	if len(asked) > 0 {
		err := t.send(ctx, work, asked, turns, ahead)
		if err != nil && ctx.Err() == nil {
			t.r.c.failed(ctx, stepBroadcast, err, castEvery)
		}
	}
	if len(ahead) > 0 {
		t.advance(ctx, work, ahead)
	}
}

// send publishes the messages of those who are next, and adds to ahead how far
// that brings each.
func (t turn) send(ctx, work context.Context, asked []*cast, turns []rooms.Lookup, ahead map[*cast]rooms.Progress) error {
	for _, b := range asked {
		b.at = t.now.Add(castEvery) // unless it comes ahead
	}
	var nexts []rooms.Recipients
	err := onStore(ctx, func(ctx context.Context) (err error) {
		nexts, err = t.r.c.cfg.Store.NextRecipients(ctx, t.r.holder, turns)
		return err
	})
	if err != nil {
		return err
	}
	steps := make(map[*cast]rooms.Progress)
	var outs []message.Outbound
	for i, b := range asked {
		switch next := nexts[i]; {
		case !next.Held:
			t.r.forget(b)
		case next.Cursor != b.Cursor, next.Due.After(b.Due.Add(time.Millisecond)): // another core had it, or its page is busy
			b.Cursor, b.Queued, b.Due = next.Cursor, next.Queued, next.Due
			b.at = later(b.at, b.Due)
		case next.Paused:
		default:
			_, from := b.allowed(t.now)
			to, state := next.To, rooms.BroadcastDone
			if n := turns[i].Limit - 1; len(to) > n {
				to, state = to[:n], rooms.BroadcastRunning
			}
			steps[b] = b.step(len(to), from, state, to...)
			outs = b.messages(outs, to, t.now)
		}
	}
	if err := t.publish(work, outs); err != nil {
		return err
	}
	for b, step := range steps {
		t.r.c.counts.copies(rooms.RoomKey{Page: b.Page, Room: b.Room}, (step.Queued-b.Queued)*len(b.parts))
		ahead[b] = step
	}
	return nil
}

// step is b after n more recipients, the last of to.
func (b *cast) step(n int, from time.Time, state rooms.BroadcastState, to ...string) rooms.Progress {
	s := rooms.Progress{Broadcast: b.Broadcast, From: b.Cursor}
	s.Queued += n
	s.State = state
	if n > 0 {
		s.Cursor = to[n-1]
		s.Due = from.Add(time.Duration(n) * b.every())
	}
	return s
}

// messages appends those to the recipients.
func (b *cast) messages(list []message.Outbound, to []string, now time.Time) []message.Outbound {
	for _, user := range to {
		for part, text := range b.parts {
			list = append(list, message.Outbound{
				ID: message.CopyID(b.Page, "broadcast-"+b.ID, user, part), Page: b.Page, To: user, Class: message.ClassText,
				Text: text, Time: now.UnixMilli(), Broadcast: b.ID, Deadline: b.Deadline.UnixMilli(),
			})
		}
	}
	return list
}

func (t turn) publish(ctx context.Context, outs []message.Outbound) error {
	if len(outs) == 0 {
		return nil
	}
	bodies, err := message.EncodeAll(outs)
	if err != nil {
		return err
	}
	bulk := t.r.c.cfg.Broker.Topology().Bulk()
	msgs := make([]queue.Message, len(outs))
	for i, o := range outs {
		msgs[i] = queue.Message{Queue: bulk, ID: o.ID, Body: bodies[i]}
	}
	if err := t.r.c.publish(ctx, msgs); err != nil {
		return err
	}
	t.r.c.metrics.castMessages.Add(float64(len(msgs)))
	return nil
}

// advance writes down how far those have come whose messages are confirmed, and
// does not give that up: what is not written is sent again.
func (t turn) advance(ctx, work context.Context, ahead map[*cast]rooms.Progress) {
	casts, steps := make([]*cast, 0, len(ahead)), make([]rooms.Progress, 0, len(ahead))
	for b, step := range ahead {
		casts, steps = append(casts, b), append(steps, step)
	}
	var states []rooms.BroadcastState
	alive := func() bool { return true }
	err := t.r.c.retry(ctx, alive, stepBroadcast, func() error {
		return onStore(work, func(ctx context.Context) (err error) {
			states, err = t.r.c.cfg.Store.AdvanceBroadcasts(ctx, t.r.holder, steps)
			return err
		})
	})
	if err != nil {
		return // stopped: whoever holds it next begins where this turn did
	}
	for i, b := range casts {
		switch states[i] {
		case rooms.BroadcastRunning:
			t.schedule(b, steps[i])
			continue
		case rooms.BroadcastDone, rooms.BroadcastExpired:
			t.r.c.metrics.broadcasts.WithLabelValues(string(states[i])).Inc()
			t.r.c.cfg.Log.InfoContext(ctx, "broadcast ended", "id", b.ID, "page", b.Page, "state", states[i], "queued", steps[i].Queued)
		case rooms.BroadcastStopped: // counted where it was stopped
		default: // no longer held
		}
		t.r.forget(b)
	}
}

// schedule gives b its next turn: a second after this one should have been,
// when the next recipient is due, or at once if this turn was not enough.
func (t turn) schedule(b *cast, step rooms.Progress) {
	b.Broadcast = step.Broadcast
	b.at = later(b.at, b.Due)
	if !b.Due.After(t.now) {
		b.at = t.now
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
