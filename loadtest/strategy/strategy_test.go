package strategy

import (
	"context"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"chatclub/internal/article"
	"chatclub/internal/excess"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var busy = excess.Key{Page: "busy", Class: "text"}

const limit = 300

func fixed(limit float64) func(string) float64 { return func(string) float64 { return limit } }

// crew is replicas of one strategy before a platform that counts in seconds, and a Redis.
type crew struct {
	replicas []Strategy
	redis    *miniredis.Miniredis
	faults   int

	second            time.Time
	passed            int // in it
	accepted, refused int
	by                []int // accepted calls of each replica
}

// withCrew calls f in a bubble with n replicas.
func withCrew(t *testing.T, name string, n int, f func(*testing.T, *crew)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crew{redis: miniredis.NewMiniRedis(), by: make([]int, n)}
		c.redis.ClockTTL(true)
		defer c.redis.Close()
		info, _ := Find(name)
		for i := range n {
			s, err := info.New(Config{
				Limit: fixed(limit), Replicas: n, Replica: i, RedisURL: "redis://127.0.0.1:1", KeyPrefix: "test",
				Dial:  func(context.Context, string, string) (net.Conn, error) { return c.redis.Dial() },
				Fault: func(error) { c.faults++ },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
			}()
			c.replicas = append(c.replicas, s)
		}
		f(t, c)
	})
}

// saturate has all replicas make all calls that they may for a time, and returns how many
// were accepted.
func (c *crew) saturate(length time.Duration) int {
	before := c.accepted
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for i, s := range c.replicas {
			for s.Offer(time.Now(), busy, false).Action == article.Send {
				now := time.Now()
				if second := now.Truncate(time.Second); second != c.second {
					c.second, c.passed = second, 0
				}
				result := excess.Refused
				if c.passed++; c.passed <= limit {
					result = excess.Accepted
					c.accepted++
					c.by[i]++
				} else {
					c.refused++
				}
				s.Done(now, busy, false, result)
			}
		}
	}
	return c.accepted - before
}

// Each strategy uses a page's limit as its idea lets it, with as many replicas as it was
// told, and all of them send where it shares.
func TestLimitIsShared(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name              string
		replicas, senders int
		least, refused    float64 // share of the limit at least; refused calls per accepted one at most
	}{
		{"static", 4, 4, .975, 0},
		{"pinned", 4, 1, .975, 0},
		{"redis", 1, 1, .97, 0},
		{"redis", 4, 4, .97, 0},
		{"redis", 16, 16, .97, 0},
		{"synced", 1, 1, .975, 0},
		{"synced", 4, 4, .9, .1},
		{"synced", 16, 16, .7, .5},
		{"leased", 4, 4, .72, 0},
		{"aimd-only", 4, 4, .9, .1},
	} {
		if testing.Short() && tc.replicas > 4 {
			continue
		}
		withCrew(t, tc.name, tc.replicas, func(t *testing.T, c *crew) {
			t.Helper()
			c.saturate(20 * time.Second)
			c.refused = 0
			got := float64(c.saturate(20*time.Second)) / (20 * limit)
			refused, senders := float64(c.refused)/float64(c.accepted), 0
			for _, n := range c.by {
				if n > c.accepted/len(c.by)/4 {
					senders++
				}
			}
			t.Logf("%s on %d: %.3f of the limit, %.3f refused per accepted call", tc.name, tc.replicas, got, refused)
			if got < tc.least || refused > tc.refused || senders != tc.senders || c.faults > 0 {
				t.Errorf("%s on %d: %.3f of the limit by %d, %.3f refused per accepted call, %d errors; want at least %.3f by %d, at most %.3f, none", tc.name, tc.replicas, got, senders, refused, c.faults, tc.least, tc.senders, tc.refused)
			}
		})
	}
}

// While Redis does not answer nothing is sent, and the errors are told; then it goes on. A
// server that was restarted does not know the script any more.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	withCrew(t, "redis", 2, func(t *testing.T, c *crew) {
		t.Helper()
		c.saturate(time.Second)
		c.redis.SetError("LOADING")
		c.saturate(100 * time.Millisecond) // what is reserved
		if got := c.saturate(time.Second); got != 0 || c.faults == 0 {
			t.Errorf("sent %d with %d errors while Redis was down, want 0 with some", got, c.faults)
		}
		c.redis.SetError("")
		c.redis.FlushAll()
		if got := c.saturate(time.Second); got < 250 {
			t.Errorf("sent %d in the second after Redis was back, want 250", got)
		}
	})
	info, _ := Find("leased")
	if _, err := info.New(Config{RedisURL: "http://:secret@x"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("New = %v, want an error without the password", err)
	}
}

// Azure's example step by step: a process has its reserved share, leases more while it needs
// it, leaves what it does not need to the other one, and is back at its share when its leases
// have run out. What is given back at its end can be leased at once.
func TestLeasesStepByStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true)
		defer server.Close()
		var list [2]strategy
		for i := range list {
			info, _ := Find("leased")
			s, err := info.New(Config{
				Limit: fixed(500), Replicas: 2, Replica: i, GiveBack: true, RedisURL: "redis://127.0.0.1:1", KeyPrefix: "test", Fault: func(err error) { t.Error(err) }, Random: rand.New(rand.NewPCG(1, uint64(i))).Float64,
				Dial: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
			})
			if err != nil {
				t.Fatal(err)
			}
			list[i] = s.(strategy)
		}
		held := func(i int) float64 { return list[i].Gate.(leased).pageLocked(busy).state.share(time.Now(), 2) }
		step := func(what string, seconds int, rates, least, most [2]float64) {
			t.Helper()
			var sent [2]float64
			for ms := range seconds * 1000 {
				for i, rate := range rates {
					for sent[i] < rate*float64(ms)/1000 && list[i].Offer(time.Now(), busy, false).Action == article.Send {
						sent[i]++
					}
				}
				time.Sleep(time.Millisecond)
			}
			for i, rate := range rates {
				if sent[i] < .7*rate*float64(seconds) {
					t.Errorf("%s: process %d has sent %g in %d s, want 70 %% of what it had at least", what, i, sent[i], seconds)
				}
			}
			a, b := held(0), held(1)
			if a < least[0] || a > most[0] || b < least[1] || b > most[1] || a+b > 1.001 {
				t.Errorf("%s: A has %.2f and B %.2f of the limit, want %.2f to %.2f and %.2f to %.2f", what, a, b, least[0], most[0], least[1], most[1])
			}
		}
		step("both idle", 1, [2]float64{}, [2]float64{.1, .1}, [2]float64{.1, .1})
		step("A needs 300 a second", 12, [2]float64{300, 0}, [2]float64{.58, .1}, [2]float64{.9, .1})
		step("both need 200 a second", 40, [2]float64{200, 200}, [2]float64{.2, .2}, [2]float64{.7, .7})
		step("nobody needs anything for 15 seconds", 16, [2]float64{}, [2]float64{.1, .1}, [2]float64{.1, .1})
		step("A needs all", 20, [2]float64{450, 0}, [2]float64{.8, .1}, [2]float64{.9, .1})
		if err := list[0].Close(); err != nil {
			t.Error(err)
		}
		step("B needs all, and A has given back", 12, [2]float64{0, 450}, [2]float64{.1, .8}, [2]float64{.1, .9})
		if err := list[1].Close(); err != nil {
			t.Error(err)
		}
	})
}
