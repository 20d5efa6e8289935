package memory_test

import (
	"context"
	"fmt"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

// A consumer settles each delivery once: it acknowledges it, moves it to another
// queue, or makes it a dead letter.
func ExampleBroker() {
	ctx := context.Background()
	b, err := memory.New(queue.Topology{Prefix: "chatclub", Lanes: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	top := b.Topology()
	for _, id := range []string{"1", "2", "3"} {
		if err := b.Publish(ctx, queue.Message{Queue: top.Outbound(), ID: id}); err != nil {
			fmt.Println(err)
		}
	}

	sub, err := b.Consume(top.Outbound(), queue.ConsumeOptions{Prefetch: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	first, second, third := <-sub.Deliveries(), <-sub.Deliveries(), <-sub.Deliveries()
	fmt.Println(first.Ack(), first.Ack())
	fmt.Println(queue.MoveAll(ctx, b, []queue.Transfer{
		{Delivery: second, To: []queue.Message{{Queue: top.LaneOf("a page"), ID: second.ID}}},
	}))
	fmt.Println(third.DeadLetter(ctx, message.Death{Reason: message.ReasonGone}))

	for _, name := range []string{top.Outbound(), top.LaneOf("a page"), top.Dead()} {
		info, err := b.Inspect(ctx, name)
		fmt.Println(name, info.Ready, err)
	}

	// Output:
	// <nil> delivery already settled
	// [<nil>]
	// <nil>
	// chatclub.outbound 0 <nil>
	// chatclub.lane.03 1 <nil>
	// chatclub.dead 1 <nil>
}
