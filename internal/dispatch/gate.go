package dispatch

import (
	"time"

	"chatclub/internal/excess"
)

// Gate decides when a page may be sent to. It is the seam at which ways of
// sharing a page's limit are exchanged: *excess.Map is chatclub's own, package
// strategy has others. The engine around it stays the same. Safe for
// concurrent use; the methods are described at excess.Map.
type Gate interface {
	Offer(now time.Time, k excess.Key, again bool) excess.Decision
	OfferLane(now time.Time, k excess.Key) excess.Decision
	Overflow(now time.Time, k excess.Key, waiting int)
	Done(now time.Time, p excess.Pass, r excess.Result) excess.Decision
	Drop(k excess.Key)

	Spills(k excess.Key) bool
	TakeDue(now time.Time) []excess.Key
	SetLaneDepth(now time.Time, k excess.Key, ready int)
	SetReplicas(n int)
	Join(now time.Time)
	Counts() excess.Counts
}

var _ Gate = (*excess.Map)(nil)
