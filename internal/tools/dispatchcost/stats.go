package main

import (
	"math"
	"slices"
)

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// interval is where the true median lies with at least 95 % certainty, whatever
// the distribution: between the k-th lowest and the k-th highest value, k from
// the binomial distribution, as in the sign test. With fewer than six values
// nothing is certain, and it is unbounded.
func interval(list []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	k, outside, ways := 0, 0.0, 1.0 // outside: chance that fewer than k+1 values lie on one side
	for i := range n {
		outside += ways / math.Exp2(float64(n))
		if 2*outside > 0.05 {
			break
		}
		k++
		ways *= float64(n-i) / float64(i+1)
	}
	if k == 0 {
		return math.Inf(-1), math.Inf(1)
	}
	return sorted[k-1], sorted[n-k]
}

// quiet is how far from 1 the control may certainly be, and a quarter of how wide
// its interval may be: with more, a ratio of 1.1 could not be told from 1.2.
const quiet = 0.05

// verdict tells whether the ratios' median is at most limit.
func verdict(ratios, controls []float64, limit float64) string {
	low, high := interval(ratios)
	below, above := interval(controls)
	switch {
	case math.IsInf(above, 0) || below > 1+quiet || above < 1-quiet || above-below > 4*quiet:
		return "inconclusive: the control is not 1; the machine is too busy"
	case high <= limit:
		return "met"
	case low > limit:
		return "missed"
	}
	return "inconclusive: the limit lies in the interval"
}
