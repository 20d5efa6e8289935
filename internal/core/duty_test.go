package core

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/rooms"
)

type slowOverview struct {
	Store
	n *int
}

func (s slowOverview) Overview(ctx context.Context) (rooms.Overview, error) {
	*s.n++
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
	}
	return rooms.Overview{}, context.DeadlineExceeded
}

func TestSlowFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		b := memorytest.New(t, queue.Topology{Prefix: "test", Partitions: 1})
		c, err := New(Config{Broker: b, Store: slowOverview{newStore(t, "sqlite::memory:"), &n}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(2 * time.Hour)
		cancel()
		<-done
		if n > 61 {
			t.Errorf("tries of a minute each in 2 h = %d, want 60 at most: half of the time", n)
		}
	})
}
