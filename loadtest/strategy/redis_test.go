package strategy

import (
	"context"
	"fmt"
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
	f(&s.pageLocked(time.Now(), busy).state)
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

// What is reserved is used by one replica only, whatever becomes of it: with one
// gone the others have all, but for a batch.
func TestRedisReplicaGone(t *testing.T) {
	t.Parallel()
	withCrew(t, "redis", 4, func(c *crew) {
		c.saturate(busy, time.Second, c.replicas...)
		c.end(c.replicas[0])
		if got, want := c.saturate(busy, time.Second, c.replicas[1:]...), headroom*limit*0.9-1; float64(got) < want {
			t.Errorf("sent %d in the second after a replica's end, want at least %.0f", got, want)
		}
	})
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

func TestSlots(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	p := slots{n: 3, due: now, step: 10 * ms, batch: 3}
	for _, step := range []struct {
		at   time.Duration
		wait time.Duration
		none bool
		left int
	}{
		{-5 * ms, 5 * ms, false, 3},
		{0, 0, false, 2},
		{0, 10 * ms, false, 2},
		{110 * ms, 0, false, 1},         // the second is 100 ms late
		{121 * ms, pollEvery, true, 0},  // the third is too late
		{1000 * ms, pollEvery, true, 0}, // and there is no more
	} {
		wait, none := p.take(now.Add(step.at))
		if wait != step.wait || none != step.none || p.n != step.left {
			t.Errorf("take at %v = %v, none %v, left %d, want %v, %v, %d", step.at, wait, none, p.n, step.wait, step.none, step.left)
		}
	}
	if p.batch != 0 {
		t.Errorf("batch after a slot lapsed = %d, want 0: begin with one", p.batch)
	}
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

// What one replica sends another learns of.
func TestSyncedLearnsOfOthers(t *testing.T) {
	t.Parallel()
	withCrew(t, "synced", 2, func(c *crew) {
		c.replicas[0].Offer(time.Now(), busy, false)
		c.replicas[1].Offer(time.Now(), busy, false)
		c.saturate(busy, 3*time.Second, c.replicas[1])
		got := c.saturate(busy, 2*time.Second, c.replicas...)
		if want := headroom * limit * 2; float64(got) > 1.2*want {
			t.Errorf("two replicas sent %d in 2 s, want %.0f", got, want)
		}
		if diff := c.replicas[1].sent - c.replicas[0].sent; diff < 2*limit {
			t.Errorf("the one that sent alone for 3 s sent %d more, want at least %d", diff, 2*limit)
		}
	})
}

func TestTally(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for _, c := range []struct {
		name        string
		p           tally
		mine, total int64
		want        time.Duration // until the next token, burst left out
	}{
		{"first sum", tally{sent: 5, bucket: bucket{now}}, 5, 1000, 0},
		{"nobody else", tally{known: true, total: 10, sent: 5, bucket: bucket{now}}, 5, 15, 0},
		{"others", tally{known: true, total: 10, sent: 5, bucket: bucket{now}}, 5, 25, second},
		{"others while it was idle", tally{known: true, total: 10, at: now.Add(-second)}, 0, 25, second / 2},
		{"counter lost", tally{known: true, total: 100, sent: 5, bucket: bucket{now}}, 5, 5, 0},
	} {
		c.p.learn(now, c.mine, c.total, 10)
		if got := c.p.tat.Sub(now); got != c.want || c.p.sent != 0 || c.p.total != c.total || !c.p.known {
			t.Errorf("%s: next token in %v, %+v, want in %v", c.name, got, c.p, c.want)
		}
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

func TestGuess(t *testing.T) {
	t.Parallel()
	p := leases{}
	seen := map[int]bool{}
	for i := range partitions { // the least random number finds the first that is free, the greatest the last
		r := 0.0
		if i%2 == 1 {
			r = 0.9999
		}
		g := p.guess(r)
		if g < 0 || g >= partitions || seen[g] {
			t.Fatalf("guess = %d, want one that is not held of %v", g, p.held)
		}
		seen[g] = true
		p.held = append(p.held, lease{partition: g, until: now.Add(time.Duration(i) * time.Second)})
	}
	if got, want := p.share(now.Add(10*time.Second), 4), 0.05+0.8*9/20; fmt.Sprintf("%.6f", got) != fmt.Sprintf("%.6f", want) {
		t.Errorf("share with 11 leases run out = %v, want %v", got, want)
	}
}
