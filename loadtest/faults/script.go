package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"
)

// Step is one fault of a script.
type Step struct {
	Fault  Fault
	Length time.Duration // of the fault
	Pick   int           // which of its part, modulo how many there are
	Crowd  bool          // half of the pages are in excess meanwhile
}

// String is the step in one line.
func (s Step) String() string {
	crowd := ""
	if s.Crowd {
		crowd = ", pages in excess"
	}
	return fmt.Sprintf("%s for %v (number %d%s)", s.Fault.Name, s.Length, s.Pick, crowd)
}

// Script returns the steps of a seed over some faults, one a call and without end: rounds,
// each of which has every fault once, in another order. Equal seeds and faults make equal
// scripts.
func Script(seed uint64, faults []Fault) (next func() Step) {
	random := rand.New(rand.NewPCG(seed, seed))
	var round []Fault // the rest of it
	return func() Step {
		if len(round) == 0 {
			round = slices.Clone(faults)
			random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		}
		f := round[0]
		round = round[1:]
		more := time.Duration(random.Float64() * float64(f.Length) / 2)
		return Step{Fault: f, Length: (f.Length + more).Round(100 * time.Millisecond), Pick: random.IntN(12), Crowd: random.IntN(2) == 0}
	}
}

// Select returns the faults of the table that match one of the names, which are
// separated by commas. A name with a * at its end stands for all that begin so.
func Select(names string) (list []Fault, err error) {
	for name := range strings.SplitSeq(names, ",") {
		before := len(list)
		for _, f := range Table() {
			if ok, _ := path.Match(name, f.Name); ok { // a wrong pattern matches nothing
				list = append(list, f)
			}
		}
		if len(list) == before {
			err = errors.Join(err, fmt.Errorf("faults: there are none of the name %.40q", name))
		}
	}
	return list, err
}
