package rooms

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRoomsStayWithinCapacity lets 300 users join through four stores at once,
// with each event received twice at once.
func TestRoomsStayWithinCapacity(t *testing.T) {
	t.Parallel()
	onEach(t, shared(), func(t *testing.T, url string) {
		if testing.Short() && strings.HasPrefix(url, "sqlite:") {
			t.Skip("long: make test-long; TestJoinLeaveAtOnce shares an SQLite file")
		}
		stores := make([]*Store, 4)
		for i := range stores {
			stores[i] = open(t, Config{DatabaseURL: url})
		}
		const users = 300
		var mu sync.Mutex
		fresh := map[string]int{}
		var wg sync.WaitGroup
		for worker := range 2 * len(stores) {
			// Workers w and w+4 have the same users, on different stores.
			s := stores[(worker+worker/len(stores))%len(stores)]
			wg.Go(func() {
				for i := worker % len(stores); i < users; i += len(stores) {
					user := fmt.Sprintf("u%d", i)
					var res Result
					err := patiently(func() (err error) {
						res, err = s.Receive(t.Context(), Event{Page: "p", User: user, ID: user, At: noon})
						return err
					})
					if err != nil {
						t.Errorf("Receive(%s) = %v, want nil", user, err)
						return
					}
					if res.Status == Fresh {
						mu.Lock()
						fresh[user]++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if len(fresh) != users {
			t.Errorf("users = %d, want %d", len(fresh), users)
		}
		for user, n := range fresh {
			if n != 1 {
				t.Errorf("event of %s was fresh %d times, want once", user, n)
			}
		}
		want := map[int]int{1: 100, 2: 100, 3: 100}
		if diff := cmp.Diff(want, count(t, stores[0], `SELECT room, COUNT(DISTINCT psid) FROM members GROUP BY room`)); diff != "" {
			t.Errorf("members by room: -want +got\n%s", diff)
		}
		if diff := cmp.Diff(want, count(t, stores[0], `SELECT number, members FROM rooms`)); diff != "" {
			t.Errorf("counted members by room: -want +got\n%s", diff)
		}
		if diff := cmp.Diff(want, count(t, stores[0], `SELECT room, COUNT(DISTINCT name_key) FROM members GROUP BY room`)); diff != "" {
			t.Errorf("distinct names by room: -want +got\n%s", diff)
		}
	})
}

// TestJoinLeaveAtOnce looks for deadlocks and wrong counts while the same users
// join and leave through several stores.
func TestJoinLeaveAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, shared(), func(t *testing.T, url string) {
		var wg sync.WaitGroup
		var first *Store
		for worker := range 4 {
			s := open(t, Config{DatabaseURL: url, Capacity: 3})
			first = s
			wg.Go(func() {
				for i := range 40 {
					user := fmt.Sprintf("u%d", (i*7+worker)%10)
					err := patiently(func() error {
						if i%2 == 1 {
							return s.Gone(t.Context(), "p", user, noon)
						}
						_, err := s.Receive(t.Context(), Event{Page: "p", User: user, ID: fmt.Sprintf("%d-%d", worker, i), At: noon})
						return err
					})
					if err != nil {
						t.Errorf("worker %d step %d = %v, want nil", worker, i, err)
					}
				}
			})
		}
		wg.Wait()
		rooms := count(t, first, `SELECT number, members FROM rooms WHERE members > 0`)
		if diff := cmp.Diff(rooms, count(t, first, `SELECT room, COUNT(*) FROM members GROUP BY room`)); diff != "" {
			t.Errorf("members by room: -counted +there\n%s", diff)
		}
		for number, members := range rooms {
			if members > 3 {
				t.Errorf("room %d has %d members, want at most 3", number, members)
			}
		}
	})
}

// patiently repeats do while SQLite reports that it is busy. Its waiters poll, so
// one of several processes can wait for longer than the busy time-out.
// PostgreSQL never fails so.
func patiently(do func() error) error {
	for {
		if err := do(); err == nil || !strings.Contains(err.Error(), "SQLITE_BUSY") {
			return err
		}
	}
}
