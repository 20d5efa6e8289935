// Package ledger judges whether messages arrived: each once, for its recipient
// and in order. It is told which message ids must arrive (Announce) and how
// every send ended (Page.Record). It reports which ids were accepted, refused,
// lost, duplicated, unexpected and out of order. An expected id counts as lost
// until it is accepted, so a ledger that shows nothing lost proves that nothing
// is missing at that moment.
//
// At every moment the counts add up: Expected + Duplicated + Unexpected +
// Unidentified = Accepted + Lost.
//
// Ids are kept as 64-bit hashes. An id costs about 40 bytes while it is awaited
// and 20 afterwards, for as long as Config.Keep says. Among 10 million ids the
// chance that any two are confused is 3 in a million. All methods are safe for
// concurrent use.
package ledger

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a Ledger. The zero value is useful.
type Config struct {
	Now     func() time.Time // default time.Now
	Seconds int              // active seconds kept per page; default 600
	// Keep is the time for which an id is remembered after it was accepted or excused,
	// and up to a quarter longer; 0: for ever. The counts stay when it is forgotten. If
	// it comes again after that, it is unexpected. Awaited ids are never forgotten.
	Keep time.Duration
	// Unannounced reports whether an id of a send could not be announced
	// beforehand; nil: all could. When such an id is accepted for the first time it
	// becomes expected, and so is not unexpected. Accepted again it is a duplicate
	// like any other.
	Unannounced func(page, recipient, id string) bool
}

// Ledger holds the accounts of all pages. New makes one.
type Ledger struct {
	now         func() time.Time
	seconds     int
	part        time.Duration // of the memory of finished ids; 0: it is never renewed
	unannounced func(page, recipient, id string) bool
	seed        maphash.Seed
	clock       atomic.Uint64 // logical time, which orders posts and answers of events
	pending     atomic.Int64

	// balance is held for reading while an id and the counts that follow from it
	// change, so that Totals and Reset find them in agreement.
	balance sync.RWMutex

	mu     sync.RWMutex
	pages  map[string]*Page
	groups map[string]*group

	shards [shardCount]shard
}

// shardCount keeps the chance low that two of a handful of cores meet at one
// lock. The price is 192 empty maps.
const shardCount = 64

type shard struct {
	mu       sync.Mutex
	pending  map[uint64]awaited
	finished finished
	watched  map[uint64]*watch
}

// watch is an id whose arrival is waited for.
type watch struct {
	done     chan struct{}
	watchers int
}

// awaited is an id that was announced and has not been accepted.
type awaited struct {
	event     *Event
	recipient uint64
}

// New makes an empty ledger.
func New(c Config) *Ledger {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Seconds = cmp.Or(c.Seconds, 600)
	l := &Ledger{now: c.Now, seconds: c.Seconds, part: c.Keep / keptParts, unannounced: c.Unannounced, seed: maphash.MakeSeed(), pages: make(map[string]*Page), groups: make(map[string]*group)}
	for i := range l.shards {
		l.shards[i].clear()
	}
	return l
}

func (s *shard) clear() {
	s.pending = make(map[uint64]awaited)
	s.finished = finished{}
	s.watched = make(map[uint64]*watch)
}

func (l *Ledger) hash(s string) uint64 { return maphash.String(l.seed, s) }

func (l *Ledger) shard(h uint64) *shard { return &l.shards[h%shardCount] }

// Page returns the account of a page, opened at its first mention.
func (l *Ledger) Page(id string) *Page {
	l.mu.RLock()
	p := l.pages[id]
	l.mu.RUnlock()
	if p != nil {
		return p
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pages[id]; p != nil {
		return p
	}
	id = strings.Clone(id)
	p = &Page{ledger: l, id: id}
	l.pages[id] = p
	return p
}

// accounts returns the accounts in order of their ids.
func (l *Ledger) accounts() []*Page {
	l.mu.RLock()
	defer l.mu.RUnlock()
	pages := make([]*Page, 0, len(l.pages))
	for _, p := range l.pages {
		pages = append(pages, p)
	}
	slices.SortFunc(pages, func(a, b *Page) int { return strings.Compare(a.id, b.id) })
	return pages
}

// Pending returns how many ids are expected and not accepted.
func (l *Ledger) Pending() int { return int(l.pending.Load()) }

// Watch returns a channel that is closed when the id is accepted or excused,
// at once when it already is. The caller must call forget, which ends the watch.
func (l *Ledger) Watch(id string) (done <-chan struct{}, forget func()) {
	h := l.hash(id)
	s := l.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if in, _ := s.finished.find(h); in != nil {
		c := make(chan struct{})
		close(c)
		return c, func() {}
	}
	w := s.watched[h]
	if w == nil {
		w = &watch{done: make(chan struct{})}
		s.watched[h] = w
	}
	w.watchers++
	return w.done, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.watchers--
		if w.watchers == 0 && s.watched[h] == w {
			delete(s.watched, h)
		}
	})
}

// wakeLocked ends the watches of an id.
func (s *shard) wakeLocked(h uint64) {
	if w, ok := s.watched[h]; ok {
		close(w.done)
		delete(s.watched, h)
	}
}

// Reset empties the ledger. Ids announced before are unknown afterwards, so
// Reset belongs between runs, when nothing is in flight.
func (l *Ledger) Reset() {
	l.balance.Lock()
	defer l.balance.Unlock()
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for _, w := range s.watched {
			close(w.done)
		}
		l.pending.Add(-int64(len(s.pending)))
		s.clear()
		s.mu.Unlock()
	}
	for _, p := range l.accounts() {
		p.reset()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.groups)
}
