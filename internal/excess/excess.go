// Package excess is the excess map: it answers when a message of a page may be
// sent, from this replica's own calls and the number of replicas, with no word
// to any other replica.
//
// # Algorithm
//
// A page is free, in excess, or owned, on each replica for itself.
//
// free: messages are sent as they come, no faster than this replica's fixed
// share, 0.98 × limit / replicas, with a tolerance of 20 ms (GCRA, the
// virtual scheduling algorithm of ITU-T I.371). Ahead of that pace goes what is
// not above the share of the last second as a whole, so that the copies of one
// event, and of the next, do not wait while the page has room. The sum of all
// shares stays below the limit in any second, so nothing is refused where a
// second is what the platform looks at; where it is less, refusals of such
// bursts make them shorter, for all pages. In its first 800 ms a replica uses a
// tenth of its share and has no bursts, because the others do not count it yet.
//
// excess: a refusal, or more messages than the caller is willing to hold
// (Overflow), put the page in excess. Every message of it goes to the page's
// lane, a queue that the broker delivers to one replica at a time. Left when
// the lane was found empty at every look for so long that its owner has sent
// what it may have held and what came to the lane since, and no call that was
// made while the page was free is in flight here.
//
// owned: the replica that the lane is delivered to sends for all, at a learned
// pace: it begins at 0.98 × limit and reaches for 0.993 while nothing is
// refused, takes a little off at each refusal, grows back slowly near the pace
// it remembers and faster the longer none came, and after two refusals in a row
// sends one message at a time until one passes.
//
// A replica that is alone knows all that is sent. It has its caller keep up to
// a second's worth of a free page (Decision.Park) instead of a few messages,
// and as owner it has bursts as a free page has, which count against the same
// second. So a page below its limit is as fast from its lane as when it is free.
//
// It goes back to ChatClub's excess map, whose pages had a counter of refused
// messages and no pace: every replica then probes on its own, which costs
// several refusals for each message at more than a few replicas.
//
// # Bound
//
// For one page at R replicas that agree on R, all of them free: at most
// 0.98 × limit × 1.02 + R messages are sent in any second. With one owner and
// the others in excess: at most 0.993 × limit × (T + 0.1 s) + 1 in any T, and
// the 0.1 s only when the owner itself was late; the bursts of one that is
// alone keep that for T = 1 s. While the first replicas enter excess and the
// last are still free, both add up.
package excess

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Do is what to do with a message now.
type Do uint8

// What the gate can answer.
const (
	Send   Do = iota + 1 // call the API with it, and tell Done how that went
	Wait                 // keep it, and ask again after Decision.Wait
	Spill                // move it to its page's lane
	Return               // move it to the tail of the queue it came from; no answer of Map, but of other gates
)

// Result says how a call went, as far as its page's limit is concerned.
type Result uint8

// The results of a call.
const (
	Accepted Result = iota + 1 // it counted against the limit and was let through
	Refused                    // the page's limit refused it
	Other                      // it says nothing about the limit
)

// Key names what the platform counts sends by: a page and a quota class.
type Key struct {
	Page  string
	Class string
}

// UntilDone as a wait means: until the page's next Done.
const UntilDone time.Duration = -1

// Decision is an answer about one message.
type Decision struct {
	Do   Do
	Wait time.Duration // for Wait; UntilDone when only a result can change the answer
	Pass Pass          // for Send
	Park int           // for Wait: how many messages of the page may wait; 0: no opinion
}

// Pass is the leave to make one call. The zero value is that of no call.
type Pass struct {
	Key    Key
	Owner  bool // asked for by OfferLane
	Again  bool // its message was refused before and kept
	ticket ticket
}

// Config is what a Map needs.
type Config struct {
	Limit    func(class string) float64 // calls per second that the platform is said to allow; must be set
	Burst    time.Duration              // how far a free page may run ahead of its share; default 20 ms
	LaneHold int                        // what a lane's owner may hold while the lane looks empty: its prefetch
	Random   func() float64             // nil: math/rand; [0, 1), safe for concurrent use
}

