package strategy

import (
	"hash/fnv"
	"time"

	"chatclub/internal/article"
	"chatclub/internal/excess"
)

// pinned gives each page to one of N replicas, by its hash, with a token bucket
// of the page's whole limit there.
//
// Source: ChatClub's article, which names it and rejects it: a dead replica's
// pages stand still, and a busy page cannot use another replica's time. N is
// configured, and a replica beyond it owns nothing.
//
// On the shared queue a replica takes messages of pages that are not its own, and
// can only put them back: N deliveries a message on average, and a twentieth of a
// second for each. A queue for each replica would spare that, but it would not be
// the same system. So compare quota used and refusals, not broker operations and
// latency.
// Headroom and burst are nearly chatclub's.
type pinned struct {
	*paced[bucket]
	replica, replicas int
}

func newPinned(c Config) pinned {
	g := newPaced[bucket](c.Random)
	g.take = func(now time.Time, k excess.Key, b *bucket) time.Duration {
		return b.take(now, headroom*c.Limit(k.Class))
	}
	return pinned{paced: g, replica: c.Replica, replicas: c.Replicas}
}

// Offer gives back what is not this replica's.
func (g pinned) Offer(now time.Time, k excess.Key, retry bool) article.Decision {
	if g.of(k.Page) != g.replica {
		return article.Decision{Action: article.Return}
	}
	return g.paced.Offer(now, k, retry)
}

// of returns the replica that a page is pinned to.
func (g pinned) of(page string) int {
	h := fnv.New64a()
	h.Write([]byte(page))
	// FNV's low bits alone depend little on all but the last characters.
	x := h.Sum64()
	return int((x ^ x>>32) % uint64(g.replicas)) //nolint:gosec // below replicas
}
