package dispatch

import (
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/queue"
)

// partition is one of the partitions, whether or not it is ours at the moment.
type partition struct {
	index int    // never changed; or allPages
	claim *claim // nil between two
}

// allPages is the index of the queue for all pages, from which messages go on to their
// pages' partitions. It has no lanes.
const allPages = -1

// queues are a partition's queue, and those of its lanes.
func (p *partition) queues(top queue.Topology) (name string, lanes []string) {
	if p.index == allPages {
		return top.OutboundAny(), nil
	}
	return top.Outbound(p.index), top.LanesOf(p.index)
}

// claim is the subscriptions of a partition and of its lanes, all with one priority.
// The broker gives them to the replica with the highest, which is their owner.
type claim struct {
	partition    *partition
	priority     int
	sources      []*source // the partition's first, then those of its lanes
	lanes        []*lane
	since        time.Time // from when this replica alone sends for its pages, as far as it knows; zero: it may not be alone
	begun        time.Time // when its queues were asked last what they hold: after a quiet time, too, when since stays unless something is redelivered
	unknownSince time.Time // since when it is not known what they hold, also to the claim before; zero: it is known
	busy         time.Time // when a message was delivered last
	asking       bool      // the broker is asked whether this replica is outranked
	probeAt      time.Time // no marker asks so before

	state     claimState
	givenUpAt time.Time
	patience  time.Duration // with its calls, from then on
	lost      bool          // it goes to another replica
}

// claimState is the stage of a claim on the way to its end.
type claimState int

const (
	isOpen    claimState = iota
	isEnding             // nothing more is taken or sent; what is under way is waited for
	isClosing            // its subscriptions end
)

// isGivenUp reports whether nothing more of a claim is taken or sent.
func (c *claim) isGivenUp() bool { return c.state != isOpen }

// source is the subscription of one queue, and the messages that are held of it.
type source struct {
	queue    string
	claim    *claim
	lane     *lane // nil: the partition's
	sub      queue.Subscription
	prefetch int
	came     time.Time       // when something was delivered last, or there was room for more again
	latest   *queue.Delivery // that came last; nil: none since the last lost connection
	known    bool            // what is in it is: something of the partition has come, or a lane's marker, or much of it; or none will
	marker   string          // id of the marker that is in it; empty: it came
	asked    time.Time       // when it was sent last
	heard    time.Time       // its first delivery since claim.begun

	first, last *held // unsettled messages in order of arrival
	inHand      int   // their number
	inFlight    int   // of them in calls
	moving      int   // of them on their way to other queues

	rounds     int       // times that a broadcast went round since roundSince
	roundSince time.Time // a second ago at most, when one goes round
}

// isStale reports whether the connection of what came last is lost, and not dropped yet.
func (s *source) isStale() bool { return s.latest != nil && s.latest.Stale() }

// delivers reports whether it is a lane that has delivered something since its claim began.
func (s *source) delivers() bool { return s.lane != nil && !s.heard.Before(s.claim.begun) }

// free returns the number of messages that the broker may still deliver.
func (s *source) free() int { return s.prefetch - s.inHand }

// room returns the same, and those on their way to other queues, which leave it soon.
func (s *source) room() int { return s.free() + s.moving }

// add puts a message at the end of what is held.
func (s *source) add(m *held) {
	m.prev = s.last
	if s.last == nil {
		s.first = m
	} else {
		s.last.next = m
	}
	s.last = m
	s.inHand++
}

// drop takes a message out.
func (s *source) drop(m *held) {
	if m.prev == nil {
		s.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		s.last = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.prev, m.next = nil, nil
	s.inHand--
}

// holds reports whether there is anything of a page and class.
func (s *source) holds(k excess.Key) bool {
	for m := s.first; m != nil; m = m.next {
		if m.key() == k {
			return true
		}
	}
	return false
}

// count adds up a number of each source.
func (c *claim) count(of func(*source) int) (n int) {
	for _, s := range c.sources {
		n += of(s)
	}
	return n
}

func inHandOf(s *source) int { return s.inHand }

func inFlightOf(s *source) int { return s.inFlight }

func movingOf(s *source) int { return s.moving }
