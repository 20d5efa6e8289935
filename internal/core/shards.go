package core

import (
	"hash/fnv"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// inbound is a delivery with its event, or the error of decoding it.
type inbound struct {
	delivery *queue.Delivery
	event    message.Event
	err      error
}

// shards holds a channel for each worker. The events of one page all go to the
// same one.
type shards []chan inbound

// newShards returns shards of which each has room for all events that can be
// held. So a busy page does not keep the intake from the pages of other workers,
// until its events are all that is held.
func newShards(workers, prefetch int) shards {
	s := make(shards, workers)
	for i := range s {
		s[i] = make(chan inbound, prefetch)
	}
	return s
}

// of returns the shard of a page. A delivery that could not be decoded has no
// page, and no order to keep.
func (s shards) of(page string) chan<- inbound { return s[shardOf(page, len(s))] }

func shardOf(page string, n int) int {
	h := fnv.New32a()
	h.Write([]byte(page))
	return int(h.Sum32() % uint32(n)) //nolint:gosec // Workers is small and positive
}

func (s shards) close() {
	for _, shard := range s {
		close(shard)
	}
}
