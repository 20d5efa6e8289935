package dispatch

import (
	"cmp"
	"slices"
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// held is one message in the dispatcher's hands.
type held struct {
	delivery *queue.Delivery
	out      message.Outbound
	err      error // why the body is none of ours
	source   *source
	seq      uint64         // its place among all that arrived
	death    *message.Death // it is dead already, and waits for the dead-letter queue
	state    state
	tried    bool      // it was in a call: it stays before what came behind it
	noToken  bool      // it is in the line of the pages without a token
	single   bool      // it goes alone: as part of a joined message it was refused, or failed often
	due      time.Time // when its page's pace allows a call, where it had to wait for that
	since    time.Time
	calledAt int64 // when its last call ended, if it is traced; Unix, in nanoseconds
	prev     *held // in the source's list
	next     *held
}

// state is the state of a message in the dispatcher's hands.
type state int

const (
	isWaiting state = iota
	isCalling       // in a call
	isMoving        // on its way to another queue
	isGone          // settled, or another's
)

// key returns the key of the message's line.
func (m *held) key() excess.Key {
	if m.noToken {
		return m.source.claim.partition.sharedKey()
	}
	return excess.Key{Page: m.out.Page, Class: string(m.out.Class)}
}

// mayMove reports whether a message of the partition may still go behind others.
func (m *held) mayMove() bool { return m.state == isWaiting && !m.tried }

// isAnswer reports whether a message passes copies.
func (m *held) isAnswer() bool { return m.out.Priority() == message.PriorityAnswer }

// isBehind reports whether a message that waits is sent after one that has come later:
// one that was tried goes before all that were not.
func (m *held) isBehind(later *held) bool {
	if later.tried {
		return !m.tried || m.out.Time > later.out.Time
	}
	mine, its := m.out.Priority(), later.out.Priority()
	return !m.tried && (mine < its || mine == its && m.source.lane == nil && later.source.lane != nil)
}

// split takes those out of a list that match.
func split(list []*held, match func(*held) bool) (out, kept []*held) {
	kept = list[:0]
	for _, m := range list {
		if match(m) {
			out = append(out, m)
		} else {
			kept = append(kept, m)
		}
	}
	clear(list[len(kept):])
	return out, kept
}

func bySeq(a, b *held) int { return cmp.Compare(a.seq, b.seq) }

// decode makes a message of a delivery; here and not in the engine, because it
// is work that several goroutines can share.
func decode(d *queue.Delivery, s *source, now time.Time) *held {
	m := &held{delivery: d, source: s}
	if message.IsMarker(d.Headers) {
		return m
	}
	if m.out, m.err = message.DecodeOutbound(d.Body); m.err == nil {
		if m.err = m.out.Check(now); m.err == nil {
			d.ID = m.out.ID // a message that was published without one has a digest
		}
	}
	m.tried = d.Headers[message.HeaderRetry] != ""
	m.single = m.tried
	if d.Headers[message.HeaderDead] != "" {
		if death, err := message.DeathFromHeaders(d.Headers); err == nil && slices.Contains(message.Reasons(), death.Reason) {
			m.death = &death
		}
	}
	return m
}