const (
	// defaultBurst is the 2 % that headroom leaves of a second, so that even a
	// burst after a pause stays within the limit of any window of a second.
	defaultBurst = 20 * time.Millisecond
	shardCount   = 64 // few enough to keep, many enough that two goroutines rarely meet
	// joinTime is how long the others need to count a new replica: their half
	// second between looks, its spread, and the broker's answer.
	joinTime  = 800 * time.Millisecond
	joinShare = 0.1
	// noBurst is how long after it left excess a page has no bursts: the other
	// replicas may find it in excess still, and its owner would send at once
	// what comes from them, beside the burst from here. It is also how long
	// after a refusal the owner that is alone has none.
	noBurst = 10 * time.Second
	// checkEvery is how often the lane of a page in excess is looked at.
	checkEvery = time.Second
	// turnEvery is how often free pages that were not touched are forgotten.
	// Any time above the burst keeps the pace right.
	turnEvery = 10 * time.Second
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
	young, old map[uint64]turn // old: not touched since the last turning
	turned     time.Time
	busy       map[Key]*entry
	spare      *entry // a zero one to use again: most live for one call
}

// entry is a page that is more than a due time: calls of it are in flight, it
// is in excess, or its owner's pace is remembered. It goes when none holds.
type entry struct {
	inFlight int
	offered  int // of them, by Offer
	refused  int // calls that were refused since the page was last free
	excess   bool
	since    time.Time // in excess
	burst    time.Time // when what went out in a burst before that has had its time
	checked  time.Time // last asked for by TakeDue
	empty    bool      // the lane was, at the last look
	emptyAt  time.Time // the first look in a row that found it so
	spilled  int       // messages that went to the lane from here since then
	pace     *pace
}

// New returns an empty map for a replica that joins at now.
func New(cfg Config, now time.Time) *Map {
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
			young: make(map[uint64]turn), busy: make(map[Key]*entry), turned: now,
		}
	}
	return m
}

// SetReplicas tells how many replicas share the pages' limits, this one included.
func (m *Map) SetReplicas(n int) { m.replicas.Store(int64(max(1, n))) }

// Join tells that this replica begins at now, unknown to the others.
func (m *Map) Join(now time.Time) { m.joined.Store(now.UnixNano()) }

func (m *Map) shard(k Key) (*shard, uint64) {
	h := maphash.Comparable(m.seed, k)
	return &m.shards[h%shardCount], h
}

// share is the rate at which this replica may send for a free page.
func (m *Map) share(now time.Time, class string) float64 {
	s := headroom * m.cfg.Limit(class) / float64(m.replicas.Load())
	if m.joining(now) {
		s *= joinShare
	}
	return s
}

// joining tells whether the other replicas may not count this one yet.
func (m *Map) joining(now time.Time) bool { return now.UnixNano()-m.joined.Load() < int64(joinTime) }

// Offer asks for a message that did not come from a lane. again says that it
// was refused before and Done said to keep it, which this map never does.
func (m *Map) Offer(now time.Time, k Key, again bool) Decision {
	s, h := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.busy[k]
	if e != nil && e.excess {
		e.spilled++
		return Decision{Do: Spill}
	}
	wait, ahead := m.takeLocked(s, h, now, k.Class)
	if wait > 0 {
		return Decision{Do: Wait, Wait: wait, Park: m.park(now, k.Class)}
	}
	e = s.entryLocked(k)
	e.inFlight++
	e.offered++
	return Decision{Do: Send, Pass: Pass{Key: k, Again: again, ticket: ticket{at: now, ahead: ahead}}}
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
	s.enterLocked(e, h, now) // others spill, so this one must not send its share beside
	e.pace.tat = latest(e.pace.tat, e.burst)
	t := s.turnLocked(h, now)
	wait := e.pace.wait(now)
	ahead := false
	if wait > 0 && m.alone() && e.pace.calm(now) {
		sooner := t.burst(now, m.most(now, seconds(1/m.share(now, k.Class))))
		wait, ahead = min(wait, sooner), sooner == 0
	}
	if wait != 0 {
		return Decision{Do: Wait, Wait: wait}
	}
	t.count()
	s.young[h] = t
	e.inFlight++
	ticket := e.pace.send(now)
	ticket.ahead = ahead
	return Decision{Do: Send, Pass: Pass{Key: k, Owner: true, ticket: ticket}}
}

