package core

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/rooms/roomstest"
)

// TestTwoCoresOnePostgres checks that each copy is made exactly once by two cores
// that share a queue and a database, although every event is repeated.
func TestTwoCoresOnePostgres(t *testing.T) {
	t.Parallel()
	const users, events = 20, 200
	url, broker := roomstest.DSN(t), newBroker(t)
	var stops []func() error
	for range 2 {
		stops = append(stops, newRigOn(t, broker, newStore(t, url)).start(t))
	}
	feeder := &rig{broker: broker}
	out, err := broker.Consume(broker.Topology().Outbound(0), queue.ConsumeOptions{Prefetch: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	await := func(n int) { // until n different copies were seen
		t.Helper()
		for len(seen) < n {
			select {
			case d := <-out.Deliveries():
				seen[d.ID]++
			case <-ctx.Done():
				t.Fatalf("copies after a minute = %d, want %d", len(seen), n)
			}
		}
	}
	for i := range users {
		feeder.say(t, message.Event{Kind: message.KindPostback, Page: "p", ID: fmt.Sprint("join", i), User: fmt.Sprint(i), Time: 1})
		await(i + 1) // the welcome
	}
	for i := range events {
		ev := text(fmt.Sprint(i%users), fmt.Sprint("say", i), "hello")
		feeder.say(t, ev, ev)
	}
	await(users + events*(users-1))
	for _, stop := range stops {
		err = errors.Join(err, stop())
	}
	if err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
	if err := out.Close(); err != nil { // closes the channel behind what is in it
		t.Fatal(err)
	}
	for d := range out.Deliveries() {
		seen[d.ID]++
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("copy %s was made %d times, want once", id, n)
		}
	}
	if want := users + events*(users-1); len(seen) != want {
		t.Errorf("copies = %d, want %d", len(seen), want)
	}
}
