package main

import (
	"errors"
	"testing"
	"time"

	"chatclub/loadtest/peers/peer"
)

// The wiki's recipe: what is beyond the limit is no failure, and is tried again
// when its error says. Each worker has its share of the limit.
func TestWorkerIsAsTheWikiSays(t *testing.T) {
	t.Parallel()
	s := peer.Settings{Limit: 300, Replicas: 4, Pages: []string{"1", "2"}, Namespace: "n"}
	c := config(s)
	if c.Queues["n-1"] != 1 || c.Queues["n-2"] != 1 || len(c.Queues) != 2 || c.Concurrency != 300 {
		t.Errorf("queues %v, concurrency %d, want one a page, of equal weight, and 300", c.Queues, c.Concurrency)
	}
	err := later()
	if d := c.RetryDelayFunc(1, err, nil); c.IsFailure(err) || d < time.Second || d > 2*time.Second {
		t.Errorf("a limited task is a failure: %t, and tried again after %v, want false and 1 to 2 s", c.IsFailure(err), d)
	}
	if !c.IsFailure(errors.New("other")) {
		t.Error("another error is no failure, want it to be one")
	}
	if l := limiters(s)["1"]; l.Limit() != 75 {
		t.Errorf("a worker's limit = %v, want a fourth of 300", l.Limit())
	}
}
