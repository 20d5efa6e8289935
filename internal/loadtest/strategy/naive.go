package strategy

import (
	"time"

	"chatclub/internal/excess"
)

// interval is the second that Messenger's published limits are counted in.
const interval = time.Second

// naive has no memory: everything is sent at once, and what is refused is sent
// again.
//
// Source: the example that Azure's Rate Limiting pattern begins with. 10,000
// records are sent to a store that takes 2,000 in an interval. The 8,000 that it
// rejects are sent again in the next, then the 6,000 of those that it rejects,
// and so on: 30,000 calls. As there, one message is tried once an
// interval, by the replica that took it. A careless retry
// loop has shorter pauses, and would be refused more often still.
type naive struct{ laneless }

// Offer lets everything through.
func (naive) Offer(_ time.Time, k excess.Key, retry bool) excess.Decision {
	return excess.Decision{Action: excess.Send, Permit: excess.Permit{Key: k, Retry: retry}}
}

// OfferLane treats a lane's message as any other.
func (n naive) OfferLane(now time.Time, k excess.Key) excess.Decision { return n.Offer(now, k, false) }

// Done keeps a refused message for the next interval.
func (naive) Done(time.Time, excess.Permit, excess.Result) excess.Decision {
	return excess.Decision{Action: excess.Wait, Wait: interval}
}

// Drop has no meaning here.
func (naive) Drop(excess.Key) {}

// Overflow cannot happen: no message ever waits for its page.
func (naive) Overflow(time.Time, excess.Key, int) {}

// Counts counts nothing.
func (naive) Counts() excess.Counts { return excess.Counts{} }
