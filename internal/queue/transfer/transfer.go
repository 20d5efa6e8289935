// Package transfer moves deliveries to other queues. Each is acknowledged only
// after all that takes its place is confirmed, and nothing overtakes on its way
// to one queue. A queue that takes no messages holds up no other.
package transfer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
)

const (
	// batchSize is how many messages move with one publish. A mover that is
	// killed between the broker's confirms and its own acknowledgements has
	// doubled so many. More in one gain nothing, because the broker's client
	// writes so many at a time.
	batchSize = 64
	// batchTimeout is how long the messages to one queue may keep those to all
	// others waiting. It also bounds for how long deliveries that became stale
	// meanwhile may still be published.
	batchTimeout = 5 * time.Second
	// blockedTimeout is the same for a blocked queue, where no other message
	// waits. A mover that gives up earlier publishes the message once more, and
	// a queue that has a leader again may keep them all.
	blockedTimeout = 30 * time.Second
	// reminder is how often a blocked queue is logged.
	reminder = time.Minute
	// Backoff between two tries of a blocked queue: from a quarter second, as
	// between the attempts of a call, to half a minute.
	minBackoff = 250 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// Config is what a Mover needs. All fields must be set.
type Config struct {
	Publisher queue.Publisher
	Log       *slog.Logger
	Now       func() time.Time
	Random    func() float64     // [0, 1), safe for concurrent use
	Stale     prometheus.Counter // deliveries that became stale before they were moved
}

// Transfer is a delivery that moves to other queues.
type Transfer struct {
	queue.Transfer
	Done func() // called once it has moved; must not block
}

// Mover publishes messages elsewhere and acknowledges each once it is
// confirmed. The errors of some change nothing for the others.
//
// All go together, in order, up to a message that its queue does not take. Then
// this queue is blocked. What is to go to it waits, in order, while one message
// at a time is tried, and all other queues go on. Once that message is confirmed
// the rest follows. So a message that was confirmed is never published again.
// Of those whose confirm is in doubt only the first is published again and
// again. After does not wait for a blocked queue: one queue without a leader must
// not keep a lane from being given up.
//
// Make one with New; the zero value is not useful. Safe for concurrent use.
type Mover struct {
	*inbox
	cfg Config

	retries   sync.WaitGroup
	blockedMu sync.Mutex
	blocked   map[string][]*item // by queue, what waits; an entry exists while its retry runs
}

// New returns a mover that moves nothing until Run.
func New(cfg Config) *Mover {
	return &Mover{cfg: cfg, inbox: newInbox(), blocked: make(map[string][]*item)}
}

// Run moves until End, or until ctx ends. What was not moved then stays on its
// queue. All goroutines have ended when it returns.
func (m *Mover) Run(ctx context.Context) {
	for items := m.take(batchSize); items != nil; items = m.take(batchSize) {
		m.move(ctx, items)
	}
	m.retries.Wait()
}

// move moves items. What cannot be moved now waits for its blocked queue.
func (m *Mover) move(ctx context.Context, items []*item) {
	items, waiting := m.holdBlocked(items)
	m.finish(waiting...)
	failed, err := m.try(ctx, batchTimeout, items)
	if len(failed) == 0 || ctx.Err() != nil {
		return
	}
	m.cfg.Log.Warn("messages cannot be moved now; keeping them", "messages", len(failed), "of", len(items), "err", err)
	m.blockedMu.Lock()
	m.blockLocked(ctx, failed)
	m.blockedMu.Unlock()
	m.finish(failed...)
}

// blockLocked has each of items wait for the first queue that it is still to go
// to. That queue is blocked from now on.
func (m *Mover) blockLocked(ctx context.Context, items []*item) {
	for _, it := range items {
		name := it.To[0].Queue
		if _, blocked := m.blocked[name]; !blocked {
			m.retries.Go(func() { m.retry(ctx, name) })
		}
		m.blocked[name] = append(m.blocked[name], it)
	}
}

// holdBlocked has the items that are to go to a blocked queue wait for it, and
// returns the others as free.
func (m *Mover) holdBlocked(items []*item) (free, waiting []*item) {
	m.blockedMu.Lock()
	defer m.blockedMu.Unlock()
	if len(m.blocked) == 0 {
		return items, nil
	}
	for _, it := range items {
		i := slices.IndexFunc(it.To, func(to queue.Message) bool { _, blocked := m.blocked[to.Queue]; return blocked })
		if i < 0 {
			free = append(free, it)
			continue
		}
		name := it.To[i].Queue
		m.blocked[name] = append(m.blocked[name], it)
		waiting = append(waiting, it)
	}
	return free, waiting
}

// retry moves what waits for a blocked queue, and ends when nothing does.
func (m *Mover) retry(ctx context.Context, name string) {
	delays := backoff.Policy{Min: minBackoff, Max: maxBackoff, High: 1, Random: m.cfg.Random}
	logged, failures := m.cfg.Now(), 1
	for {
		if failures > 0 && !backoff.Sleep(ctx, delays.Delay(failures)) || ctx.Err() != nil {
			return
		}
		items := m.head(name, failures > 0)
		failed, err := m.try(ctx, blockedTimeout, items)
		if len(failed) == 0 {
			failures = 0
		} else {
			failures++
			if now := m.cfg.Now(); now.Sub(logged) >= reminder {
				logged = now
				m.cfg.Log.Warn("a queue still takes no messages", "queue", name, "err", err)
			}
		}
		if !m.shorten(ctx, name, len(items), failed) {
			m.cfg.Log.Info("no message waits for a queue any more", "queue", name)
			return
		}
	}
}

// head returns what to try next for a blocked queue: as long as nothing goes
// through, the first message alone. It lets go of what is stale, so that the
// list does not grow with every lost connection.
func (m *Mover) head(name string, alone bool) []*item {
	m.blockedMu.Lock()
	var stale []*item
	live := m.blocked[name][:0:0]
	for _, it := range m.blocked[name] {
		if it.Delivery.Stale() {
			stale = append(stale, it)
		} else {
			live = append(live, it)
		}
	}
	m.blocked[name] = live
	m.blockedMu.Unlock()
	for _, it := range stale {
		m.settle(it, queue.ErrStale)
	}
	n := min(batchSize, len(live))
	if alone {
		n = min(1, n)
	}
	return live[:n:n]
}

// shorten takes the first n out of what waits for a blocked queue, except those
// of failed that are still to go there. It reports whether anything is left.
func (m *Mover) shorten(ctx context.Context, name string, n int, failed []*item) bool {
	var stay, others []*item
	for _, it := range failed {
		if slices.ContainsFunc(it.To, func(to queue.Message) bool { return to.Queue == name }) {
			stay = append(stay, it)
		} else {
			others = append(others, it)
		}
	}
	m.blockedMu.Lock()
	defer m.blockedMu.Unlock()
	m.blockLocked(ctx, others)
	left := slices.Concat(stay, m.blocked[name][n:])
	if len(left) == 0 {
		delete(m.blocked, name)
		return false
	}
	m.blocked[name] = left
	return true
}

// try publishes items once. It returns those to try again, in order, and the
// first one's error.
func (m *Mover) try(ctx context.Context, timeout time.Duration, items []*item) (failed []*item, first error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	transfers := make([]queue.Transfer, len(items))
	for i, it := range items {
		transfers[i] = it.Transfer.Transfer
	}
	for i, err := range queue.MoveAll(ctx, m.cfg.Publisher, transfers) {
		it := items[i]
		it.To = transfers[i].To
		if m.settle(it, err) {
			continue
		}
		failed = append(failed, it)
		if first == nil {
			first = err
		}
	}
	return failed, first
}

// settle ends a transfer by how it went, and reports whether that was its end. A
// message that could never be published stays unsettled, and so on its queue:
// better there than in the way of all others.
func (m *Mover) settle(it *item, err error) bool {
	switch {
	case err == nil:
		it.Done()
	case errors.Is(err, queue.ErrStale):
		m.cfg.Stale.Inc()
	case errors.Is(err, queue.ErrSettled):
	case errors.Is(err, queue.ErrInvalid):
		m.cfg.Log.Error("message cannot be moved; it stays", "id", it.Delivery.ID, "queue", it.Delivery.Queue, "err", err)
	default:
		return false
	}
	m.finish(it)
	return true
}
