package broadcast

import (
	"context"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

// round is one step of a batch of jobs, which no other round has meanwhile.
type round struct {
	s    *Scheduler
	now  time.Time
	jobs []*job
	used map[*job]int // how many messages of each were published, or tried to be
}

// run puts the messages that are due on their partitions and then writes the
// progress. The context work bounds what the end of ctx must not interrupt. Jobs that fail
// have their next round a second later.
func (r round) run(ctx, work context.Context) {
	var open []*job
	progress := make(map[*job]rooms.Progress)
	reserved := make(map[*job]int)
	defer func() {
		for j, n := range reserved {
			r.s.partitions.release(j.queue, n, r.used[j])
		}
	}()
	for _, j := range r.jobs {
		n, from := j.allowed(r.now)
		switch {
		case !r.now.Before(j.Deadline):
			progress[j] = j.progress(from, rooms.BroadcastExpired)
		case n == 0:
			j.next = from
		case !r.s.partitions.reserve(j.queue, n*len(j.parts)):
			j.next = r.now.Add(roundEvery)
		default:
			reserved[j] = n * len(j.parts)
			open = append(open, j)
		}
	}
	if len(open) > 0 {
		if err := r.send(ctx, work, open, progress); err != nil && ctx.Err() == nil {
			r.s.noteFailure(ctx, err, roundEvery)
		}
	}
	if len(progress) > 0 {
		r.advance(ctx, work, progress)
	}
}

// send publishes the messages to the recipients that are due. It adds the
// progress of the jobs as far as their messages are confirmed.
func (r round) send(ctx, work context.Context, open []*job, progress map[*job]rooms.Progress) error {
	lookups := make([]rooms.Lookup, len(open))
	for i, j := range open {
		n, _ := j.allowed(r.now)
		lookups[i] = rooms.Lookup{Broadcast: j.Broadcast, Limit: n + 1} // one more, to see the end
		j.next = r.now.Add(roundEvery)                                  // unless it has progress
	}
	answers, err := r.read(ctx, lookups)
	for i, j := range open {
		j.noteRead(len(open), lookups[i].Limit-1, err)
	}
	if err != nil {
		return err
	}
	var steps []step
	var messages []message.Outbound
	for i, j := range open {
		switch a := answers[i]; {
		case !a.Held:
			r.s.jobs.remove(j)
		case a.Cursor != j.Cursor, a.Due.After(j.Due.Add(time.Millisecond)): // another core had it, or its page is busy
			j.Cursor, j.Queued, j.Due = a.Cursor, a.Queued, a.Due
			j.next = latest(j.next, j.Due)
		case a.Paused:
		default:
			to, state := a.To, rooms.BroadcastDone
			if n := lookups[i].Limit - 1; len(to) > n {
				to, state = to[:n], rooms.BroadcastRunning
			}
			steps = append(steps, step{j, to, state})
			r.used[j] = len(to) * len(j.parts)
			messages = j.appendMessages(messages, to, r.now)
		}
	}
	missing, err := r.publish(work, messages)
	for _, st := range steps {
		j, to, state := st.job, st.to, st.state
		if n := j.confirmed(to, missing); n < len(to) {
			if n == 0 {
				continue
			}
			to, state = to[:n], rooms.BroadcastRunning
		}
		_, from := j.allowed(r.now)
		r.s.cfg.Counter.Add(rooms.RoomKey{Page: j.Page, Room: j.Room}, rooms.Count{Copies: int64(len(to) * len(j.parts))})
		progress[j] = j.progress(from, state, to...)
	}
	return err
}

// read reads the next recipients. A read for several jobs is given up early, so
// that a page whose read takes long soon has it for itself.
func (r round) read(ctx context.Context, lookups []rooms.Lookup) ([]rooms.Recipients, error) {
	if len(lookups) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sharedTimeout)
		defer cancel()
	}
	return r.s.cfg.Store.NextRecipients(ctx, r.s.holder, lookups)
}

// step is what a round does of one job.
type step struct {
	job   *job
	to    []string
	state rooms.BroadcastState // afterwards
}

// publish publishes messages. It returns the ids of those that may not be queued,
// and why.
func (r round) publish(ctx context.Context, messages []message.Outbound) (missing map[string]bool, err error) {
	if len(messages) == 0 {
		return nil, nil
	}
	missing = make(map[string]bool)
	bodies, err := message.EncodeAll(messages)
	if err != nil {
		for _, o := range messages {
			missing[o.ID] = true
		}
		return missing, err
	}
	top := r.s.cfg.Broker.Topology()
	msgs := make([]queue.Message, len(messages))
	for i, o := range messages {
		msgs[i] = queue.Message{Queue: top.OutboundOf(o.Page), ID: o.ID, Body: bodies[i]}
	}
	ctx, cancel := context.WithTimeout(ctx, r.s.cfg.PublishTimeout)
	defer cancel()
	span := r.s.cfg.Tracer.SendNew(ctx, msgs[0].Queue, len(msgs))
	defer span.End()
	span.Inject(msgs)
	err = r.s.cfg.Broker.Publish(ctx, msgs...)
	if err != nil {
		span.Fail("unconfirmed")
	}
	rest := queue.Unconfirmed(msgs, err)
	for _, m := range rest {
		missing[m.ID] = true
	}
	if len(rest) < len(msgs) { // else the broker is away, not a partition
		r.s.partitions.leave(rest)
	}
	r.s.metrics.messages.Add(float64(len(msgs) - len(rest)))
	return missing, err
}

// advance writes the progress of jobs. It repeats that until it succeeds or ctx
// ends, because messages whose progress is not written are queued again.
func (r round) advance(ctx, work context.Context, progress map[*job]rooms.Progress) {
	jobs, list := make([]*job, 0, len(progress)), make([]rooms.Progress, 0, len(progress))
	for j, p := range progress {
		jobs, list = append(jobs, j), append(list, p)
	}
	states, err := r.s.cfg.Store.Advance(work, r.s.holder, list)
	for failures := 1; err != nil; failures++ {
		pause := advanceRetry.Delay(failures)
		r.s.noteFailure(ctx, err, pause)
		if !backoff.Sleep(ctx, pause) {
			return // the next holder begins where this round did
		}
		states, err = r.s.cfg.Store.Advance(work, r.s.holder, list)
	}
	for i, j := range jobs {
		switch states[i] {
		case rooms.BroadcastRunning:
			r.schedule(j, list[i])
			continue
		case rooms.BroadcastDone, rooms.BroadcastExpired:
			r.s.metrics.ended.WithLabelValues(string(states[i])).Inc()
			r.s.cfg.Log.InfoContext(ctx, "broadcast ended", "id", j.ID, "page", j.Page, "state", states[i], "queued", list[i].Queued)
		case rooms.BroadcastStopped: // Stop has counted it
		default: // no longer held
		}
		r.s.jobs.remove(j)
	}
}

// schedule sets the next round of j: a second after this one was due, or later
// when the next recipient is due. If this round was not enough, it is at once.
func (r round) schedule(j *job, p rooms.Progress) {
	j.Broadcast = p.Broadcast
	j.next = latest(j.next, j.Due)
	if !j.Due.After(r.now) {
		j.next = r.now
	}
}
