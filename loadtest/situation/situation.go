// Package situation holds the loads that the load test's scenarios and the tables of
// package flow have in common: what happens, how often, and what becomes of it at
// most. The one runs them against the clock, and beside other ways of sharing a
// limit; the other in virtual time alone.
package situation

import "time"

// LivelyRoom is a room in which something happens so often that texts to the
// same person overtake the answers to earlier ones, or the page's limit.
type LivelyRoom struct {
	PerSecond float64       // events
	P50, P99  time.Duration // that copies wait at most
}

// LivelyRooms are one room at several rates. At ten events a second and 99 copies
// each there is 3.3 times the limit of 300 to send: only what is joined passes.
func LivelyRooms() []LivelyRoom {
	const p50, p99 = 600 * time.Millisecond, 2500 * time.Millisecond
	return []LivelyRoom{{1, p50, p99}, {2, p50, p99}, {5, p50, p99}, {10, 2 * time.Second, 6 * time.Second}}
}

// LivelyWaits is how long copies wait at most in a room with so many events a
// second; 0 for more than the liveliest has.
func LivelyWaits(perSecond float64) (p50, p99 time.Duration) {
	for _, r := range LivelyRooms() {
		if perSecond <= r.PerSecond {
			return r.P50, r.P99
		}
	}
	return 0, 0
}

// Ten rooms of one page, in which together three times its limit happens.
const (
	Rooms    = 10
	RoomsP50 = 2500 * time.Millisecond // that copies wait at most
)

// A page whose every call fails or hangs, and those beside it.
const (
	SickPageEvery  = 50 * time.Millisecond // between two messages of the page
	QuietPageEvery = 7 * time.Second
	BusyPageEvery  = 10 * time.Millisecond
)

// SickMemberEvery is between two events in the busy room of someone to whom no
// message can be sent.
const SickMemberEvery = time.Second

// A page beside one with three times its limit, in the same partition: a room in
// which something happens now and then.
const (
	NeighbourRoom  = 33
	NeighbourEvery = time.Second
	NeighbourTimes = 3
)

// VoiceEvery is between two voice messages in a room: 99 copies of each, which
// take 9.9 s at 10 a second.
const VoiceEvery = 8 * time.Second
