package strategy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"chatclub/internal/article"
	"chatclub/internal/excess"
)

const (
	// redisTimeout bounds one round trip; redisRetry is the pause after one that
	// failed. Where nothing may be sent without an answer, nothing is sent meanwhile.
	redisTimeout = time.Second
	redisRetry   = 50 * time.Millisecond
	// lapse is the largest delay with which a reserved slot is used; as much as an
	// owner of chatclub's may make up for.
	lapse = 100 * time.Millisecond
	// idleTTL is the time for which Redis keeps the keys of a page that no replica asks for.
	idleTTL = time.Minute
)

// onRedis makes a strategy whose gate asks Redis: one round trip for a message at most,
// which is short against a call. end is called when the strategy is closed.
func onRedis(build func(Config, *redis.Client) (gate article.Gate, end func() error)) func(Config) (Strategy, error) {
	return func(c Config) (Strategy, error) {
		opts, err := redis.ParseURL(c.RedisURL)
		if err != nil {
			return nil, errors.New("RedisURL must look like redis://host:port/db") // err repeats it, with the password
		}
		opts.ReadTimeout, opts.WriteTimeout, opts.DialTimeout = redisTimeout, redisTimeout, redisTimeout
		opts.MaxRetries, opts.DialerRetries = -1, 1 // none: the strategies try again by themselves
		// Nothing that a client may ask of a managed Redis, and that ours does not know.
		opts.DisableIdentity = true
		opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		opts.Dialer = c.Dial
		client := redis.NewClient(opts)
		gate, end := build(c, client)
		return strategy{gate, func() error { return errors.Join(end(), client.Close()) }}, nil
	}
}

// nothing is the end of a strategy that leaves nothing behind.
func nothing() error { return nil }

// name is a page's name in Redis.
func (c Config) name(kind string, k excess.Key) string {
	return fmt.Sprintf("%s:%s:{%s/%s}", c.KeyPrefix, kind, k.Page, k.Class)
}

// reserve takes the next slot from a page's central bucket, and answers in how many
// microseconds it is, which may be a burst ago. The clock is Redis's.
//
// KEYS: the bucket. ARGV: a slot's length and the burst, in microseconds; the key's time
// to live, in milliseconds.
var reserve = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local slot = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now - ARGV[2])
redis.call('SET', KEYS[1], string.format('%.0f', slot + ARGV[1]), 'PX', ARGV[3])
return slot - now
`)

// slot is one replica's reservation in a page's bucket.
type slot struct {
	reserved bool
	due      time.Time
}

// newCentral is one token bucket a page in Redis, for all replicas: an atomic script
// reserves the next slot in it and answers when that is.
//
// Source: ChatClub's article, which names it and rejects it for the round trip
// and for the one place that everything then depends on. Headroom and burst are
// nearly chatclub's. Refusals teach it nothing: it has the limit by heart.
func newCentral(c Config, client *redis.Client) (gate article.Gate, end func() error) {
	g := newPaced[slot](c.Random)
	g.take = func(now time.Time, k excess.Key, s *slot) time.Duration {
		if !s.reserved || now.Sub(s.due) > lapse {
			step := float64(time.Second/time.Microsecond) / (headroom * c.Limit(k.Class))
			in, err := reserve.Run(context.Background(), client, []string{c.name("bucket", k)}, step, burst.Microseconds(), idleTTL.Milliseconds()).Int64()
			if err != nil {
				c.Fault(fmt.Errorf("reserve a slot: %w", err))
				return redisRetry
			}
			now = c.Now()
			s.reserved, s.due = true, now.Add(time.Duration(in)*time.Microsecond)
		}
		if wait := s.due.Sub(now); wait > 0 {
			return wait
		}
		s.reserved = false
		return 0
	}
	return g, nothing
}
