package strategy

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"chatclub/internal/article"
	"chatclub/internal/excess"
)

// syncEvery is the default of Config.SyncEvery. It is ten times in the second that
// the limit is counted in, and the step at which Pushwoosh plots its sends.
const syncEvery = 100 * time.Millisecond

// tally is one replica's count of a page's sends.
type tally struct {
	bucket
	sent  int64     // by this replica, not in Redis yet
	total int64     // all replicas', when last seen
	known bool      // total was seen
	at    time.Time // then
}

// newSynced counts calls locally, each replica against the whole limit. Every so
// often it adds the counts up in Redis, and takes off what others have sent since.
//
// Source: Pushwoosh, which paces the sends of one campaign over several senders
// so. It leaves the interval and the local counter open; a token bucket is our
// choice. Between two sums N replicas may send N times the limit, and
// then all wait until it is made up for: right on average, in waves. A replica
// that cannot reach Redis goes on by its own count. Headroom and burst are
// nearly chatclub's.
func newSynced(c Config, client *redis.Client) (gate article.Gate, end func() error) {
	g, every := newPaced[tally](c.Random), cmp.Or(c.SyncEvery, syncEvery)
	g.take = func(now time.Time, k excess.Key, t *tally) time.Duration {
		rate := headroom * c.Limit(k.Class)
		if now.Sub(t.at) >= every {
			pipe, name := client.Pipeline(), c.name("count", k)
			sum := pipe.IncrBy(context.Background(), name, t.sent)
			pipe.PExpire(context.Background(), name, idleTTL)
			if _, err := pipe.Exec(context.Background()); err != nil {
				c.Fault(fmt.Errorf("add counts: %w", err))
				t.at = now
			} else {
				t.learn(now, sum.Val(), rate)
			}
		}
		wait := t.take(now, rate)
		if wait == 0 {
			t.sent++
		}
		return wait
	}
	return g, nothing
}

// learn takes what others sent off the bucket: total is all replicas' count, with what
// this one has just added to it.
func (t *tally) learn(now time.Time, total int64, rate float64) {
	if others := total - t.sent - t.total; t.known && others > 0 {
		// They sent since the last sum, so the bucket has been filling up
		// since then for them, too.
		if t.tat.Before(t.at) {
			t.tat = t.at
		}
		t.tat = t.tat.Add(time.Duration(float64(others) / rate * float64(time.Second)))
	}
	t.sent, t.total, t.known, t.at = 0, total, true, now
}
