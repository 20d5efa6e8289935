// Package excess is the excess map, the gate before a page's limit. It answers
// when a message of a page may be sent. It knows this replica's own calls and the
// number of replicas, and exchanges no word with any other replica.
//
// A replica is one running dispatcher (in core, which has such a map too, one
// running core). "Page" in this package means a Key: a page and a quota class,
// because the platform counts the classes apart.
//
// # Algorithm
//
// A page is free, in excess, or owned, on each replica for itself.
//
// free: messages are sent as they come, no faster than this replica's fixed
// share. That is 0.98 × limit / replicas, with a tolerance of 20 ms. The
// algorithm is the GCRA, the virtual scheduling algorithm of ITU-T I.371. Its
// theoretical arrival time (TAT) is when the next send is due at that pace.
//
// A burst may go ahead of that pace, as long as the last second as a whole is
// within the share. So the copies of one event, and of the next, do not wait
// while the page has room. The sum of all shares stays within the limit in any
// second, but for one message per replica (see Bound). So hardly anything is
// refused where the platform looks at a second. If it looks at less, refusals of
// bursts make them shorter, for all pages. In its
// first 800 ms a replica uses a tenth of its share and has no bursts, because
// the others do not count it yet.
//
// excess: a refusal puts the page in excess, and so do more messages than the
// caller is willing to hold (Overflow). Every message of it then goes to the
// page's lane, a queue that the broker delivers to one replica at a time. Pages
// of one hash share a lane. The page leaves excess when the whole lane was found
// empty at every look, once a second, for long enough. In that time its owner has
// sent what it may have held, and what came to the lane since. No call that was
// made while the page was free may be in flight here.
//
// owned: the replica that the lane is delivered to sends for all, at a learned
// pace. It begins at 0.98 × limit and reaches for 0.993 while nothing is
// refused. Each refusal takes a little off. The pace grows back slowly near the
// one that it remembers, and faster the longer no refusal came. After two
// refusals in a row the owner sends one message at a time until one passes.
//
// A replica that is alone knows all that is sent. Its caller keeps up to a
// second's worth of a free page (Decision.MaxWaiting) instead of a few messages.
// As owner it has bursts as a free page has, which count against the same
// second. So a page below its limit is as fast from its lane as when it is free.
//
// The map goes back to ChatClub's excess map, whose pages had a counter of
// refused messages and no pace. Every replica then probes on its own. At more
// than a few replicas that costs several refusals for each message.
//
// # Bound
//
// For one page at R replicas that agree on R, all of them free: at most
// 0.98 × limit × 1.02 + R messages are sent in any second. With one owner and
// the others in excess: at most 0.993 × limit × (T + 0.1 s) + 1 in any T. The
// 0.1 s count only when the owner itself was late, and the bursts of one that is
// alone keep the bound for T = 1 s. While the first replicas enter excess and the
// last are still free, both add up.
package excess

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Action is what to do with a message now.
type Action uint8

// The answers of a gate.
const (
	Send     Action = iota + 1 // call the API with it, and tell Done how that went
	Wait                       // keep it, and ask again after Decision.Wait
	Overflow                   // move it to its page's lane
	Return                     // move it to the tail of the queue it came from: an answer of other gates, not of Map
)

// Result says how a call went, as far as its page's limit is concerned.
type Result uint8

// The results of a call.
const (
	Accepted Result = iota + 1 // it counted against the limit and was let through
	Refused                    // the page's limit refused it
	Other                      // it says nothing about the limit
)

// Key is what the platform counts sends by: a page and a quota class.
type Key struct {
	Page  string
	Class string
}

// UntilDone as a wait means: until the page's next Done.
const UntilDone time.Duration = -1

// Decision is an answer about one message.
type Decision struct {
	Action     Action
	Wait       time.Duration // for Wait; UntilDone when only a result can change the answer
	Permit     Permit        // for Send
	MaxWaiting int           // for Wait: how many messages of the page may wait here; 0: no opinion
}

// Permit allows one call, and tells its result from that of others. The zero
// value allows none.
type Permit struct {
	Key   Key
	Owner bool // asked for by OfferLane
	Retry bool // its message was refused before and kept
	at    time.Time
	probe bool // see Probe
	ahead bool // of the pace, in a burst
}

// Config is what a Map needs.
type Config struct {
	Limit    func(class string) float64 // calls per second that the platform is said to allow; must be set
	Burst    time.Duration              // how far a free page may run ahead of its share; default 20 ms
	LaneHold int                        // what a lane's owner may hold while the lane looks empty: its prefetch
	Random   func() float64             // nil: math/rand/v2; [0, 1), safe for concurrent use
}

