package circuit_test

import (
	"fmt"
	"time"

	"chatclub/internal/circuit"
	"chatclub/internal/message"
)

// A page whose calls fail is judged: who failed waits, and a stranger probes. Other pages go on.
func ExampleCircuits() {
	b := circuit.New(nil, 8)
	now := time.Unix(0, 0)
	to := func(page, who, event string) *message.Outbound {
		return &message.Outbound{ID: message.CopyID(page, event, who, 0), Page: page, To: who}
	}
	for i := range 3 {
		c := b.Begin(now, to("sick", fmt.Sprint("recipient-", i), fmt.Sprint("event-", i)))
		b.End(now, c, circuit.Report{Answer: circuit.Failed})
	}
	sick, _, _ := b.Hold(now, to("sick", "recipient-1", "event-9"))
	well, _, _ := b.Hold(now, to("well", "recipient-1", "event-9"))
	fmt.Println("sick page waits:", sick == circuit.Wait)
	fmt.Println("another page waits:", well == circuit.Wait)

	probe := b.Begin(now, to("sick", "stranger", "event-10"))
	now = now.Add(time.Second)
	for _, change := range b.End(now, probe, circuit.Report{Answer: circuit.Accepted}) {
		fmt.Println("after a probe's answer it is open:", change.Open)
	}
	// Output:
	// sick page waits: true
	// another page waits: false
	// after a probe's answer it is open: false
}
