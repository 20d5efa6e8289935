package partitions

import (
	"slices"
	"testing"
)

// shares returns the number of partitions that each of some slots has.
func shares(ranks map[int][]int, partitions int) (n []int) {
	owned := make(map[int]int)
	for p := range partitions {
		best := -1
		for slot, r := range ranks {
			if best < 0 || r[p] > ranks[best][p] {
				best = slot
			}
		}
		owned[best]++
	}
	for slot := range ranks {
		n = append(n, owned[slot])
	}
	return n
}

// Whichever replica has a slot computes the same priorities, and the partitions are
// shared out about equally among those there are, also where one is missing.
func TestPriorities(t *testing.T) {
	t.Parallel()
	const slots = 32
	for _, partitions := range []int{64, 256} {
		all := make(map[int][]int)
		for slot := range 16 {
			all[slot] = Priorities(slot, slots, partitions)
			if again := Priorities(slot, slots, partitions); !slices.Equal(again, all[slot]) {
				t.Errorf("slot %d: other priorities when they are computed again", slot)
			}
			for p, rank := range all[slot] {
				if rank <= 0 || rank >= trialRank {
					t.Errorf("slot %d, partition %d: priority %d, want it positive and below that of the trial", slot, p, rank)
				}
			}
		}
		ratio := func(ranks map[int][]int) float64 {
			n := shares(ranks, partitions)
			return float64(slices.Max(n)) * float64(len(n)) / float64(partitions)
		}
		first := func(n int) map[int][]int {
			ranks := make(map[int][]int)
			for slot := range n {
				ranks[slot] = all[slot]
			}
			return ranks
		}
		for n, most := range map[int]float64{2: 1.1, 4: 1.1, 8: 1.2, 16: 1.3} {
			if got := ratio(first(n)); got > most {
				t.Errorf("%d slots, %d partitions: the most to the mean = %.2f, want %.1f at most", n, partitions, got, most)
			}
			for gone := range n {
				ranks := first(n)
				if delete(ranks, gone); n > 2 && ratio(ranks) > 1.6 {
					t.Errorf("%d slots but for %d, %d partitions: the most to the mean = %.2f, want 1.6 at most", n, gone, partitions, ratio(ranks))
				}
			}
		}
	}
}
