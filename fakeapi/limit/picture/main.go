// Command picture draws how many of the same calls each of the five algorithms
// admits, as an SVG on its standard output. `make pictures` writes
// docs/limits.svg with it.
//
// 10,000 calls are made at 1,000/s against a limit of 300/s, the load of a
// published comparison. There are pauses of a second after the fourth and the
// sixth second of calling. Each bar is the calls admitted in 100 ms.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"chatclub/fakeapi/limit"
)

const (
	perSecond = 300
	calls     = 10_000
	gap       = time.Millisecond // 1,000/s
	pause     = time.Second
	bin       = 100 * time.Millisecond
	bins      = 120 // ten seconds of calls, two of pauses
)

// begin lies a quarter into a window, so that the end of a window and the end
// of a pause can be seen apart.
var begin = time.Unix(1_700_000_000, 0).Add(250 * time.Millisecond)

func main() { os.Exit(run(os.Stdout, os.Stderr)) }

func run(stdout, stderr io.Writer) int {
	if err := draw(stdout); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// at returns when the i-th call is made, counted from the first.
func at(i int) time.Duration {
	t := time.Duration(i) * gap
	if t >= 4*time.Second {
		t += pause
	}
	if t >= 6*time.Second+pause {
		t += pause
	}
	return t
}

// outcome is how many of the calls an algorithm admitted.
type outcome struct {
	counts  []int // admitted, per bin
	total   int   // admitted of all
	busiest int   // admitted within the busiest second, wherever it begins
}

func try(a limit.Algorithm) (outcome, error) {
	o := outcome{counts: make([]int, bins)}
	l, err := limit.New(limit.Config{Algorithm: a, Limit: perSecond})
	if err != nil {
		return o, fmt.Errorf("try %s: %w", a, err)
	}
	var admitted []time.Duration
	for i := range calls {
		t := at(i)
		if !l.Allow(begin.Add(t)) {
			continue
		}
		admitted = append(admitted, t)
		o.counts[t/bin]++
		for admitted[0] <= t-time.Second {
			admitted = admitted[1:]
		}
		o.total++
		o.busiest = max(o.busiest, len(admitted))
	}
	return o, nil
}
