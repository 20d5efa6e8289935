// Package transfer moves deliveries to other queues: each is published, and
// acknowledged once that is confirmed. Messages to one queue go in order. A queue
// that takes nothing holds up no other, and a confirmed message is never published
// again. While the broker is silent, or takes nothing at all, nothing is moved.
package transfer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
)

const (
	// batch is the number of messages in one publish. A process that is killed between
	// the broker's confirms and its own acknowledgements has doubled so many, and more
	// in one gain nothing: the broker's client writes as many at a time.
	batch = 64
	// publishTimeout is the time for which the messages to one queue may keep those to
	// all others waiting.
	publishTimeout = 5 * time.Second
	// blockedTimeout is the same for a queue that did not take a message, where
	// nothing else waits: to give up earlier is to publish that message once
	// more, and a queue that has a leader again may keep them all.
	blockedTimeout = 30 * time.Second
	// mostBlocked is the number of messages that may wait for a queue that takes
	// nothing before others give way, so that the items held here are not all for one
	// queue.
	mostBlocked = 64
	// readyPause is the pause before the next question whether the broker is ready.
	readyPause = 100 * time.Millisecond
	// reminder is the period of log lines about a blocked queue.
	reminder = time.Minute
)

// Item is one delivery and the messages in its place.
type Item struct {
	queue.Transfer
	// Else is published in place of the first message, whose id it has, where many wait
	// for that one's queue; nil: it waits with them.
	Else *queue.Message
	News string // id of a message that is left out where many wait for its queue; empty: none
	Tag  any    // the caller's own
}

// State is the state of an item.
type State int

// The states. Every item ends in one of the last three.
const (
	Blocked State = iota // its queue did not take it, or takes nothing; it waits here
	Done                 // published and acknowledged
	Stale                // it is, or will be, delivered again
	Failed               // unsettled: no broker could take it, or none had when Run ended
)

// Event tells of an item.
type Event struct {
	Item  *Item
	State State
	Err   error
}

// Config is the configuration of a Mover. All fields must be set.
type Config struct {
	Broker queue.Broker
	Log    *slog.Logger
	Now    func() time.Time
	Random func() float64
	Notify func(Event) // called by several goroutines; must not block, nor call the Mover
}

// Mover moves items in the order in which they were added. All go together, up to an
// item that its queue does not take. This queue is then blocked: its items wait, in
// order, while one message at a time is tried, and all other queues go on. Once that
// message is confirmed the rest follows. Make one with New. Safe for concurrent use.
type Mover struct {
	cfg   Config
	retry backoff.Policy

	mu      sync.Mutex
	inbox   []*Item
	ending  bool
	blocked map[string][]*Item // by queue; an entry exists while its retry runs
	more    chan struct{}      // one place: set when there is something to see
	retries sync.WaitGroup
}

// New returns a mover without work.
func New(cfg Config) *Mover {
	return &Mover{
		cfg:     cfg,
		retry:   backoff.Policy{Min: 250 * time.Millisecond, Max: 30 * time.Second, High: 1, Random: cfg.Random},
		blocked: make(map[string][]*Item),
		more:    make(chan struct{}, 1),
	}
}

// Add hands an item over. It does not block.
func (m *Mover) Add(it *Item) {
	m.mu.Lock()
	m.inbox = append(m.inbox, it)
	m.mu.Unlock()
	m.signal()
}

// End makes Run return once everything was tried.
func (m *Mover) End() {
	m.mu.Lock()
	m.ending = true
	m.mu.Unlock()
	m.signal()
}

func (m *Mover) target(to queue.Message) string { return m.cfg.Broker.Topology().Target(to) }

func (m *Mover) signal() {
	select {
	case m.more <- struct{}{}:
	default:
	}
}

// Run moves until End, or until ctx ends: an item that was not moved then stays on its
// queue. Add nothing after it.
func (m *Mover) Run(ctx context.Context) {
	defer m.abandon(ctx)
	defer m.retries.Wait()
	for {
		items, ended := m.take()
		if len(items) > 0 {
			m.pass(ctx, items)
			continue
		}
		if ended {
			return
		}
		select {
		case <-m.more:
		case <-ctx.Done():
			return
		}
	}
}

