package dispatch

import (
	"time"

	"chatclub/internal/excess"
)

// Gate decides when a page may be sent to. It is the seam at which ways of sharing
// a page's limit are exchanged: *excess.Map is chatclub's own, and package
// strategy has others. Safe for concurrent use. The methods are described at
// excess.Map; Return, retry, Drop and the number of those that wait are for gates
// without lanes.
type Gate interface {
	Offer(now time.Time, k excess.Key, retry bool) excess.Decision
	OfferLane(now time.Time, k excess.Key) excess.Decision
	Overflow(now time.Time, k excess.Key, waiting int)
	Done(now time.Time, p excess.Permit, r excess.Result) excess.Decision
	Drop(k excess.Key)

	InExcess(k excess.Key) bool
	TakeDue(now time.Time) []excess.Key
	SetLaneDepth(now time.Time, k excess.Key, ready int)
	SetReplicas(n int)
	Join(now time.Time)
	Counts() excess.Counts
}

var _ Gate = (*excess.Map)(nil)
