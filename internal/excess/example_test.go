package excess_test

import (
	"fmt"
	"time"

	"chatclub/internal/excess"
)

// A page sends as much as its limit allows at once, and is then told how long to wait.
func ExampleMap() {
	m := excess.New(func(excess.Key) float64 { return 10 })
	now := time.Unix(0, 0)
	room := excess.Key{Page: "1234", Class: "text"}
	for i := 1; ; i++ {
		wait, permit := m.Offer(now, room, time.Time{})
		if wait > 0 {
			fmt.Printf("message %d waits for %v\n", i, wait.Round(time.Millisecond))
			break
		}
		m.Done(now, permit, excess.Accepted) // once the Send API has answered
	}
	// Output: message 11 waits for 1.015s
}