// abandon tells of the items left when Run ends.
func (m *Mover) abandon(ctx context.Context) {
	m.mu.Lock()
	left := m.inbox
	m.inbox = nil
	for name, items := range m.blocked {
		left = append(left, items...)
		delete(m.blocked, name)
	}
	m.mu.Unlock()
	m.notify(Failed, ctx.Err(), left...)
}

// take returns at most a batch, and whether nothing can come any more: a retry that runs
// may put items back.
func (m *Mover) take() (items []*Item, ended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := min(batch, len(m.inbox))
	items = m.inbox[:n:n]
	if m.inbox = m.inbox[n:]; len(m.inbox) == 0 {
		m.inbox = nil
	}
	return items, m.ending && len(m.blocked) == 0
}

// pass moves items, and leaves those that cannot be moved now with their blocked queue.
func (m *Mover) pass(ctx context.Context, items []*Item) {
	items = m.split(items)
	failed, err := m.try(ctx, publishTimeout, items)
	if len(failed) == 0 {
		return
	}
	if ctx.Err() != nil {
		m.notify(Failed, err, failed...)
		return
	}
	m.cfg.Log.Warn("messages cannot be moved now; keeping them", "messages", len(failed), "of", len(items), "err", err)
	m.mu.Lock()
	m.blockLocked(ctx, failed)
	m.mu.Unlock()
}

// split takes out the items for a blocked queue, and returns the rest.
func (m *Mover) split(items []*Item) (free []*Item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.blocked) == 0 {
		return items
	}
	for _, it := range items {
		m.leaveOutLocked(it)
		name, waits := m.waitsLocked(it)
		if waits {
			m.notify(Blocked, nil, it) // before it can be done
		}
		if waits && m.giveWayLocked(it, name) {
			name, waits = m.waitsLocked(it)
		}
		if !waits {
			free = append(free, it)
			continue
		}
		m.blocked[name] = append(m.blocked[name], it)
	}
	return free
}

// waitsLocked returns the first blocked queue that an item is to go to.
func (m *Mover) waitsLocked(it *Item) (name string, waits bool) {
	for _, to := range it.To {
		name = m.target(to)
		if _, waits = m.blocked[name]; waits {
			return name, true
		}
	}
	return "", false
}

// leaveOutLocked takes an item's news out of it, where many wait for the news' queue:
// others tell it as well.
func (m *Mover) leaveOutLocked(it *Item) {
	if it.News == "" {
		return
	}
	it.To = slices.DeleteFunc(slices.Clone(it.To), func(to queue.Message) bool {
		return to.ID == it.News && len(m.blocked[m.target(to)]) >= mostBlocked
	})
}

// giveWayLocked puts Else in the place of an item's first message, where many wait for
// that one's queue, and reports whether it did.
func (m *Mover) giveWayLocked(it *Item, name string) bool {
	if it.Else == nil || it.To[0].ID != it.Else.ID || m.target(it.To[0]) != name || len(m.blocked[name]) < mostBlocked {
		return false
	}
	it.To[0], it.Else = *it.Else, nil
	return true
}

// blockLocked puts each item behind those of the first queue that it is still to
// go to.
func (m *Mover) blockLocked(ctx context.Context, items []*Item) {
	for _, it := range items {
		if m.leaveOutLocked(it); len(it.To) == 0 { // it is only to be acknowledged
			m.inbox = append(m.inbox, it)
			m.signal()
			continue
		}
		name := m.target(it.To[0])
		if m.giveWayLocked(it, name) {
			m.inbox = append(m.inbox, it)
			m.signal()
			continue
		}
		if _, blocked := m.blocked[name]; !blocked {
			m.retries.Go(func() { m.unblock(ctx, name) })
		}
		m.blocked[name] = append(m.blocked[name], it)
	}
}

