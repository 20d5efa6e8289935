package partitions

import (
	"sync"
	"time"

	"chatclub/internal/queue"
)

// Claim is one subscription of a partition. The receiver of a message calls Handle once.
// Safe for concurrent use.
type Claim struct {
	queue    string
	sub      queue.Subscription
	prefetch int             // messages held at most
	changed  <-chan struct{} // closed when its priority is no longer right

	mu     sync.Mutex
	came   time.Time     // when a message was delivered last, or there was room for one again
	since  time.Time     // from when it has held one without a pause
	held   int           // messages that were delivered and not handled
	inHand int           // of them in Handle
	left   bool          // nothing more is begun
	idle   chan struct{} // closed once it is left and nothing is in hand
}

// Handle calls f, which settles a message. It does not once the claim is given up: the
// message goes back by itself.
func (c *Claim) Handle(f func()) {
	if c.begin() {
		defer c.end()
		f()
	}
}

func (c *Claim) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		c.held--
		return false
	}
	c.inHand++
	return true
}

func (c *Claim) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == c.prefetch {
		c.came = time.Now()
	}
	c.held--
	if c.inHand--; c.left && c.inHand == 0 {
		close(c.idle)
	}
}

// add counts a message that was delivered.
func (c *Claim) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == 0 {
		c.since = time.Now()
	}
	c.held++
	c.came = time.Now()
}

// stop has Handle begin nothing more. The channel is closed once nothing is in hand.
func (c *Claim) stop() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left = true; c.inHand == 0 {
		close(c.idle)
	}
	return c.idle
}

// heldFor returns the time for which something has been held without a pause.
func (c *Claim) heldFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == 0 {
		return 0
	}
	return time.Since(c.since)
}

// isStarved reports whether something is held, and there is room for more, but nothing has
// come for a while.
func (c *Claim) isStarved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held > 0 && c.held < c.prefetch && time.Since(c.came) >= LookAfter
}

// isActive reports whether something is held or came lately.
func (c *Claim) isActive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held > 0 || !c.came.IsZero() && time.Since(c.came) < ActiveFor
}
