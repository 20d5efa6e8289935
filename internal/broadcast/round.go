package broadcast

import (
	"context"
	"errors"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

// work has one round of a job after another, until the job ends or is lost, or ctx
// ends. The context work bounds steps that the end of ctx must not interrupt.
func (s *Scheduler) work(ctx, work context.Context, j *job) {
	defer s.jobs.remove(j)
	for backoff.Sleep(ctx, j.next.Sub(s.cfg.Now())) {
		places := s.rounds
		if j.failures > 0 { // it takes no place from the others
			places = s.again
		}
		if places.Acquire(ctx, 1) != nil {
			return
		}
		goesOn := s.round(ctx, work, j)
		places.Release(1)
		if !goesOn {
			return
		}
	}
}

// round puts the messages of a job that are due on their partition, and then writes the
// progress. It reports whether the job goes on.
func (s *Scheduler) round(ctx, work context.Context, j *job) bool {
	now := s.cfg.Now()
	n, from := j.allowed(now)
	expired := !now.Before(j.Deadline) // by this clock: NextRecipients fails if it is ahead
	if n == 0 && !expired {
		j.next = from
		return true
	}
	j.next = now.Add(roundEvery) // unless it has progress
	if !expired && !s.partitions.isOpen(j.queue) {
		return true
	}
	limit := n + 1 // one more, to see the end
	if expired {
		limit = 0 // only what is stored
	}
	answer, err := s.cfg.Store.NextRecipients(ctx, s.holder, j.Broadcast, limit)
	switch {
	case err != nil:
		s.fail(ctx, j, now, err)
		return true
	case !answer.Held:
		return false
	case expired:
		j.Cursor, j.Queued, j.Due = answer.Cursor, answer.Queued, answer.Due
		return s.advance(ctx, work, j, now, j.progress(from, rooms.BroadcastExpired))
	case answer.Cursor != j.Cursor, answer.Due.After(j.Due.Add(time.Millisecond)): // another core had it, or its page is busy
		j.Cursor, j.Queued, j.Due = answer.Cursor, answer.Queued, answer.Due
		j.next = latest(j.next, j.Due)
		return true
	case answer.Paused, s.cfg.Paused != nil && s.cfg.Paused(j.Page):
		return true
	}
	to, state := answer.To, rooms.BroadcastDone
	if len(to) > n {
		to, state = to[:n], rooms.BroadcastRunning
	}
	s.partitions.count(j.queue, len(to)*len(j.parts))
	queued, err := s.publish(work, j, to, now)
	if err == nil {
		j.failures = 0
	} else {
		s.fail(ctx, j, now, err)
		if to, state = to[:queued], rooms.BroadcastRunning; queued == 0 {
			return true
		}
	}
	s.cfg.Counter.Add(rooms.RoomKey{Page: j.Page, Room: j.Room}, rooms.Count{Copies: int64(len(to) * len(j.parts))})
	return s.advance(ctx, work, j, now, j.progress(from, state, to...))
}

// fail notes a failure of a job. Its next round is the later the more there were.
func (s *Scheduler) fail(ctx context.Context, j *job, now time.Time, err error) {
	j.failures++
	pause := roundRetry.Delay(j.failures)
	j.next = now.Add(pause)
	if ctx.Err() == nil {
		s.noteFailure(ctx, err, pause)
	}
}

// publish publishes the messages to the recipients. It returns how many of these, from
// the first on, have all theirs queued. A partition that does not take them is left
// alone for a while.
func (s *Scheduler) publish(ctx context.Context, j *job, to []string, now time.Time) (queued int, err error) {
	if len(to) == 0 {
		return 0, nil
	}
	messages := j.messages(to, now)
	msgs := make([]queue.Message, len(messages))
	for i, o := range messages {
		body, err := o.Encode()
		if err != nil {
			return 0, err
		}
		msgs[i] = queue.Message{Queue: j.queue, ID: o.ID, Body: body}
	}
	limited, cancel := context.WithTimeout(ctx, s.cfg.PublishTimeout)
	defer cancel()
	span := s.cfg.Tracer.SendNew(limited, j.queue, len(msgs))
	defer span.End()
	span.Inject(msgs)
	if err = s.cfg.Broker.Publish(limited, msgs...); err != nil {
		span.Fail("unconfirmed")
	}
	rest := queue.Unconfirmed(msgs, err)
	s.metrics.messages.Add(float64(len(msgs) - len(rest)))
	if errors.Is(err, queue.ErrRefused) || errors.Is(err, context.DeadlineExceeded) && s.cfg.Broker.Ready() == nil {
		s.partitions.skip(j.queue)
	}
	missing := make(map[string]bool, len(rest))
	for _, m := range rest {
		missing[m.ID] = true
	}
	for i, m := range msgs {
		if missing[m.ID] {
			return i / len(j.parts), err
		}
	}
	return len(to), err
}

// advance writes the progress of a job, and reports whether the job goes on. It repeats
// that until it succeeds or ctx ends, because messages whose progress is not written are
// queued again.
func (s *Scheduler) advance(ctx, work context.Context, j *job, now time.Time, p rooms.Progress) bool {
	state, err := s.cfg.Store.Advance(work, s.holder, p)
	for failures := 1; err != nil; failures++ {
		pause := advanceRetry.Delay(failures)
		s.noteFailure(ctx, err, pause)
		if !backoff.Sleep(ctx, pause) {
			return false // the next holder begins where this round did
		}
		state, err = s.cfg.Store.Advance(work, s.holder, p)
	}
	switch state {
	case rooms.BroadcastRunning:
		j.Broadcast = p.Broadcast
		if j.failures == 0 && !j.Due.After(now) { // this round was not enough
			j.next = now
		}
		j.next = latest(j.next, j.Due)
		return true
	case rooms.BroadcastDone, rooms.BroadcastExpired:
		s.metrics.ended.WithLabelValues(string(state)).Inc()
		s.cfg.Log.InfoContext(ctx, "broadcast ended", "id", j.ID, "page", j.Page, "state", state, "queued", p.Queued)
	case rooms.BroadcastStopped: // Stop has counted it
	default: // no longer held
	}
	return false
}
