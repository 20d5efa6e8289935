package fakeapi

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// SourceCounts is what a Source has done.
type SourceCounts struct {
	Joined      int64 // users who got their welcome
	Events      int64 // events posted, each counted once
	Posts       int64 // webhooks sent, attempts included
	Retries     int64 // attempts after the first
	Repeats     int64 // webhooks sent a second time although the first was answered 200
	Receipts    int64 // echo, delivery and read events posted
	Undelivered int64 // events that the system never took: what they announced is withdrawn
	Skipped     int64 // events not posted because too many were unanswered
	Alerts      int64 // times that Messenger would have written to the developer

	AnswerP50, AnswerP99, AnswerMax time.Duration // of attempts that got any answer; p50 and p99 to 1/8
}

type counters struct {
	joined, events, posts, retries, repeats, receipts, undelivered, skipped, alerts atomic.Int64

	answers histogram
}

// Counts is a snapshot.
func (s *Source) Counts() SourceCounts {
	c := &s.count
	return SourceCounts{
		Joined: c.joined.Load(), Events: c.events.Load(), Posts: c.posts.Load(), Retries: c.retries.Load(),
		Repeats: c.repeats.Load(), Receipts: c.receipts.Load(), Undelivered: c.undelivered.Load(),
		Skipped: c.skipped.Load(), Alerts: c.alerts.Load(),
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
