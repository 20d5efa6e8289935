package paired_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chatclub/loadtest/paired"
)

func TestOrderIsABBA(t *testing.T) {
	t.Parallel()
	var got []string
	for pair := range 3 {
		for _, side := range paired.Order(pair, "A", "B") {
			got = append(got, side)
		}
	}
	if want := []string{"A", "B", "B", "A", "A", "B"}; !slices.Equal(got, want) {
		t.Errorf("three pairs run %v, want %v", got, want)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const base, other = true, false
	for _, tt := range []struct {
		name string
		runs []paired.Run
		want paired.Comparison
	}{
		{"nothing", nil, paired.Comparison{}},
		{"half a pair", []paired.Run{{base, 2}}, paired.Comparison{}},
		{
			"the base first",
			[]paired.Run{{base, 2}, {other, 3}, {other, 6}, {base, 8}, {base, 2}, {other, 5}},
			paired.Comparison{Ratios: []float64{1.5, .75, 2.5}, Controls: []float64{2, .25}},
		},
		{
			"the base second",
			[]paired.Run{{other, 3}, {base, 2}, {base, 8}, {other, 6}},
			paired.Comparison{Ratios: []float64{1.5, .75}, Controls: []float64{4}},
		},
		{
			"one run proves nothing",
			[]paired.Run{{base, 2}, {other, 3}, {other, 0}, {base, 8}, {base, 2}, {other, 5}},
			paired.Comparison{Ratios: []float64{1.5, 2.5}, Controls: []float64{.25}},
		},
		{
			"different pairs are not one",
			[]paired.Run{{base, 2}, {other, 3}, {base, 8}, {other, 6}},
			paired.Comparison{Ratios: []float64{1.5, .75}},
		},
	} {
		if diff := cmp.Diff(tt.want, paired.Compare(tt.runs)); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.name, diff)
		}
	}
}

func TestInterval(t *testing.T) {
	t.Parallel()
	list := func(n int) []float64 {
		l := make([]float64, n)
		for i := range l {
			l[i] = float64(n - i)
		}
		return l
	}
	// As tables of the sign test give them: order statistics for n values.
	for _, tt := range []struct {
		n         int
		low, high float64
	}{{6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {12, 3, 10}, {20, 6, 15}, {5, math.Inf(-1), math.Inf(1)}, {0, math.Inf(-1), math.Inf(1)}} {
		if low, high := paired.Interval(list(tt.n)); low != tt.low || high != tt.high {
			t.Errorf("Interval(%d values) = %g, %g, want %g, %g", tt.n, low, high, tt.low, tt.high)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		list []float64
		want float64
	}{{[]float64{7}, 7}, {[]float64{9, 1, 2}, 2}, {[]float64{9, 1, 2, 4}, 3}} {
		if got := paired.Median(tt.list); got != tt.want {
			t.Errorf("Median(%v) = %g, want %g", tt.list, got, tt.want)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	around := func(middle, spread float64) []float64 {
		var l []float64
		for i := -5; i <= 5; i++ {
			l = append(l, middle+spread*float64(i)/5)
		}
		return l
	}
	quietly := around(1, 0.05)
	for _, tt := range []struct {
		name             string
		ratios, controls []float64
		want             paired.Verdict
	}{
		{"below", around(1.1, 0.1), quietly, paired.Met},
		{"above", around(1.4, 0.1), quietly, paired.Missed},
		{"around", around(1.2, 0.1), quietly, paired.Within},
		{"a control aside", around(1.1, 0.1), around(1.2, 0.05), paired.Busy},
		{"a wide control", around(1.1, 0.1), around(1, 0.5), paired.Busy},
		{"too few controls", around(1.1, 0.1), quietly[:5], paired.Few},
		{"too few ratios", around(1.1, 0.1)[:5], quietly, paired.Few},
		{"nothing", nil, nil, paired.Few},
	} {
		if got := (paired.Comparison{Ratios: tt.ratios, Controls: tt.controls}).Judge(1.2); got != tt.want {
			t.Errorf("%s: Judge = %s, want %s", tt.name, got, tt.want)
		}
	}
}

// The true ratio is the limit: a pair's is as often below it as above, and no
// verdict is right. Of all that may come out, 5 % at most lead to one.
func TestJudgeIsRarelyWrong(t *testing.T) {
	t.Parallel()
	const pairs = 9
	controls := slices.Repeat([]float64{1}, pairs)
	verdicts := 0
	for signs := range 1 << pairs {
		var ratios []float64
		for i := range pairs {
			ratios = append(ratios, 1.2+.1*float64(signs>>i&1*2-1))
		}
		if v := (paired.Comparison{Ratios: ratios, Controls: controls}).Judge(1.2); v == paired.Met || v == paired.Missed {
			verdicts++
		}
	}
	if share := float64(verdicts) / (1 << pairs); share > .05 {
		t.Errorf("%.1f %% of the outcomes lead to a verdict, want 5 %% at most", 100*share)
	}
}
