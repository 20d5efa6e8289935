package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// published notes when the first copy of each event of quiet pages is published, and the
// order of the events of page p.
type published struct {
	mu    sync.Mutex
	quiet map[string]time.Time
	busy  []string
}

func (n *published) note(_ context.Context, msgs []queue.Message) error {
	page, rest, _ := strings.Cut(msgs[0].ID, "/")
	id, _, _ := strings.Cut(rest, "/")
	n.mu.Lock()
	defer n.mu.Unlock()
	if page == "p" {
		n.busy = append(n.busy, id)
	} else if key := page + "/" + id; n.quiet[key].IsZero() {
		n.quiet[key] = time.Now()
	}
	return nil
}

// burst puts so many taps of as many people of page p on its partition at once, then for 20 s
// a message a second of each of ten quiet pages. It returns how long these waited, sorted.
func (n *published) burst(t *testing.T, r *rig, taps int) (waits []time.Duration) {
	t.Helper()
	for i := range taps {
		r.say(t, message.Event{Kind: message.KindPostback, Page: "p", ID: fmt.Sprint("m", i), User: fmt.Sprint(i), Time: 1})
	}
	said := make(map[string]time.Time)
	for second := range 20 {
		for page := range 10 {
			ev := on(fmt.Sprint("q", page), now(fmt.Sprint(second), fmt.Sprint("m", second), "hello"))
			said[ev.Page+"/"+ev.ID] = time.Now()
			r.say(t, ev)
		}
		time.Sleep(time.Second)
	}
	time.Sleep(time.Duration(taps) * 50 * time.Millisecond)
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, at := range said {
		if n.quiet[key].IsZero() {
			t.Fatalf("event %s of a quiet page has no copy", key)
		}
		waits = append(waits, n.quiet[key].Sub(at))
	}
	slices.Sort(waits)
	return waits
}

// TestBurst checks how long people of ten quiet pages wait for their answers beside the taps
// of as many people of another page of their partition, all at once: as long as the taps above
// Prefetch take. An event takes the database 40 ms.
func TestBurst(t *testing.T) {
	t.Parallel()
	taps := 4_000
	if testing.Short() {
		taps = 400
	}
	for _, row := range []struct {
		name           string
		taps, prefetch int
		least, most    time.Duration
	}{
		{"room for a part of the burst", 400, 256, 5 * time.Second, 10 * time.Second},
		{"room for the burst", taps, taps + 480, 0, 2 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.Prefetch = row.prefetch })
				r.store.before = func(method string) error {
					if method == "receive" {
						time.Sleep(40 * time.Millisecond) // of virtual time
					}
					return nil
				}
				n := &published{quiet: make(map[string]time.Time)}
				r.flaky.before = n.note
				stop := r.start(t)
				waits := n.burst(t, r, row.taps)
				if p99 := waits[len(waits)*99/100]; p99 < row.least || p99 > row.most {
					t.Errorf("99th percentile of the wait of quiet pages = %v, want %v to %v", p99, row.least, row.most)
				}
				if err := stop(); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
				var want []string
				for i := range row.taps {
					want = append(want, fmt.Sprint("m", i))
				}
				if !slices.Equal(n.busy, want) {
					t.Errorf("%d events of the page were handled, beginning with %v, want %d in order", len(n.busy), n.busy[:min(5, len(n.busy))], len(want))
				}
			})
		})
	}
}
