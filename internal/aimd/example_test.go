package aimd_test

import (
	"fmt"
	"time"

	"chatclub/internal/aimd"
)

// A server answers in 100 ms while at most 20 calls are in flight, and slower in
// proportion above. The target is 150 ms, so the limit comes to 30
// calls, and swings below.
func ExampleLimiter() {
	l, err := aimd.New(aimd.Config{Min: 1, Max: 200, Start: 100, Target: 150 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(0, 0)
	for second := range 30 {
		for end := now.Add(time.Second); now.Before(end); {
			inFlight := l.Limit()
			latency := 100 * time.Millisecond * time.Duration(max(20, inFlight)) / 20
			now = now.Add(latency)
			for range inFlight { // all of them end now
				l.Observe(now, latency, inFlight)
			}
		}
		if second%10 == 9 {
			fmt.Printf("after %d s: %d calls in flight at most\n", second+1, l.Limit())
		}
	}

	// Output:
	// after 10 s: 30 calls in flight at most
	// after 20 s: 29 calls in flight at most
	// after 30 s: 29 calls in flight at most
}
