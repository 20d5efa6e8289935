package faults

import (
	"fmt"
	"math/rand/v2"
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

// Script is an endless sequence of steps: rounds, each of which has every fault
// once, in another order. Equal seeds and faults make equal scripts. Make one with
// NewScript.
type Script struct {
	faults []Fault
	random *rand.Rand
	round  []Fault // the rest of this round
}

// NewScript returns the script of a seed over the faults, which must be some.
func NewScript(seed uint64, faults []Fault) *Script {
	return &Script{faults: faults, random: rand.New(rand.NewPCG(seed, seed))}
}

// Next returns the next step.
func (s *Script) Next() Step {
	if len(s.round) == 0 {
		s.round = slices.Clone(s.faults)
		s.random.Shuffle(len(s.round), func(i, j int) { s.round[i], s.round[j] = s.round[j], s.round[i] })
	}
	f := s.round[0]
	s.round = s.round[1:]
	more := time.Duration(s.random.Float64() * float64(f.Length) / 2)
	return Step{Fault: f, Length: (f.Length + more).Round(100 * time.Millisecond), Pick: s.random.IntN(12), Crowd: s.random.IntN(2) == 0}
}

// Select returns the faults of the table that can be made where the broker has so
// many nodes of ours (0: it is not ours), and that match one of the names, which are
// separated by commas. A name with a * at its end stands for all that begin so. It
// returns also the names of those that cannot be made.
func Select(names string, nodes int) (can []Fault, cannot []string, err error) {
	var unknown []string
	asked := strings.Split(names, ",")
	for _, n := range asked {
		if !slices.ContainsFunc(Table(), func(f Fault) bool { return matches(n, f.Name) }) {
			unknown = append(unknown, fmt.Sprintf("%.40q", n))
		}
	}
	if len(unknown) > 0 {
		return nil, nil, fmt.Errorf("faults %s: there are none of that name", strings.Join(unknown, ", "))
	}
	for _, f := range Table() {
		switch {
		case !slices.ContainsFunc(asked, func(n string) bool { return matches(n, f.Name) }):
		case f.Part == Node && nodes < f.Nodes:
			cannot = append(cannot, f.Name)
		default:
			can = append(can, f)
		}
	}
	if len(can) == 0 {
		return nil, cannot, fmt.Errorf("faults %q need more nodes of a broker of this run's own: there are %d", names, nodes)
	}
	return can, cannot, nil
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}
