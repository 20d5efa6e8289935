package webhook

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Counts is how often a client did what.
type Counts struct {
	Events       int64 // delivered or given up, each counted once
	Undelivered  int64 // of these, given up: their copies are not expected
	Posts        int64 // bodies sent, every attempt counted
	Retries      int64 // attempts after the first
	Alerts       int64 // times that Messenger would have written to the developer
	Unsubscribed int64 // 1 once Messenger would send no more events

	// The time until any answer, to an eighth.
	AnswerP50, AnswerP99 time.Duration
}

type counters struct {
	events, undelivered, posts, retries, alerts, unsubscribed atomic.Int64

	answers histogram
}

// Counts returns the counts so far.
func (c *Client) Counts() Counts {
	n := &c.counts
	return Counts{
		Events: n.events.Load(), Undelivered: n.undelivered.Load(), Posts: n.posts.Load(), Retries: n.retries.Load(),
		Alerts: n.alerts.Load(), Unsubscribed: n.unsubscribed.Load(),
		AnswerP50: n.answers.quantile(.5), AnswerP99: n.answers.quantile(.99),
	}
}

// histogram counts durations in buckets of an eighth of a power of two. The
// zero value is empty.
type histogram struct {
	buckets [40 * 8]atomic.Int64 // up to 2^40 µs, 12 days
}

func (h *histogram) add(d time.Duration) {
	us := uint64(max(8, d.Microseconds()))
	octave := bits.Len64(us) - 1
	eighth := int(us>>(octave-3)) & 7 //nolint:gosec // masked
	h.buckets[min(octave*8+eighth, len(h.buckets)-1)].Add(1)
}

// quantile returns the upper end of the bucket that holds the q-th part, 0 if
// nothing was added.
func (h *histogram) quantile(q float64) time.Duration {
	var counts [len(h.buckets)]int64
	var total int64
	for i := range h.buckets {
		counts[i] = h.buckets[i].Load()
		total += counts[i]
	}
	rest := int64(q * float64(total))
	for i, n := range &counts {
		if rest -= n; rest < 0 {
			octave, eighth := i/8, i%8
			return time.Duration(int64(8+eighth+1)<<octave/8) * time.Microsecond
		}
	}
	return 0
}
