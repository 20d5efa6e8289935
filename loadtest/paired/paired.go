// Package paired compares what two sides cost on a machine that does other
// things too, and gives a verdict only where the runs are enough for one.
//
// The sides run in turn, A B, B A, A B … ([Order]), so that a machine that
// grows slower or faster meets both alike. Each pair gives a ratio. Where two
// pairs meet, one side runs twice in a row, and these two give the control,
// which is 1 as far as the machine is quiet ([Compare]).
//
// The verdict ([Comparison.Judge]) is about the ratios' median. Where the true
// one lies is told by the sign test, with at least 95 % certainty and whatever
// the distribution ([Interval]): the interval grows narrower with every pair,
// and with fewer than six values there is none. It is inconclusive while the
// limit lies in that interval, and when the control's says that the machine was
// too busy. What two runs of a side typically differ by is no measure of it:
// that does not depend on how many pairs there are, and so calls for a verdict
// too early with few of them and too late with many.
//
// Source of the interval: W. R. Thompson, On confidence ranges for the median,
// 1936.
package paired

import (
	"math"
	"slices"
)

// Order is the order in which the sides run in a pair, counted from 0.
func Order[S any](pair int, a, b S) [2]S {
	if pair%2 == 1 {
		return [2]S{b, a}
	}
	return [2]S{a, b}
}

// Run is one run of a side.
type Run struct {
	Base bool    // of the side that the other is compared with
	Cost float64 // 0: it proves nothing, and is compared with no other
}

// Comparison is what pairs of runs came to.
type Comparison struct {
	Ratios   []float64 // of each pair: the other side's cost to the base's
	Controls []float64 // of each side's two runs in a row: the second's cost to the first's
}

// Compare compares runs that were made in turn.
func Compare(runs []Run) Comparison {
	var c Comparison
	for i := 1; i < len(runs); i++ {
		a, b := runs[i-1], runs[i]
		switch {
		case a.Cost == 0 || b.Cost == 0:
		case a.Base == b.Base:
			c.Controls = append(c.Controls, b.Cost/a.Cost)
		case i%2 == 0: // of different pairs
		case a.Base:
			c.Ratios = append(c.Ratios, b.Cost/a.Cost)
		default:
			c.Ratios = append(c.Ratios, a.Cost/b.Cost)
		}
	}
	return c
}

// Verdict says in words whether a median is within a limit.
type Verdict string

// The verdicts.
const (
	Met    Verdict = "met"
	Missed Verdict = "missed"
	Few    Verdict = "inconclusive: the pairs are too few"
	Busy   Verdict = "inconclusive: the control is not 1; the machine is too busy"
	Within Verdict = "inconclusive: the limit lies in the interval"
)

// quiet is how far from 1 the control may certainly be, and a quarter of how wide
// its interval may be: with more, a ratio of 1.1 could not be told from 1.2.
const quiet = 0.05

// Judge says whether the ratios' median is at most limit.
func (c Comparison) Judge(limit float64) Verdict {
	low, high := Interval(c.Ratios)
	below, above := Interval(c.Controls)
	switch {
	case math.IsInf(high, 1) || math.IsInf(above, 1):
		return Few
	case below > 1+quiet || above < 1-quiet || above-below > 4*quiet:
		return Busy
	case high <= limit:
		return Met
	case low > limit:
		return Missed
	}
	return Within
}

// Interval is where the true median lies with at least 95 % certainty: between
// the k-th lowest and the k-th highest value, k from the binomial distribution.
// With fewer than six values it is unbounded.
func Interval(list []float64) (low, high float64) {
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

// Median is the value in the middle, or between the two there. The list must
// not be empty.
func Median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
