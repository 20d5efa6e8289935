// Package article sends as ChatClub's article says: one queue for all pages, many
// workers, and an excess map that each keeps for itself. Article is the map. Worker is
// the loop that sends as it, or another gate, decides. The demonstration shows it
// beside chatclub's own way, and the load test compares both.
package article

import (
	"time"

	"chatclub/internal/excess"
)

// Action is a gate's decision about a message.
type Action uint8

// The actions.
const (
	Send   Action = iota + 1 // call the API with it, and tell Done how that went
	Wait                     // keep it, and ask again after Decision.Wait
	Return                   // move it to the tail of its queue
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
	Offer(now time.Time, k excess.Key, retry bool) Decision
	// Done tells how the call of an offered message went, and returns how long it
	// is kept where it was refused.
	Done(now time.Time, k excess.Key, retry bool, r excess.Result) time.Duration
	// Overflow says that so many messages of a page wait, more than should.
	Overflow(now time.Time, k excess.Key, waiting int)
	// Drop says that a refused message is not tried again.
	Drop(k excess.Key)
}
