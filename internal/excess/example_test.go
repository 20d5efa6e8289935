package excess_test

import (
	"fmt"
	"time"

	"chatclub/internal/excess"
)

// A page whose limit is 100 messages a second, shared by two replicas: each may
// send 49. One replica sends for the page until the platform refuses a call. From
// then on the page's messages go to its lane, which one replica serves at a pace.
func ExampleMap() {
	now := time.Unix(0, 0)
	page := excess.Key{Page: "1234567890", Class: "text"}
	m := excess.New(excess.Config{
		Limit:  func(string) float64 { return 100 },
		Random: func() float64 { return 0 },
	}, now)
	m.SetReplicas(2)
	now = now.Add(time.Minute) // the other replica has counted this one

	var calls []excess.Permit
	d := m.Offer(now, page, false)
	for ; d.Action == excess.Send; d = m.Offer(now, page, false) {
		calls = append(calls, d.Permit)
	}
	fmt.Printf("free: %d at once, the next in %v\n", len(calls), d.Wait.Round(time.Millisecond))

	refused := calls[len(calls)-1]
	for _, permit := range calls[:len(calls)-1] {
		m.Done(now, permit, excess.Accepted)
	}
	d = m.Done(now, refused, excess.Refused)
	fmt.Println("refused: to the lane", d.Action == excess.Overflow)
	d = m.Offer(now, page, false)
	fmt.Println("the next message: to the lane", d.Action == excess.Overflow)

	d = m.OfferLane(now, page) // the second of the burst passes first
	fmt.Println("in the lane: wait", d.Wait.Round(time.Millisecond))
	d = m.OfferLane(now.Add(d.Wait), page)
	fmt.Println("in the lane: send", d.Action == excess.Send)

	// Output:
	// free: 49 at once, the next in 980ms
	// refused: to the lane true
	// the next message: to the lane true
	// in the lane: wait 1s
	// in the lane: send true
}
