package strategy

import (
	"time"

	"chatclub/internal/excess"
)

// newStatic gives each of N replicas a token bucket of limit / N a page.
//
// Source: ChatClub's article, which names it and rejects it. N is what was
// configured at the start. It does not change when a replica dies or one more is
// started. Tuned for it: headroom and burst nearly as chatclub's, and N is
// right at the start.
func newStatic(c Config) *paced[bucket] {
	g := newPaced[bucket](c.Random)
	g.take = func(now time.Time, k excess.Key, b *bucket) time.Duration {
		return b.take(now, headroom*c.Limit(k.Class)/float64(c.Replicas))
	}
	return g
}
