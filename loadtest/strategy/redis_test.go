package strategy

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"chatclub/internal/article"
)

// crew is replicas of one strategy on one Redis, in a bubble, and what they sent.
type crew struct {
	t        *testing.T
	redis    *miniredis.Miniredis
	replicas []*member
	sent     []time.Time
	faults   atomic.Int64 // that the replicas told of
}

type member struct {
	Strategy
	sent   int
	cancel context.CancelFunc
	done   chan error
}

const limit = 300

// withCrew runs f in a bubble with n replicas.
func withCrew(t *testing.T, name string, n int, f func(*crew)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crew{t: t, redis: miniredis.NewMiniRedis()}
		c.redis.ClockTTL(true)
		defer c.redis.Close()
		info, _ := Find(name)
		for i := range n {
			s, err := info.New(Config{
				Limit: fixed(limit), Replicas: n, Replica: i, RedisURL: "redis://127.0.0.1:1", KeyPrefix: "test",
				Dial: func(context.Context, string, string) (net.Conn, error) {
					conn, err := c.redis.Dial()
					return trip{conn}, err
				},
				Fault: func(error) { c.faults.Add(1) },
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			m := &member{Strategy: s, cancel: cancel, done: make(chan error, 1)}
			go func() { m.done <- s.Run(ctx) }()
			c.replicas = append(c.replicas, m)
		}
		defer func() { // in any case: the bubble waits for all that it began
			for _, m := range c.replicas {
				c.end(m)
			}
		}()
		f(c)
	})
}

// trip is a connection with a round trip of 0.6 ms.
type trip struct{ net.Conn }

func (c trip) Write(b []byte) (int, error) {
	time.Sleep(600 * time.Microsecond)
	return c.Conn.Write(b)
}

// leases calls f with what the replica has leased of the busy page.
func (m *member) leases(f func(*leases)) {
	s := m.Strategy.(*leased) //nolint:forcetypeassert // for tests of leased
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.pageLocked(busy).state)
}

// end stops a replica's Run.
func (c *crew) end(m *member) {
	m.cancel()
	if err := <-m.done; err != nil {
		c.t.Errorf("Run = %v, want nil", err)
	}
	m.done <- nil // for who ends it again
}

// saturate has replicas send all that they may of a page for a time, and
// returns how much that was.
func (c *crew) saturate(k article.Key, length time.Duration, replicas ...*member) int {
	before := len(c.sent)
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, m := range replicas {
			for {
				d := m.Offer(time.Now(), k, false)
				if d.Action != article.Send {
					break
				}
				c.sent = append(c.sent, time.Now())
				m.sent++
				m.Done(time.Now(), k, false, article.Accepted)
			}
		}
	}
	return len(c.sent) - before
}