// unblock tries the items that wait for a queue, and ends when none does.
func (m *Mover) unblock(ctx context.Context, name string) {
	logged, failures := m.cfg.Now(), 1
	for {
		if failures > 0 && !backoff.Sleep(ctx, m.retry.Delay(failures)) || ctx.Err() != nil {
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

// head returns the items to try next: one alone while nothing goes through. Stale items
// go out, so that the list does not grow with every lost connection.
func (m *Mover) head(name string, alone bool) []*Item {
	m.mu.Lock()
	live := m.liveLocked(m.blocked[name])
	m.blocked[name] = live
	m.mu.Unlock()
	n := min(batch, len(live))
	if alone {
		n = min(1, n)
	}
	return live[:n:n]
}

// liveLocked returns the items that are not stale, and notifies of the others.
func (m *Mover) liveLocked(items []*Item) (live []*Item) {
	for _, it := range items {
		if it.Delivery.Stale() {
			m.notify(Stale, nil, it)
		} else {
			live = append(live, it)
		}
	}
	return live
}

// waitReady waits until the broker is ready. What has become stale goes out meanwhile.
func (m *Mover) waitReady(ctx context.Context) {
	for m.cfg.Broker.Ready() != nil && backoff.Sleep(ctx, readyPause) {
		m.mu.Lock()
		m.inbox = m.liveLocked(m.inbox)
		m.mu.Unlock()
	}
}

// shorten takes out the first n items that wait for a queue, but for those of
// failed that are still to go to it, and reports whether anything is left.
func (m *Mover) shorten(ctx context.Context, name string, n int, failed []*Item) bool {
	var stay, others []*Item
	for _, it := range failed {
		if slices.ContainsFunc(it.To, func(to queue.Message) bool { return m.target(to) == name }) {
			stay = append(stay, it)
		} else {
			others = append(others, it)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blockLocked(ctx, others)
	left := slices.Concat(stay, m.blocked[name][n:])
	if len(left) == 0 {
		delete(m.blocked, name)
		m.signal()
		return false
	}
	m.blocked[name] = left
	return true
}

// try publishes items when the broker is ready. While it is silent a delivery could not be
// acknowledged, and would come again; an alarm is no fault of a queue, so it tries until
// there is none. It returns those to try again later, in order, and the first one's error.
func (m *Mover) try(ctx context.Context, timeout time.Duration, items []*Item) (failed []*Item, first error) {
	for len(items) > 0 {
		m.waitReady(ctx)
		var errs []error
		if failed, errs = m.once(ctx, timeout, items); len(failed) == 0 {
			return nil, nil
		}
		if m.cfg.Broker.Ready() == nil || ctx.Err() != nil {
			for i, it := range failed {
				m.notify(Blocked, errs[i], it)
			}
			return failed, errs[0]
		}
		items = failed
	}
	return nil, nil
}

// once publishes items once, and returns those that no queue took, with their errors.
func (m *Mover) once(ctx context.Context, timeout time.Duration, items []*Item) (failed []*Item, errs []error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	transfers := make([]queue.Transfer, len(items))
	for i, it := range items {
		transfers[i] = it.Transfer
	}
	for i, err := range queue.TransferAll(ctx, m.cfg.Broker, transfers) {
		it := items[i]
		it.To = transfers[i].To
		switch {
		case err == nil:
			m.notify(Done, nil, it)
		case errors.Is(err, queue.ErrStale), errors.Is(err, queue.ErrSettled):
			m.notify(Stale, err, it)
		case errors.Is(err, queue.ErrInvalid):
			m.cfg.Log.Error("message cannot be moved; it stays", "id", it.Delivery.ID, "queue", it.Delivery.Queue, "err", err)
			m.notify(Failed, err, it)
		default:
			failed, errs = append(failed, it), append(errs, err)
		}
	}
	return failed, errs
}

func (m *Mover) notify(s State, err error, items ...*Item) {
	for _, it := range items {
		m.cfg.Notify(Event{Item: it, State: s, Err: err})
	}
}
