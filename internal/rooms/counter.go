package rooms

import "sync"

// Counter adds up the counts of rooms until they are written to the database. A
// counter in the room's row would make the cores wait for each other, because
// every event would change it. The zero value is empty. Safe for concurrent use.
type Counter struct {
	mu     sync.Mutex
	counts map[RoomKey]Count
}

// Add adds to the count of a room.
func (c *Counter) Add(key RoomKey, more Count) {
	if more == (Count{}) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[RoomKey]Count)
	}
	n := c.counts[key]
	n.Events += more.Events
	n.Copies += more.Copies
	c.counts[key] = n
}

// Take returns the counts since the last Take, for Store.AddCounts.
func (c *Counter) Take() map[RoomKey]Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	c.counts = nil
	return counts
}
