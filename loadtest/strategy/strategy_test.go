package strategy

import (
	"strings"
	"testing"
	"time"

	"chatclub/internal/article"
)

var (
	busy  = article.Key{Page: "busy", Class: "text"}
	quiet = article.Key{Page: "quiet", Class: "text"}
	now   = time.Unix(1000, 0)
)

func fixed(limit float64) func(string) float64 { return func(string) float64 { return limit } }

func half() float64 { return 0.5 }

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		gate   string
		config Config
		want   []string
	}{
		{"nothing set", "static", Config{}, []string{"Limit", "Replicas"}},
		{"negative", "article", Config{Limit: fixed(1), Replicas: 2, Replica: -1}, []string{"Replica must not"}},
		{"a dispatcher", "chatclub", Config{Limit: fixed(1), Replicas: 2}, []string{"a dispatcher"}},
		{"no Redis", "redis", Config{Limit: fixed(1), Replicas: 1}, []string{"RedisURL"}},
		{"no URL", "leased", Config{Limit: fixed(1), Replicas: 1, RedisURL: "http://:secret@x"}, []string{"RedisURL must look like"}},
	} {
		info, _ := Find(c.gate)
		_, err := info.New(c.config)
		if err == nil {
			t.Errorf("%s: New = nil, want an error", c.name)
			continue
		}
		for _, w := range append(c.want, "strategy "+c.gate) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: New = %q, want it to name %q", c.name, err, w)
			}
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: New = %q, which tells the password", c.name, err)
		}
	}
}

// Azure's example: 10,000 records, 2,000 accepted an interval, 30,000 calls.
func TestNaiveMakesAzuresCalls(t *testing.T) {
	t.Parallel()
	info, _ := Find("naive")
	g, err := info.New(Config{Limit: fixed(2000), Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	due := map[time.Duration]int{0: 10_000} // records by when they are tried
	calls, intervals := 0, 0
	for at := time.Duration(0); due[at] > 0; at += time.Second {
		intervals++
		for n := range due[at] {
			d := g.Offer(now.Add(at), busy, at > 0)
			if d.Action != article.Send {
				t.Fatalf("Offer = %v, want Send", d)
			}
			calls++
			r := article.Accepted
			if n >= 2000 {
				r = article.Refused
			}
			if wait := g.Done(now.Add(at), busy, at > 0, r); r == article.Refused {
				due[at+wait]++
			}
		}
	}
	if calls != 30_000 || intervals != 5 {
		t.Errorf("calls = %d in %d intervals, want 30000 in 5", calls, intervals)
	}
}
