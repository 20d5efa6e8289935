// Package article sends as ChatClub's article says: one queue for all pages, many
// workers, and an excess map that each keeps for itself. Article is the map. Worker is
// the loop that sends as it, or another gate, decides. The demonstration shows it
// beside chatclub's own way, and the load test compares both.
package article

import (
	"time"
)

// Key is the unit in which the platform counts sends: a page and a quota class.
type Key struct{ Page, Class string }

// Action is a gate's decision about a message.
type Action uint8

// The actions.
const (
	Send   Action = iota + 1 // call the API with it, and tell Done how that went
	Wait                     // keep it, and ask again after Decision.Wait
	Return                   // move it to the tail of its queue
)

// Result says how a call went, as far as its page's limit is concerned.
type Result uint8

// The results of a call.
const (
	Accepted Result = iota + 1 // it counted against the limit and was let through
	Refused                    // the page's limit refused it
	Other                      // it says nothing about the limit
)

// Decision is an answer about one message.
type Decision struct {
	Action Action
	Wait   time.Duration // for Wait
}

// Gate decides when a page may be sent to. Offer may take as long as a round trip to a
// server; the other methods do not block. Safe for concurrent use.
type Gate interface {
	// Offer asks about a message. retry says that it was refused before and kept.
	Offer(now time.Time, k Key, retry bool) Decision
	// Done tells how the call of an offered message went, and returns how long it
	// is kept where it was refused.
	Done(now time.Time, k Key, retry bool, r Result) time.Duration
	// Overflow says that so many messages of a page wait, more than should.
	Overflow(now time.Time, k Key, waiting int)
	// Drop says that a refused message is not tried again.
	Drop(k Key)
}
