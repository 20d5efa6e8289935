package strategy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"chatclub/internal/article"
	"chatclub/internal/excess"
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

	// leasePoll is the longest time until a message that waits is offered again,
	// so that a try that is due is made.
	leasePoll = 50 * time.Millisecond
)

// leases is one replica's part of a page's limit.
type leases struct {
	bucket
	held []lease
	next time.Time // no try before
}

type lease struct {
	partition int
	until     time.Time
}

// newLeased cuts a page's limit into partitions. A replica that needs more than it
// has tries to lease one at random, exclusively and for some seconds. It sends
// at the sum of what it holds and of a share that is its own for good.
//
// Source: Azure's Rate Limiting pattern, with leases in Redis (SET NX PX) in
// place of blobs, which the text allows. The numbers are those of the text and
// of its author's library. As there, a lease is not renewed. It runs out, or is
// given back when its replica ends, if Config.GiveBack says so. What a replica that
// died held is used by none for up to 15 s, and replicas that guess do not find what
// is held. N is configured, for the reserved share. Headroom and burst are nearly
// chatclub's.
func newLeased(c Config, client *redis.Client) (gate article.Gate, end func() error) {
	g := leased{newPaced[leases](c.Random), c, client}
	g.take = func(now time.Time, k excess.Key, p *leases) time.Duration {
		wait := p.take(now, p.share(now, c.Replicas)*headroom*c.Limit(k.Class))
		if wait == 0 {
			return 0
		}
		if !now.Before(p.next) && len(p.held) < partitions {
			p.next = now.Add(time.Duration(math.Round(c.Random() * float64(leaseEvery))))
			n := p.guess(c.Random())
			err := client.SetArgs(context.Background(), g.key(k, n), c.Replica, redis.SetArgs{Mode: "NX", TTL: leaseTime}).Err()
			switch {
			case err == nil: // its time began in Redis after now: it ends here no later than there
				p.held = append(p.held, lease{n, now.Add(leaseTime)})
			case !errors.Is(err, redis.Nil): // which says that another one has it
				c.Fault(fmt.Errorf("lease a partition: %w", err))
			}
		}
		return min(wait, leasePoll)
	}
	if !c.GiveBack {
		return g, nothing
	}
	return g, g.giveBack
}

// leased is the gate of newLeased.
type leased struct {
	*paced[leases]
	Config
	client *redis.Client
}

// key is a partition's name in Redis.
func (g leased) key(k excess.Key, partition int) string {
	return fmt.Sprintf("%s:%d", g.name("lease", k), partition)
}

// giveBack ends the leases that have not run out. A lease ends here no later than in
// Redis, so none that another one has taken is ended.
func (g leased) giveBack() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []string
	for k, p := range g.pages {
		p.state.share(g.Now(), g.Replicas)
		for _, l := range p.state.held {
			keys = append(keys, g.key(k, l.partition))
		}
		p.state.held = nil
	}
	if keys == nil {
		return nil
	}
	return g.client.Del(context.Background(), keys...).Err()
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
