package fakeapi

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// SourceCounts is what a Source has done.
type SourceCounts struct {
	Joined       int64 `json:"joined"`       // users who got their welcome
	Events       int64 `json:"events"`       // events posted, each counted once
	Pictures     int64 `json:"pictures"`     // of these, messages with pictures
	Posts        int64 `json:"posts"`        // webhooks sent, attempts included
	Retries      int64 `json:"retries"`      // attempts after the first
	Repeats      int64 `json:"repeats"`      // webhooks sent a second time although the first was answered 200
	Receipts     int64 `json:"receipts"`     // echo, delivery and read events posted
	Undelivered  int64 `json:"undelivered"`  // events that the system never took: what they announced is withdrawn
	Skipped      int64 `json:"skipped"`      // events not posted because too many were unanswered
	Alerts       int64 `json:"alerts"`       // times that Messenger would have written to the developer
	Unsubscribed int64 `json:"unsubscribed"` // 1 once Messenger would send no more events

	// Of attempts that got any answer; p50 and p99 to 1/8.
	AnswerP50 time.Duration `json:"-"`
	AnswerP99 time.Duration `json:"-"`
	AnswerMax time.Duration `json:"-"`
}

// add adds what can be added: not the times.
func (c *SourceCounts) add(d SourceCounts) {
	c.Joined += d.Joined
	c.Events += d.Events
	c.Pictures += d.Pictures
	c.Posts += d.Posts
	c.Retries += d.Retries
	c.Repeats += d.Repeats
	c.Receipts += d.Receipts
	c.Undelivered += d.Undelivered
	c.Skipped += d.Skipped
	c.Alerts += d.Alerts
	c.Unsubscribed += d.Unsubscribed
}

// SourceTotals is what all sources of the platform have done.
func (a *API) SourceTotals() SourceCounts {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var sum SourceCounts
	for _, s := range a.sources {
		sum.add(s.Counts())
	}
	return sum
}

type counters struct {
	joined, events, pictures, posts, retries, repeats, receipts, undelivered, skipped, alerts, unsubscribed atomic.Int64

	answers histogram
}

// Counts is a snapshot.
func (s *Source) Counts() SourceCounts {
	c := &s.count
	return SourceCounts{
		Joined: c.joined.Load(), Events: c.events.Load(), Posts: c.posts.Load(), Retries: c.retries.Load(), Pictures: c.pictures.Load(),
		Repeats: c.repeats.Load(), Receipts: c.receipts.Load(), Undelivered: c.undelivered.Load(),
		Skipped: c.skipped.Load(), Alerts: c.alerts.Load(), Unsubscribed: c.unsubscribed.Load(),
		AnswerP50: c.answers.quantile(.5), AnswerP99: c.answers.quantile(.99), AnswerMax: time.Duration(c.answers.max.Load()),
	}
}

// histogram counts durations in buckets of an eighth of a power of two. The
// zero value is empty.
type histogram struct {
	buckets [40 * 8]atomic.Int64 // up to 2^40 µs, 12 days
	max     atomic.Int64         // ns
}

func (h *histogram) add(d time.Duration) {
	us := uint64(max(8, d.Microseconds()))
	octave := bits.Len64(us) - 1
	sub := int(us>>(octave-3)) & 7 //nolint:gosec // masked
	h.buckets[min(octave*8+sub, len(h.buckets)-1)].Add(1)
	for {
		old := h.max.Load()
		if int64(d) <= old || h.max.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// quantile returns the upper end of the bucket that holds the q-th part.
func (h *histogram) quantile(q float64) time.Duration {
	var total int64
	for i := range h.buckets {
		total += h.buckets[i].Load()
	}
	if total == 0 {
		return 0
	}
	rest := int64(q * float64(total))
	for i := range h.buckets {
		if rest -= h.buckets[i].Load(); rest < 0 {
			octave, sub := i/8, i%8
			return micros(int64(8+sub+1) << octave / 8)
		}
	}
	return time.Duration(h.max.Load())
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
