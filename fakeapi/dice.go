package fakeapi

import "chatclub/fakeapi/wire"

// dice draws numbers that depend on the seed and the call's number alone. It
// needs no lock and no allocation.
type dice uint64

func newDice(seed, n uint64) dice { return dice(wire.Mix(seed ^ wire.Mix(n))) }

// roll returns a number in [0, 1).
func (d *dice) roll() float64 {
	*d = dice(wire.Mix(uint64(*d)))
	return float64(*d>>11) / (1 << 53)
}

// hit draws once, and returns true with probability p.
func (d *dice) hit(p float64) bool { return p > 0 && d.roll() < p }

// hashString is FNV-1a, 64 bits: the same in every process, unlike maphash.
func hashString(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
