package strategy

import (
	"time"

	"chatclub/internal/article"
	"chatclub/internal/excess"
)

// interval is the second that Messenger's published limits are counted in.
const interval = time.Second

// naive has no memory: everything is sent at once, and what is refused is sent
// again.
//
// Source: the example that Azure's Rate Limiting pattern begins with. 10,000
// records are sent to a store that takes 2,000 in an interval; the 8,000 that
// it rejects are sent again in the next, then the 6,000 of those that it
// rejects, and so on: 30,000 calls. As there, one message is tried once an
// interval, by the replica that took it. With the shorter pauses that a retry
// loop without a thought would have, it would be refused more often still.
type naive struct{}

// Offer lets everything through.
func (naive) Offer(time.Time, excess.Key, bool) article.Decision {
	return article.Decision{Action: article.Send}
}

// Done keeps a refused message for the next interval.
func (naive) Done(time.Time, excess.Key, bool, excess.Result) time.Duration { return interval }

// Drop has no meaning here.
func (naive) Drop(excess.Key) {}

// Overflow cannot happen: no message ever waits for its page.
func (naive) Overflow(time.Time, excess.Key, int) {}
