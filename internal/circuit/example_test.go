package circuit_test

import (
	"fmt"
	"time"

	"chatclub/internal/circuit"
	"chatclub/internal/message"
)

// A page whose calls fail is probed; other pages go on.
func ExampleCircuits() {
	b := circuit.New(nil, 8)
	now := time.Unix(0, 0)
	for i := range 10 {
		to := fmt.Sprint("recipient-", i)
		c := b.Begin(now, &message.Outbound{ID: message.CopyID("sick", fmt.Sprint("event-", i), to, 0), Page: "sick", To: to})
		b.End(now, c, circuit.Report{Answer: circuit.Failed})
	}
	sick, _, _ := b.Hold(now, &message.Outbound{Page: "sick", To: "somebody"})
	well, _, _ := b.Hold(now, &message.Outbound{Page: "well", To: "somebody"})
	fmt.Println("sick page waits:", sick == circuit.Wait)
	fmt.Println("another page waits:", well == circuit.Wait)

	now = now.Add(time.Second)
	probe := b.Begin(now, &message.Outbound{ID: "sick/event-11/recipient-3", Page: "sick", To: "recipient-3"})
	for _, change := range b.End(now, probe, circuit.Report{Answer: circuit.Accepted}) {
		fmt.Println("after a probe's answer it is open:", change.Open)
	}
	// Output:
	// sick page waits: true
	// another page waits: false
	// after a probe's answer it is open: false
}
