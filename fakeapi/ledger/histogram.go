package ledger

import (
	"math/bits"
	"time"
)

// longest is the longest duration that a histogram tells from longer ones, in µs.
const longest = int64(time.Hour / time.Microsecond)

// exactBits is the number of leading bits of a value that a histogram keeps: eleven are
// three digits and more.
const exactBits = 11

// histogram counts durations by their length in µs. Its slots are as wide as the
// lengths allow: those below 2,048 µs have one each, and each doubling above that
// has 1,024. The zero value is empty. An hour takes 190 kB.
type histogram struct {
	counts []int64 // by slots, up to the last that is not empty
	total  int64
}

func (h *histogram) record(d time.Duration) {
	i := slotOf(min(max(d.Microseconds(), 1), longest))
	if i >= len(h.counts) {
		h.counts = append(h.counts, make([]int64, i+1-len(h.counts))...)
	}
	h.counts[i]++
	h.total++
}

func slotOf(micros int64) int {
	shift := max(0, bits.Len64(uint64(micros))-exactBits) //nolint:gosec // record keeps it positive
	return shift<<(exactBits-1) + int(micros>>shift)
}

// lengthOf returns the middle of a slot in µs.
func lengthOf(slot int) int64 {
	shift := max(0, slot>>(exactBits-1)-1)
	return int64(slot-shift<<(exactBits-1))<<shift + 1<<shift/2
}

// bins returns the slots that are not empty, the shortest first.
func (h *histogram) bins() []Bin {
	list := []Bin{}
	for i, n := range h.counts {
		if n > 0 {
			list = append(list, Bin{lengthOf(i), n})
		}
	}
	return list
}

// Bin is the number of durations of one length, to three digits.
type Bin struct {
	Micros int64 `json:"us"`
	Count  int64 `json:"count"`
}