// most is the most that was sent in any window of a length.
func (c *crew) most(window time.Duration) int {
	most, first := 0, 0
	for i, at := range c.sent {
		for at.Sub(c.sent[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func TestRedisSharesOneBucket(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 4, 16} {
		withCrew(t, "redis", n, func(c *crew) {
			got := c.saturate(busy, 10*time.Second, c.replicas...)
			if want := headroom * limit * 10; float64(got) < 0.99*want || float64(got) > want+6 {
				t.Errorf("%d replicas sent %d in 10 s, want %.0f", n, got, want)
			}
			if most := c.most(time.Second); most > limit {
				t.Errorf("%d replicas sent %d in a second, want at most %d", n, most, limit)
			}
			for _, m := range c.replicas {
				if even := float64(got) / float64(n); float64(m.sent) < 0.5*even {
					t.Errorf("%d replicas: one sent %d, want some %.0f", n, m.sent, even)
				}
			}
			// A script serves many messages. It counts as four commands, itself and
			// the three in it; a batch grows to 29 in five.
			if scripts, most := c.redis.CommandCount()/4, got/29+8*n; scripts > most {
				t.Errorf("%d replicas: %d scripts for %d messages, want at most %d", n, scripts, got, most)
			}
		})
	}
}

// While Redis does not answer nothing is sent; then it goes on. A server that
// was restarted does not know the script any more.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	withCrew(t, "redis", 2, func(c *crew) {
		c.saturate(busy, time.Second, c.replicas...)
		if n := c.faults.Load(); n != 0 {
			t.Errorf("faults while Redis was up = %d, want 0", n)
		}
		c.redis.SetError("LOADING")
		c.saturate(busy, 500*time.Millisecond, c.replicas...) // what is reserved is used up
		if got := c.saturate(busy, time.Second, c.replicas...); got != 0 {
			t.Errorf("sent %d while Redis was down, want 0", got)
		}
		// Each asks again after redisRetry, for a second and what was left of the half.
		if n := c.faults.Load(); n < 30 || n > 60 {
			t.Errorf("faults = %d, want some 20 a second of each replica", n)
		}
		c.redis.SetError("")
		c.redis.FlushAll()
		if err := c.replicas[0].Strategy.(*central).client.ScriptFlush(c.t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if got := c.saturate(busy, time.Second, c.replicas...); got < 250 {
			t.Errorf("sent %d in the second after Redis was back, want 250", got)
		}
	})
}

// On average the limit is kept, whatever the number of replicas; within a sync
// interval it is not.
func TestSynced(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 4, 16} {
		withCrew(t, "synced", n, func(c *crew) {
			c.saturate(busy, 5*time.Second, c.replicas...)
			got := c.saturate(busy, 20*time.Second, c.replicas...)
			if want := headroom * limit * 20; float64(got) < 0.9*want || float64(got) > 1.1*want {
				t.Errorf("%d replicas sent %d in 20 s, want %.0f ± 10 %%", n, got, want)
			}
			if least, most := n*25, c.most(syncEvery); n > 1 && most < least {
				t.Errorf("%d replicas sent %d in 100 ms at most: each seems to know of the others before the sum, which would be at least %d", n, most, least)
			}
			if trips, most := c.redis.CommandCount(), n*(25*10*2+20); trips > most {
				t.Errorf("%d commands, want at most two in each of %d intervals", trips, most)
			}
		})
	}
}

// No partition ever has two holders, most are held while all want more, and
// what a dead replica held is used again after 15 s.
func TestLeased(t *testing.T) {
	t.Parallel()
	withCrew(t, "leased", 4, func(c *crew) {
		exclusive := func() int {
			var held []int
			for _, m := range c.replicas {
				m.leases(func(p *leases) {
					p.share(time.Now(), 4)
					for _, l := range p.held {
						held = append(held, l.partition)
					}
				})
			}
			slices.Sort(held)
			if len(slices.Compact(slices.Clone(held))) != len(held) {
				t.Fatalf("leased partitions = %v, want each once", held)
			}
			return len(held)
		}
		for range 40 {
			c.saturate(busy, time.Second, c.replicas...)
			exclusive()
		}
		c.sent = nil
		got := c.saturate(busy, 20*time.Second, c.replicas...)
		if use := float64(got) / (limit * 20); use < 0.72 || use > headroom {
			t.Errorf("quota used = %.3f, want 0.72 to 0.98", use)
		}
		if most := c.most(time.Second); most > limit+4*6 {
			t.Errorf("sent %d in a second, want at most the limit and four bursts", most)
		}
		for _, k := range c.redis.Keys() {
			if ttl := c.redis.TTL(k); ttl <= 0 || ttl > 15*time.Second {
				t.Errorf("time to live of %s = %v, want at most 15s", k, ttl)
			}
		}
		// Four tries a second: 60 s of them, and what more a few thousand draws give.
		if tries, most := c.redis.CommandCount(), 4*60*5; tries > most {
			t.Errorf("tries in 60 s = %d, want at most %d", tries, most)
		}
		gone := c.replicas[0]
		c.end(gone)
		c.saturate(busy, 16*time.Second, c.replicas[1:]...)
		if n := exclusive(); n < 12 {
			t.Errorf("partitions held by three replicas 16 s after a fourth died = %d, want at least 12", n)
		}
		var share float64
		gone.leases(func(p *leases) { share = p.share(time.Now(), 4) })
		if share != reservedPart/4 {
			t.Errorf("share of the dead = %v, want the reserved %v", share, reservedPart/4)
		}
	})
}
