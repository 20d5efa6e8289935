package excess_test

import (
	"fmt"
	"time"

	"chatclub/internal/excess"
)

// A page sends what its limit allows at once, and is then told how long to wait.
func ExampleMap() {
	m := excess.New(excess.Config{Limit: func(string) float64 { return 10 }})
	now := time.Unix(0, 0)
	room := excess.Request{Key: excess.Key{Page: "1234", Class: "text"}}
	for i := 1; ; i++ {
		d := m.Offer(now, room)
		if d.Wait > 0 {
			fmt.Printf("message %d waits for %v\n", i, d.Wait.Round(time.Millisecond))
			break
		}
		m.Done(now, d.Permit, excess.Accepted) // once the Send API has answered
	}
	// Output: message 11 waits for 1.02s
}
