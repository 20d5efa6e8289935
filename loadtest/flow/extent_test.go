package flow

import (
	"flag"
	"testing"
)

// extent is the part of the tables that runs.
type extent struct {
	mostMessages int      // of the largest backlog
	rows         []string // that run; nil: all
}

// seeds is 3 for `make flow`, which prints the tables.
var seeds = flag.Int("seeds", 1, "runs of each row, of which the worst counts")

// extentOf returns what is to run. With -short the telling rows run alone: each has
// another part of the dispatcher at work.
func extentOf() extent {
	e := extent{mostMessages: 300_000}
	if testing.Short() {
		e.rows = []string{
			"3 × the limit, 40ms,150ms, R=4",
			"2 → 1, the page's sender is killed, 700ms,1.9s, R=2",
			"the page's sender hangs, 40ms,150ms, R=4",
			"3000, 700ms,1.9s, R=4",
			"every 0.5 s, 700ms,1.9s, R=4",
			"one room, 5 events/s, 700ms,1.9s, R=4",
			"one who is sick in a busy room, 40ms,150ms, R=1",
			"broadcasts, deadlines and repeats, 40ms,150ms, R=2",
			"a page is paused while dispatchers come and go, 40ms,150ms, R=2",
			"nothing passes for a minute, and then calls to one person fail, 40ms,150ms, R=1",
			"a page is throttled as if it were the app, and a person is sick, 40ms,150ms, R=2",
		}
	}
	return e
}
