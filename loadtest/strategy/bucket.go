package strategy

import "time"

const (
	// headroom is the part of the limit that is asked for, and burst how far a
	// page may run ahead of its pace: what 0.98 leaves of a second, so that no
	// second of a page that was idle holds more than the limit. Chatclub asks for
	// 0.985: half a percent between is a setting, and no merit of one way over another.
	headroom = 0.98
	burst    = 20 * time.Millisecond
)

// bucket is a token bucket, kept as the theoretical arrival time of the next token
// (the virtual scheduling form of ITU-T I.371). The zero value is full.
type bucket struct{ tat time.Time }

// take takes a token of rate a second, or returns how long until there is one.
func (b *bucket) take(now time.Time, rate float64) time.Duration {
	if wait := b.tat.Sub(now.Add(burst)); wait > 0 {
		return wait
	}
	if b.tat.Before(now) {
		b.tat = now
	}
	b.tat = b.tat.Add(time.Duration(float64(time.Second) / rate))
	return 0
}
