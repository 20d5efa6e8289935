package strategy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/article"
)

var (
	busy  = article.Key{Page: "busy", Class: "text"}
	quiet = article.Key{Page: "quiet", Class: "text"}
	now   = time.Unix(1000, 0)
)

func fixed(limit float64) func(string) float64 { return func(string) float64 { return limit } }

func half() float64 { return 0.5 }

func TestTable(t *testing.T) {
	t.Parallel()
	got := map[string]bool{}
	for _, i := range All() {
		got[i.Name] = i.NeedsRedis
		if i.Source == "" || strings.Contains(i.Source, "\n") {
			t.Errorf("source of %s = %q, want one line", i.Name, i.Source)
		}
		if strings.Contains(i.Caveat, "\n") || (i.Caveat != "") != (i.Name == "pinned") {
			t.Errorf("caveat of %s = %q, want one line of pinned, none of others", i.Name, i.Caveat)
		}
		found, ok := Find(i.Name)
		if !ok || found.Name != i.Name {
			t.Errorf("Find(%q) = %v, %v, want it", i.Name, found.Name, ok)
		}
		if i.make == nil { // the dispatcher
			continue
		}
		s, err := i.New(Config{Limit: fixed(300), Replicas: 4, Replica: 3, RedisURL: "redis://127.0.0.1:1", KeyPrefix: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if d := s.Offer(now, article.Key{Page: "p"}, false); d.Action < article.Send || d.Action > article.Return {
			t.Errorf("%s: Offer = %v, want an answer", i.Name, d)
		}
	}
	want := map[string]bool{
		"chatclub": false, "article": false, "naive": false, "static": false, "pinned": false,
		"redis": true, "synced": true, "leased": true, "aimd-only": false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("strategies, and whether they need Redis (-want +got):\n%s", diff)
	}
	if _, ok := Find("none"); ok {
		t.Error("Find(none) found one")
	}
}

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
