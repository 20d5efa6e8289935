package breaker_test

import (
	"fmt"
	"time"

	"chatclub/internal/breaker"
)

// A page whose calls fail is probed; other pages go on.
func ExampleBreaker() {
	b := breaker.New(func() float64 { return 0.5 })
	now := time.Unix(0, 0)
	for i := range 10 {
		c := b.Begin(now, "sick", fmt.Sprint("recipient ", i), fmt.Sprint("event ", i))
		b.End(now, c, breaker.Failed)
	}
	fmt.Println("sick page waits:", b.PageWait(now, "sick") > 0)
	fmt.Println("another page waits:", b.Wait(now, "well") > 0 || b.PageWait(now, "well") > 0)

	now = now.Add(time.Second)
	probe := b.Begin(now, "sick", "recipient 3", "event 11")
	change := b.End(now, probe, breaker.Answered)
	fmt.Println("after a probe's answer it is closed:", change.PageClosed)
	// Output:
	// sick page waits: true
	// another page waits: false
	// after a probe's answer it is closed: true
}