// Overflow tells that more messages of a page wait than the caller will hold:
// the page is in excess, and those that wait are spilled.
func (m *Map) Overflow(now time.Time, k Key, waiting int) {
	s, h := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(k)
	s.enterLocked(e, h, now)
	e.spilled += waiting
}

// Drop tells that a message whose call was refused will not be tried again. To
// this map it means nothing: it counts calls, not messages.
func (*Map) Drop(Key) {}

// Done tells how the call of a pass went; call it exactly once for each. What
// it answers is for a refused message: Spill, or for a lane's owner Wait, at
// the front.
func (m *Map) Done(now time.Time, p Pass, r Result) Decision {
	s, h := m.shard(p.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(p.Key)
	e.inFlight = max(0, e.inFlight-1)
	d := Decision{Do: Spill}
	if p.Owner {
		d = Decision{Do: Wait}
	} else {
		e.offered = max(0, e.offered-1)
	}
	if p.Owner && e.pace != nil {
		switch r {
		case Accepted:
			e.pace.accepted(now, p.ticket)
		case Refused:
			e.pace.refused(now, p.ticket)
		case Other:
			e.pace.land(p.ticket)
		}
	}
	if p.ticket.ahead {
		m.bursts.ended(now, r)
	}
	if r == Refused {
		e.refused++
		s.enterLocked(e, h, now)
	}
	s.dropLocked(p.Key, e, now)
	return d
}

// enterLocked puts the page in excess, or says that it still is.
func (s *shard) enterLocked(e *entry, h uint64, now time.Time) {
	if !e.excess {
		e.excess, e.since, e.checked, e.burst = true, now, now, s.dueLocked(h)
	}
	e.empty = false
}

// dropLocked forgets an entry that holds nothing any more.
func (s *shard) dropLocked(k Key, e *entry, now time.Time) {
	if e.inFlight == 0 && !e.excess && (e.pace == nil || e.pace.idle(now)) {
		delete(s.busy, k)
		*e = entry{}
		s.spare = e
	}
}

// TakeDue returns the pages in excess whose lanes are to be looked at now, and
// forgets what is idle. Ask a few times a second.
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
		if now.Sub(s.turned) >= turnEvery {
			s.turned = now
			s.young, s.old = make(map[uint64]turn), s.young
		}
		s.mu.Unlock()
	}
	return due
}

// SetLaneDepth tells how many messages the lane of a page in excess has ready.
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
		e.empty, e.emptyAt, e.spilled = true, now, 0
		return
	}
	// A lane looks empty while its owner holds up to LaneHold messages of it.
	// Whoever is free before they are sent adds its share to the owner's pace.
	// The owner has sent them when it could have sent all that came since, and
	// as many more. What came is what came from here, times the replicas.
	could := headroom * m.cfg.Limit(k.Class) * now.Sub(e.emptyAt).Seconds()
	came := float64(e.spilled) * float64(m.replicas.Load())
	if could-came >= float64(m.cfg.LaneHold) && e.offered == 0 {
		e.excess, e.refused = false, 0
		s.young[h] = m.freedLocked(s, h, e, now)
		s.dropLocked(k, e, now)
	}
}

// Spills tells whether a message that did not come from a lane goes to its
// page's lane at once, and if so counts it as gone there.
func (m *Map) Spills(k Key) bool {
	s, _ := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.busy[k]
	if e == nil || !e.excess {
		return false
	}
	e.spilled++
	return true
}
