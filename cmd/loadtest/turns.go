package main

import (
	"iter"
	"slices"

	"chatclub/internal/loadtest/report"
	"chatclub/internal/loadtest/strategy"
)

// turns are the runs of all strategies. In a round each has a turn, which is a
// run of each part of the scenario; the next round goes the other way round, so
// that a machine that grows slower or faster meets all alike. Make them with
// newTurns. Use by one goroutine.
type turns struct {
	of     [][]turn // by strategies
	wanted int      // sound turns of each
}

// turn is a run of each part, with one seed.
type turn struct {
	seed uint64
	runs []report.Run
}

func newTurns(list []strategy.Info, wanted int) *turns {
	return &turns{of: make([][]turn, len(list)), wanted: wanted}
}

// all yields the strategy, by its place, that has the next turn, until none is
// open. The caller must add each before it asks for the next.
func (t *turns) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for round := 0; t.left(); round++ {
			order := make([]int, 0, len(t.of))
			for i := range t.of {
				order = append(order, i)
			}
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, i := range order {
				if t.isOpen(i) && !yield(i) {
					return
				}
			}
		}
	}
}

func (t *turns) add(i int, seed uint64, runs []report.Run) {
	t.of[i] = append(t.of[i], turn{seed, runs})
}

// left reports whether any strategy is to have a turn.
func (t *turns) left() bool {
	for i := range t.of {
		if t.isOpen(i) {
			return true
		}
	}
	return false
}

// isOpen reports whether a strategy is to have another turn: until it has as many
// sound ones as are wanted, or one has failed. What the machine disturbed is
// made again, as many times as there are runs; not where one run alone is wanted,
// whose user sees at once that it proves nothing.
func (t *turns) isOpen(i int) bool {
	most := 2 * t.wanted
	if t.wanted == 1 {
		most = 1
	}
	sound := 0
	for _, x := range t.of[i] {
		switch {
		case slices.ContainsFunc(x.runs, failed):
			return false
		case !slices.ContainsFunc(x.runs, unsound):
			sound++
		}
	}
	return sound < t.wanted && len(t.of[i]) < most
}

func unsound(run report.Run) bool { return run.Status != report.Complete }

// ended is how many of the runs that were wanted of a strategy have ended; those
// that are made again are none.
func (t *turns) ended(i int) (n int) {
	for _, x := range t.of[i] {
		if t.wanted == 1 || !slices.ContainsFunc(x.runs, unsound) {
			n += len(x.runs)
		}
	}
	return n
}

// fold makes one run of each part of a strategy's turns; none before its first.
// A part is disturbed with its turn: it is compared with the others in it.
func (t *turns) fold(i int) (runs []report.Run) {
	if len(t.of[i]) == 0 {
		return nil
	}
	for part := range t.of[i][0].runs {
		var list []report.Turn
		for _, x := range t.of[i] {
			if part >= len(x.runs) {
				continue // a part before it failed, or the user stopped there
			}
			run := x.runs[part]
			if k := slices.IndexFunc(x.runs, unsound); t.wanted > 1 && k >= 0 && run.Status == report.Complete {
				run.Status, run.Reason = x.runs[k].Status, x.runs[k].Name()+": "+x.runs[k].Reason
			}
			list = append(list, report.Turn{Run: run, Seed: x.seed})
		}
		runs = append(runs, report.Fold(list, t.wanted))
	}
	return runs
}
