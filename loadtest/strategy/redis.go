package strategy

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"chatclub/internal/article"
)

const (
	// batchTime is how much of a page's limit one replica reserves at most at
	// once. With a tenth of a second, one round trip serves 29 messages, and a
	// replica that dies takes no more than that with it.
	batchTime = 100 * time.Millisecond
	// lapse is how late a reserved slot may still be used; as much as an owner
	// of chatclub's may make up for.
	lapse = 100 * time.Millisecond
	// bucketTTL is how long a page that no replica asks for stays in Redis. That is
	// longer than any reserves ahead.
	bucketTTL = time.Minute
)

// reserve takes slots from a page's central bucket, all or none. It answers how
// many microseconds from now the first of them is, which may be a burst ago.
// The clock is Redis's.
//
// KEYS: the bucket. ARGV: a slot's length and the burst, in microseconds; how
// many slots; the key's time to live, in milliseconds.
var reserve = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local first = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now - ARGV[2])
redis.call('SET', KEYS[1], string.format('%.0f', first + ARGV[1] * ARGV[3]), 'PX', ARGV[4])
return first - now
`)

// slots are what one replica has reserved of a page.
type slots struct {
	n      int           // reserved and not used
	due    time.Time     // the next of them
	step   time.Duration // from one to the next
	batch  int           // how many to ask for
	asking bool
}

// central is one token bucket a page in Redis, for all replicas: one atomic
// script reserves slots in it and answers when they are.
//
// Source: ChatClub's article, which names it and rejects it for the round trip
// and for the one place that everything then depends on. Tuned as for
// production: slots are reserved in batches that double while they are used up
// and fall to one when a slot lapses, all pages that need some in one round
// trip, none of which the worker waits for; headroom and burst as
// chatclub's own. Refusals teach it nothing: it has the limit by heart.
type central struct {
	*paced[slots]
	*batcher
	cfg Config
}

func newCentral(c Config, d *batcher) *central {
	s := &central{paced: newPaced[slots](c.Random), batcher: d, cfg: c}
	s.take = func(now time.Time, k article.Key, p *slots) time.Duration {
		wait, none := p.take(now)
		if none && !p.asking {
			p.asking = true
			most := int(headroom * c.Limit(k.Class) * batchTime.Seconds())
			p.batch = max(1, min(2*p.batch, most))
			d.want(k)
		}
		return wait
	}
	d.ask = s.reserve
	return s
}

// take uses a slot, or answers how long until the next, and whether there is
// none left.
func (p *slots) take(now time.Time) (wait time.Duration, none bool) {
	for p.n > 0 && now.Sub(p.due) > lapse {
		p.n, p.due, p.batch = p.n-1, p.due.Add(p.step), 0
	}
	if p.n == 0 {
		return pollEvery, true
	}
	if wait = p.due.Sub(now); wait > 0 {
		return wait, false
	}
	p.n, p.due = p.n-1, p.due.Add(p.step)
	return 0, false
}

// reserve reserves the batches that pages want.
func (s *central) reserve(ctx context.Context, keys []article.Key) error {
	ask := func() ([]*redis.Cmd, error) {
		pipe := s.client.Pipeline()
		cmds := make([]*redis.Cmd, len(keys))
		for i, k := range keys {
			step := float64(time.Second/time.Microsecond) / (headroom * s.cfg.Limit(k.Class))
			cmds[i] = reserve.EvalSha(ctx, pipe, []string{s.name("bucket", k)},
				step, burst.Microseconds(), s.batchOf(k), bucketTTL.Milliseconds())
		}
		_, err := pipe.Exec(ctx)
		return cmds, err
	}
	cmds, err := ask()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		if err := reserve.Load(ctx, s.client).Err(); err != nil {
			return fmt.Errorf("load script: %w", err)
		}
		cmds, err = ask()
	}
	if err != nil {
		return fmt.Errorf("reserve slots: %w", err)
	}
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range keys {
		first, err := cmds[i].Int64()
		if err != nil {
			return fmt.Errorf("reserve slots: %w", err)
		}
		p := &s.pageLocked(k).state
		p.n, p.asking = max(1, p.batch), false
		p.due = now.Add(time.Duration(first) * time.Microsecond)
		p.step = time.Duration(float64(time.Second) / (headroom * s.cfg.Limit(k.Class)))
	}
	return nil
}

// batchOf is how many slots of a page are asked for.
func (s *central) batchOf(k article.Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(1, s.pageLocked(k).state.batch)
}
