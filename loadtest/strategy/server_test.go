package strategy

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"chatclub/internal/article"
)

// server is a real Redis, and a key prefix that is cleaned up. It skips the
// test when there is none.
func server(t *testing.T) (url, prefix string, client *redis.Client) {
	t.Helper()
	url = cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379")
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal("REDIS_URL must look like redis://host:port/db")
	}
	client = redis.NewClient(opts)
	if err := client.Ping(t.Context()).Err(); err != nil {
		client.Close()
		if os.Getenv("REDIS_URL") != "" {
			t.Fatalf("REDIS_URL is set, and nothing answers there: %v", err)
		}
		t.Skipf("not tested against a real Redis: REDIS_URL is not set, and nothing answers at 127.0.0.1:6379: %v", err)
	}
	prefix = fmt.Sprintf("chatclub-test-%x", rand.Uint64())
	t.Cleanup(func() {
		ctx := context.Background()
		if keys, err := client.Keys(ctx, prefix+":*").Result(); err == nil && len(keys) > 0 {
			client.Del(ctx, keys...)
		}
		client.Close()
	})
	return url, prefix, client
}

// A server that is real tells its version; one that wants a password, or is not
// there, is told from it, and the password is in no error.
func TestRedisVersion(t *testing.T) {
	url, _, _ := server(t)
	if v, err := RedisVersion(t.Context(), url); err != nil || !strings.Contains(v, ".") {
		t.Errorf("RedisVersion = %q, %v, want a version", v, err)
	}
}

func TestRedisVersionRefused(t *testing.T) {
	t.Parallel()
	s := miniredis.RunT(t)
	s.RequireAuth("right")
	address := s.Addr()
	if v, err := RedisVersion(t.Context(), "redis://:right@"+address); err != nil || v != "" { // it tells no version
		t.Errorf("with the password: RedisVersion = %q, %v, want an empty one", v, err)
	}
	for name, url := range map[string]string{
		"without password": "redis://" + address, "wrong password": "redis://:secret@" + address,
		"nobody there": "redis://:secret@127.0.0.1:1", "another scheme": "http://:secret@" + address,
	} {
		if v, err := RedisVersion(t.Context(), url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: RedisVersion = %q, %v, want an error without the password", name, v, err)
		}
	}
}

// four runs four replicas on the server for a while, each saturating the page,
// until enough was sent; it returns what was and how long it took.
func four(t *testing.T, name, url, prefix string, enough int) (sent int, took time.Duration, members []Strategy) {
	t.Helper()
	info, _ := Find(name)
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var runs, work sync.WaitGroup
	begun := time.Now()
	for i := range 4 {
		s, err := info.New(Config{Limit: fixed(limit), Replicas: 4, Replica: i, RedisURL: url, KeyPrefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, s)
		runs.Go(func() {
			if err := s.Run(ctx); err != nil {
				t.Errorf("Run = %v, want nil", err)
			}
		})
		work.Go(func() {
			for more := true; more && time.Since(begun) < 30*time.Second; {
				d := s.Offer(time.Now(), busy, false)
				mu.Lock()
				if d.Action == article.Send {
					sent++
				}
				more = sent < enough
				mu.Unlock()
				if d.Action != article.Send {
					time.Sleep(min(d.Wait, 5*time.Millisecond))
				}
			}
		})
	}
	work.Wait()
	took = time.Since(begun)
	if name == "synced" {
		time.Sleep(3 * syncEvery) // what was sent last is added up
	}
	cancel()
	runs.Wait()
	if sent < enough {
		t.Fatalf("sent %d in %v, want %d", sent, took, enough)
	}
	return sent, took, members
}

// What miniredis was taught is what Redis does: the script runs, counts add
// up, leases are exclusive and run out, and keys go by themselves.
func TestRealServer(t *testing.T) {
	url, prefix, client := server(t)
	for _, name := range []string{"redis", "synced", "leased"} {
		t.Run(name, func(t *testing.T) {
			sent, took, members := four(t, name, url, prefix, 300)
			ctx := t.Context()
			keys, err := client.Keys(ctx, prefix+":*").Result()
			if err != nil {
				t.Fatal(err)
			}
			var mine []string
			for _, k := range keys {
				if strings.HasPrefix(k, prefix+":"+map[string]string{"redis": "bucket", "synced": "count", "leased": "lease"}[name]+":") {
					mine = append(mine, k)
				}
				if ttl := client.PTTL(ctx, k).Val(); ttl <= 0 || ttl > time.Minute {
					t.Errorf("time to live of %s = %v, want at most a minute", k, ttl)
				}
			}
			switch name {
			case "redis":
				if most := headroom*limit*(took+lapse).Seconds() + 4; float64(sent) > most {
					t.Errorf("sent %d in %v, want at most %.0f", sent, took, most)
				}
			case "synced":
				if total, err := client.Get(ctx, mine[0]).Int(); err != nil || total != sent {
					t.Errorf("sum in Redis = %d, %v, want %d", total, err, sent)
				}
			case "leased":
				held := 0
				for _, m := range members {
					(&member{Strategy: m}).leases(func(p *leases) { held += len(p.held) })
				}
				if held == 0 || held > len(mine) {
					t.Errorf("partitions held = %d, want one each of the %d in Redis", held, len(mine))
				}
			}
		})
	}
}