const (
	// defaultBurst is the 2 % that headroom leaves of a second. So even a burst
	// after a pause stays within the limit of any window of a second.
	defaultBurst = 20 * time.Millisecond
	shardCount   = 64 // few enough to keep, many enough that two goroutines rarely meet
	// joinTime is how long the others need to count a new replica: their half
	// second between looks, its jitter, and the broker's answer.
	joinTime  = 800 * time.Millisecond
	joinShare = 0.1
	// noBurst is how long a page has no bursts after it left excess. The other
	// replicas may find it in excess still, and its owner would send at once
	// what comes from them, beside the burst from here. It is also how long
	// after a refusal the owner that is alone has none.
	noBurst = 10 * time.Second
	// checkEvery is how often the lane of a page in excess is looked at.
	checkEvery = time.Second
	// rotateEvery is how often free pages that were not touched are forgotten.
	// The pace stays right with any time above the burst.
	rotateEvery = 10 * time.Second
)

// Map is the excess map of one replica. Make one with New. Safe for concurrent use.
type Map struct {
	cfg      Config
	seed     maphash.Seed
	replicas atomic.Int64
	joined   atomic.Int64 // Unix nanoseconds
	bursts   bursts
	shards   [shardCount]shard
}

type shard struct {
	mu sync.Mutex
	// By the hash of a free page. No pointers, so the collector passes over it.
	// Two pages of one hash share their pace: at a million pages that is one
	// chance in 10^7.
	current, previous map[uint64]bucket // previous: not touched since the last rotation
	rotated           time.Time
	busy              map[Key]*entry
	spare             *entry // a zero one to use again: most live for one call
}

// entry is a page that is more than a bucket: calls of it are in flight, it is in
// excess, or its owner's pace is remembered. It is deleted when none holds.
type entry struct {
	inFlight   int
	offered    int // of them, by Offer
	refused    int // calls that were refused since the page was last free
	excess     bool
	since      time.Time // in excess
	burst      time.Time // when what was sent in a burst before that has had its time
	checked    time.Time // last returned by TakeDue
	empty      bool      // the lane was, at the last look
	emptyAt    time.Time // the first look in a row that found it so
	overflowed int       // messages that went to the lane from here since then
	pace       *pace
}

