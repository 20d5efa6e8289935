package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
)

const (
	// moveBatch is how many messages move with one publish. A dispatcher that
	// is killed between the broker's confirms and its own acknowledgements has
	// doubled so many, and more in one gain nothing: it is what the broker's
	// client writes at a time.
	moveBatch = 64
	// moveTimeout is how long the messages to one queue may keep those to all
	// others waiting. It also bounds for how long deliveries that became stale
	// meanwhile may still be published.
	moveTimeout = 5 * time.Second
	// jamTimeout is the same for a queue that did not take a message, where
	// nobody else waits: whoever gives up earlier publishes that message once
	// more, and a queue that has a leader again may keep them all.
	jamTimeout = 30 * time.Second
	// jamReminder is how often a jam is logged.
	jamReminder = time.Minute
)

// mover publishes messages elsewhere and acknowledges each once it is
// confirmed; the faults of some change nothing for the others.
//
// All go together, in order, up to a message that its queue does not take. Then
// this queue has a jam: what is to go to it waits, in order, while one message
// at a time is tried, and all other queues go on. Once that message is
// confirmed the rest follows. So nothing overtakes on its way to one queue, a
// message that was confirmed is never published again, and of those whose
// confirm is in doubt only the first is published again and again. Who asks to
// be called after the moves does not wait for what is in a jam: one queue
// without a leader must not keep a lane from being given up.
type mover struct {
	d *Dispatcher
	*backlog

	retries sync.WaitGroup
	jamMu   sync.Mutex
	jams    map[string][]*move // by queue, what waits; an entry exists while its retry runs
}

func newMover(d *Dispatcher) *mover {
	return &mover{d: d, backlog: newBacklog(), jams: make(map[string][]*move)}
}

// run ends with the backlog, or with ctx: what was not moved then stays on its
// queue.
func (m *mover) run(ctx context.Context) {
	for items := m.take(moveBatch); items != nil; items = m.take(moveBatch) {
		m.pass(ctx, items)
	}
	m.retries.Wait()
}

// pass moves items, and leaves in a jam what cannot be moved now.
func (m *mover) pass(ctx context.Context, items []*move) {
	items, jammed := m.queueUp(items)
	m.finish(jammed...)
	failed, err := m.try(ctx, moveTimeout, items)
	if len(failed) == 0 || ctx.Err() != nil {
		return
	}
	m.d.Log.Warn("messages cannot be moved now; keeping them", "messages", len(failed), "of", len(items), "err", err)
	m.jamMu.Lock()
	m.jamLocked(ctx, failed)
	m.jamMu.Unlock()
	m.finish(failed...)
}

// jamLocked puts each of items at the end of the jam of the first queue that it
// is still to go to.
func (m *mover) jamLocked(ctx context.Context, items []*move) {
	for _, it := range items {
		name := it.To[0].Queue
		if _, full := m.jams[name]; !full {
			m.retries.Go(func() { m.retry(ctx, name) })
		}
		m.jams[name] = append(m.jams[name], it)
	}
}

// queueUp puts what is to go to a queue with a jam into that.
func (m *mover) queueUp(items []*move) (free, jammed []*move) {
	m.jamMu.Lock()
	defer m.jamMu.Unlock()
	if len(m.jams) == 0 {
		return items, nil
	}
	for _, it := range items {
		i := slices.IndexFunc(it.To, func(to queue.Message) bool { _, full := m.jams[to.Queue]; return full })
		if i < 0 {
			free = append(free, it)
			continue
		}
		name := it.To[i].Queue
		m.jams[name] = append(m.jams[name], it)
		jammed = append(jammed, it)
	}
	return free, jammed
}

// retry moves what waits for a queue, and ends when nothing does.
func (m *mover) retry(ctx context.Context, name string) {
	logged, failures := m.d.Now(), 1
	for {
		if failures > 0 && !backoff.Sleep(ctx, retryDelay(failures, m.d.Random)) || ctx.Err() != nil {
			return
		}
		items := m.head(name, failures > 0)
		failed, err := m.try(ctx, jamTimeout, items)
		if len(failed) == 0 {
			failures = 0
		} else {
			failures++
			if now := m.d.Now(); now.Sub(logged) >= jamReminder {
				logged = now
				m.d.Log.Warn("a queue still takes no messages", "queue", name, "err", err)
			}
		}
		if !m.shorten(ctx, name, len(items), failed) {
			m.d.Log.Info("no message waits for a queue any more", "queue", name)
			return
		}
	}
}

// head is what is tried next of a jam: as long as nothing goes through one
// message alone, the first. What is stale goes out of the jam, so that it does
// not grow with every lost connection.
func (m *mover) head(name string, alone bool) []*move {
	m.jamMu.Lock()
	var stale []*move
	live := m.jams[name][:0:0]
	for _, it := range m.jams[name] {
		if it.Delivery.Stale() {
			stale = append(stale, it)
		} else {
			live = append(live, it)
		}
	}
	m.jams[name] = live
	m.jamMu.Unlock()
	for _, it := range stale {
		m.settled(it, queue.ErrStale)
	}
	n := min(moveBatch, len(live))
	if alone {
		n = min(1, n)
	}
	return live[:n:n]
}

// shorten takes the first n out of a jam, but for those of failed that are still
// to go to its queue, and tells whether anything is left of it.
func (m *mover) shorten(ctx context.Context, name string, n int, failed []*move) bool {
	var stay, others []*move
	for _, it := range failed {
		if slices.ContainsFunc(it.To, func(to queue.Message) bool { return to.Queue == name }) {
			stay = append(stay, it)
		} else {
			others = append(others, it)
		}
	}
	m.jamMu.Lock()
	defer m.jamMu.Unlock()
	m.jamLocked(ctx, others)
	left := slices.Concat(stay, m.jams[name][n:])
	if len(left) == 0 {
		delete(m.jams, name)
		return false
	}
	m.jams[name] = left
	return true
}

// try publishes items once. It returns those to try again, in order, and the
// first one's fault.
func (m *mover) try(ctx context.Context, timeout time.Duration, items []*move) (failed []*move, first error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	transfers := make([]queue.Transfer, len(items))
	for i, it := range items {
		transfers[i] = it.Transfer
	}
	for i, err := range queue.MoveAll(ctx, m.d.Broker, transfers) {
		it := items[i]
		it.To = transfers[i].To
		if m.settled(it, err) {
			continue
		}
		failed = append(failed, it)
		if first == nil {
			first = err
		}
	}
	return failed, first
}

// settled does what follows from how a move went, and tells whether that was
// its end. A message that could never be published stays with this dispatcher,
// unsettled, and so on its queue: better there than in the way of all others.
func (m *mover) settled(it *move, err error) bool {
	switch {
	case err == nil:
		it.done()
	case errors.Is(err, queue.ErrStale):
		m.d.metrics.stale.Inc()
	case errors.Is(err, queue.ErrSettled):
	case errors.Is(err, queue.ErrInvalid):
		m.d.Log.Error("message cannot be moved; it stays", "id", it.Delivery.ID, "queue", it.Delivery.Queue, "err", err)
	default:
		return false
	}
	m.finish(it)
	return true
}
