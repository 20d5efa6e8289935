package strategy

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"chatclub/internal/article"
)

const (
	// syncEvery is how often a replica's counts go to Redis and the sums come
	// back. It is ten times in the second that the limit is counted in, and the
	// step at which Pushwoosh plots its sends.
	syncEvery = 100 * time.Millisecond
	// counterTTL is how long a page's counter is kept that no replica adds to.
	counterTTL = time.Minute
)

// tally is what one replica knows of a page's sends.
type tally struct {
	bucket
	sent   int64 // by this replica, not in Redis yet
	total  int64 // all replicas', when last seen
	known  bool  // total was seen
	listed bool  // it is synchronised
	asked  bool  // a call was asked for since it was last
	at     time.Time
}

// synced counts calls locally, each replica against the whole limit. Every so
// often it adds the counts up in Redis, and takes off what others have sent since.
//
// Source: Pushwoosh, which paces the sends of one campaign over several senders
// so. It leaves the interval and the local counter open; a token bucket is our
// choice. Between two sums N replicas may send N times the limit, and
// then all wait until it is made up for: right on average, in waves. A replica
// that cannot reach Redis goes on by its own count. Headroom and burst are
// chatclub's own.
type synced struct {
	*paced[tally]
	*batcher
	cfg Config
}

func newSynced(c Config, d *batcher) *synced {
	s := &synced{paced: newPaced[tally](c.Random), batcher: d, cfg: c}
	s.take = func(now time.Time, k article.Key, p *tally) time.Duration {
		if !p.listed {
			p.listed, p.at = true, now
			d.want(k)
		}
		p.asked = true
		wait := p.take(now, headroom*c.Limit(k.Class))
		if wait == 0 {
			p.sent++
		}
		return wait
	}
	d.every, d.ask = syncEvery, s.sync
	return s
}

// sync adds up the pages' counts.
func (s *synced) sync(ctx context.Context, keys []article.Key) error {
	pipe := s.client.Pipeline()
	sent := make([]int64, len(keys))
	sums := make([]*redis.IntCmd, len(keys))
	s.mu.Lock()
	for i, k := range keys {
		sent[i] = s.pageLocked(k).state.sent
		name := s.name("count", k)
		sums[i] = pipe.IncrBy(ctx, name, sent[i])
		pipe.PExpire(ctx, name, counterTTL)
	}
	s.mu.Unlock()
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("add counts: %w", err)
	}
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range keys {
		p := &s.pageLocked(k).state
		p.learn(now, sent[i], sums[i].Val(), headroom*s.cfg.Limit(k.Class))
		if p.listed = p.asked; p.listed {
			s.want(k)
		}
		p.asked = false
	}
	return nil
}

// learn takes what others sent off the bucket: total is all replicas' count,
// mine what this one has just added to it.
func (p *tally) learn(now time.Time, mine, total int64, rate float64) {
	p.sent -= mine
	if others := total - mine - p.total; p.known && others > 0 {
		// They sent since the last sum, so the bucket has been filling up
		// since then for them, too.
		if p.tat.Before(p.at) {
			p.tat = p.at
		}
		p.tat = p.tat.Add(time.Duration(float64(others) / rate * float64(time.Second)))
	}
	p.total, p.known, p.at = total, true, now
}