// New returns an empty map for a replica that joins at now. It panics when
// cfg.Limit is nil.
func New(cfg Config, now time.Time) *Map {
	if cfg.Limit == nil {
		panic("excess: Config.Limit must be set")
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	if cfg.Burst == 0 {
		cfg.Burst = defaultBurst
	}
	m := &Map{cfg: cfg, seed: maphash.MakeSeed()}
	m.replicas.Store(1)
	m.Join(now)
	m.bursts.reset()
	for i := range m.shards {
		m.shards[i] = shard{
			current: make(map[uint64]bucket), busy: make(map[Key]*entry), rotated: now,
		}
	}
	return m
}

// SetReplicas sets how many replicas share the pages' limits, this one included.
func (m *Map) SetReplicas(n int) { m.replicas.Store(int64(max(1, n))) }

// Join notes that this replica begins at now, unknown to the others.
func (m *Map) Join(now time.Time) { m.joined.Store(now.UnixNano()) }

func (m *Map) shard(k Key) (*shard, uint64) {
	h := maphash.Comparable(m.seed, k)
	return &m.shards[h%shardCount], h
}

// share returns the rate at which this replica may send for a free page.
func (m *Map) share(now time.Time, class string) float64 {
	s := headroom * m.cfg.Limit(class) / float64(m.replicas.Load())
	if m.joining(now) {
		s *= joinShare
	}
	return s
}

// joining reports whether the other replicas may not count this one yet.
func (m *Map) joining(now time.Time) bool { return now.UnixNano()-m.joined.Load() < int64(joinTime) }

// Offer asks for a message that did not come from a lane. retry says that it was
// refused before and Done said to keep it, which this map never does. A message
// that is to overflow is counted as gone to its lane.
func (m *Map) Offer(now time.Time, k Key, retry bool) Decision {
	s, h := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.busy[k]
	if e != nil && e.excess {
		e.overflowed++
		return Decision{Action: Overflow}
	}
	wait, ahead := m.takeLocked(s, h, now, k.Class)
	if wait > 0 {
		return Decision{Action: Wait, Wait: wait, MaxWaiting: m.maxWaiting(now, k.Class)}
	}
	e = s.entryLocked(k)
	e.inFlight++
	e.offered++
	return Decision{Action: Send, Permit: Permit{Key: k, Retry: retry, at: now, ahead: ahead}}
}

func (s *shard) entryLocked(k Key) *entry {
	e := s.busy[k]
	if e == nil {
		if e, s.spare = s.spare, nil; e == nil {
			e = &entry{}
		}
		s.busy[k] = e
	}
	return e
}

// OfferLane asks for a message of a lane that is delivered to this replica,
// which makes it the page's owner.
func (m *Map) OfferLane(now time.Time, k Key) Decision {
	s, h := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(k)
	if e.pace == nil {
		e.pace = newPace(now, m.cfg.Limit(k.Class), m.cfg.Random)
	}
	s.enterLocked(e, h, now) // the others overflow, so this one must not send its share beside
	e.pace.tat = later(e.pace.tat, e.burst)
	t := s.bucketLocked(h, now)
	wait := e.pace.wait(now)
	ahead := false
	if wait > 0 && m.alone() && e.pace.calm(now) {
		sooner := t.burst(now, m.most(now, seconds(1/m.share(now, k.Class))))
		wait, ahead = min(wait, sooner), sooner == 0
	}
	if wait != 0 {
		return Decision{Action: Wait, Wait: wait}
	}
	t.count()
	s.current[h] = t
	e.inFlight++
	permit := e.pace.send(now)
	permit.Key, permit.Owner, permit.ahead = k, true, ahead
	return Decision{Action: Send, Permit: permit}
}

// Overflow puts a page in excess of which more messages wait than the caller will
// hold. Those that wait overflow when they are next offered. How many they are
// does not matter to this map.
func (m *Map) Overflow(now time.Time, k Key, _ int) {
	s, h := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(k)
	s.enterLocked(e, h, now)
}

// Drop notes that a message whose call was refused will not be tried again. This
// map counts calls, not messages, and does nothing.
func (*Map) Drop(Key) {}

// Done learns how the call of a permit went; call it exactly once for each. Its
// answer is for a refused message: Overflow, or for a lane's owner Wait, at the
// front.
func (m *Map) Done(now time.Time, p Permit, r Result) Decision {
	s, h := m.shard(p.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(p.Key)
	e.inFlight = max(0, e.inFlight-1)
	d := Decision{Action: Overflow}
	if p.Owner {
		d = Decision{Action: Wait}
	} else {
		e.offered = max(0, e.offered-1)
	}
	if p.Owner && e.pace != nil {
		switch r {
		case Accepted:
			e.pace.accepted(now, p)
		case Refused:
			e.pace.refused(now, p)
		case Other:
			e.pace.land(p)
		}
	}
	if p.ahead {
		m.bursts.ended(now, r)
	}
	if r == Refused {
		e.refused++
		s.enterLocked(e, h, now)
	}
	s.dropLocked(p.Key, e, now)
	return d
}

// enterLocked puts the page in excess, or notes that it still is.
func (s *shard) enterLocked(e *entry, h uint64, now time.Time) {
	if !e.excess {
		e.excess, e.since, e.checked, e.burst = true, now, now, s.tatLocked(h)
	}
	e.empty = false
}

// dropLocked deletes an entry that holds nothing any more.
func (s *shard) dropLocked(k Key, e *entry, now time.Time) {
	if e.inFlight == 0 && !e.excess && (e.pace == nil || e.pace.idle(now)) {
		delete(s.busy, k)
		*e = entry{}
		s.spare = e
	}
}

// TakeDue returns the pages in excess whose lanes are to be looked at now, each
// once a second, and forgets what is idle. Call it a few times a second.
func (m *Map) TakeDue(now time.Time) []Key {
	var due []Key
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for k, e := range s.busy {
			switch {
			case !e.excess:
				s.dropLocked(k, e, now)
			case now.Sub(e.checked) >= checkEvery:
				e.checked = now
				due = append(due, k)
			}
		}
		if now.Sub(s.rotated) >= rotateEvery {
			s.rotated = now
			s.current, s.previous = make(map[uint64]bucket), s.current
		}
		s.mu.Unlock()
	}
	return due
}

// SetLaneDepth learns how many messages wait in the lane of a page in excess. The
// page leaves excess when the lane was empty for long enough.
func (m *Map) SetLaneDepth(now time.Time, k Key, ready int) {
	s, h := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.busy[k]
	if e == nil || !e.excess {
		return
	}
	if ready > 0 {
		e.empty = false
		return
	}
	if !e.empty {
		e.empty, e.emptyAt, e.overflowed = true, now, 0
		return
	}
	// A lane looks empty while its owner holds up to LaneHold messages of it. A
	// replica where the page is free before they are sent adds its share to the
	// owner's pace. The owner has sent them when it could have sent all that came
	// since, and as many more. What came is what came from here, times the
	// replicas.
	could := headroom * m.cfg.Limit(k.Class) * now.Sub(e.emptyAt).Seconds()
	came := float64(e.overflowed) * float64(m.replicas.Load())
	if could-came >= float64(m.cfg.LaneHold) && e.offered == 0 {
		e.excess, e.refused = false, 0
		s.current[h] = m.freedLocked(s, h, e, now)
		s.dropLocked(k, e, now)
	}
}
