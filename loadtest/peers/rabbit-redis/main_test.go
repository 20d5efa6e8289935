package main

import (
	"testing"
	"time"

	"chatclub/loadtest/peers/peer"
)

// The bucket is shared by all workers, so that each asks for the whole limit.
func TestBucketIsThePagesLimit(t *testing.T) {
	t.Parallel()
	b := bucket(peer.Settings{Limit: 300, Replicas: 4})
	if b.Rate != 300 || b.Period != time.Second || b.Burst != 300 {
		t.Errorf("bucket = %+v, want 300 a second", b)
	}
}
