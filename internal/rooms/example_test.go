package rooms_test

import (
	"context"
	"fmt"
	"time"

	"chatclub/internal/command"
	"chatclub/internal/rooms"
)

// Two users write to a page. Each event is received, its copies are published,
// and then it is done.
func Example() {
	ctx := context.Background()
	store, err := rooms.Open(rooms.Config{DatabaseURL: "sqlite::memory:"})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		panic(err)
	}
	for _, in := range []struct{ id, user, text string }{
		{"m1", "ana", "hello"},
		{"m2", "bo", "/name Bo"},
		{"m3", "bo", "hi there"},
		{"m3", "bo", "hi there"}, // Messenger repeats it
		{"m4", "ana", "/block bo"},
		{"m5", "bo", "are you there?"},
	} {
		res, err := store.Receive(ctx, rooms.Event{
			Page: "page", User: in.user, ID: in.id, At: time.Now(), Command: command.Parse(in.text, ""),
		})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s %s: %q %v, repeated %t\n", in.id, in.user, res.Notice, res.Relay, res.Status == rooms.Finished)
		// Here the answer and the copies to res.Relay are published, confirmed.
		if err := store.Done(ctx, "page", in.id); err != nil {
			panic(err)
		}
	}
	// Output:
	// m1 ana: "welcome" [], repeated false
	// m2 bo: "renamed" [], repeated false
	// m3 bo: "welcome" [ana], repeated false
	// m3 bo: "" [], repeated true
	// m4 ana: "blocked" [], repeated false
	// m5 bo: "" [], repeated false
}
