package strategy

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"chatclub/internal/article"
)

// The values of the source's text and of its author's library
// (plasne/go-batcher).
const (
	partitions = 20               // "500 requests per second … 20 partitions worth 25"
	leaseTime  = 15 * time.Second // "a short period of time (15 seconds)"
	// leaseEvery is the longest time between two tries, a random part of which
	// is waited: four tries a second on average.
	leaseEvery = 500 * time.Millisecond
	// reservedPart of the limit is divided among the replicas for good, "a
	// small amount of capacity that is reserved only for that process".
	reservedPart = 0.2

	// leasePoll is how soon a message that waits is offered again at the latest,
	// so that a try that is due is made.
	leasePoll = 50 * time.Millisecond
)

// leases are what one replica holds of a page's limit.
type leases struct {
	bucket
	held   []lease
	trying int       // the partition that is asked for
	asking bool      // it is
	next   time.Time // no try before
}

type lease struct {
	partition int
	until     time.Time
}

// leased cuts a page's limit into partitions. A replica that needs more than it
// has tries to lease one at random, exclusively and for some seconds. It sends
// at the sum of what it holds and of a share that is its own for good.
//
// Source: Azure's Rate Limiting pattern, with leases in Redis (SET NX PX) in
// place of blobs, which the text allows. The numbers are those of the text and
// of its author's library. As there, a lease is not renewed or given back, it
// runs out. What a replica that died held is used by none for up to 15 s, and
// replicas that guess do not find what is held. N is configured, for the
// reserved share. Headroom and burst are chatclub's own.
type leased struct {
	*paced[leases]
	*batcher
	cfg Config
}

func newLeased(c Config, d *batcher) *leased {
	s := &leased{paced: newPaced[leases](c.Random), batcher: d, cfg: c}
	s.take = func(now time.Time, k article.Key, p *leases) time.Duration {
		wait := p.take(now, p.share(now, c.Replicas)*headroom*c.Limit(k.Class))
		if wait == 0 {
			return 0
		}
		if !p.asking && !now.Before(p.next) && len(p.held) < partitions {
			p.asking, p.trying = true, p.guess(c.Random())
			d.want(k)
		}
		return min(wait, leasePoll)
	}
	d.ask = s.lease
	return s
}

// share returns the part of the limit that this replica may use now.
func (p *leases) share(now time.Time, replicas int) float64 {
	p.held = slices.DeleteFunc(p.held, func(l lease) bool { return !now.Before(l.until) })
	return reservedPart/float64(replicas) + (1-reservedPart)*float64(len(p.held))/partitions
}

// guess returns one of the partitions that are not held here; r is in [0, 1).
func (p *leases) guess(r float64) int {
	n := int(r * float64(partitions-len(p.held)))
	for i := range partitions {
		if slices.ContainsFunc(p.held, func(l lease) bool { return l.partition == i }) {
			continue
		}
		if n--; n < 0 {
			return i
		}
	}
	return partitions - 1
}

// lease tries to get the partitions that pages want.
func (s *leased) lease(ctx context.Context, keys []article.Key) error {
	pipe := s.client.Pipeline()
	got := make([]*redis.StatusCmd, len(keys))
	begun := s.cfg.Now()
	s.mu.Lock()
	for i, k := range keys {
		name := fmt.Sprintf("%s:%d", s.name("lease", k), s.pageLocked(k).state.trying)
		got[i] = pipe.SetArgs(ctx, name, s.cfg.Replica, redis.SetArgs{Mode: "NX", TTL: leaseTime})
	}
	s.mu.Unlock()
	if _, err := pipe.Exec(ctx); err != nil && err != redis.Nil { //nolint:errorlint // Exec returns a reply's error as it is
		return fmt.Errorf("lease partitions: %w", err)
	}
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range keys {
		p := &s.pageLocked(k).state
		p.asking = false
		p.next = now.Add(time.Duration(math.Round(s.cfg.Random() * float64(leaseEvery))))
		if got[i].Err() == nil {
			// Its time began in Redis after begun: it ends here no later than there.
			p.held = append(p.held, lease{p.trying, begun.Add(leaseTime)})
		}
	}
	return nil
}
