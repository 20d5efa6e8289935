package flow

import (
	"slices"
	"testing"
	"time"
)

// extent is how much of the tables runs.
type extent struct {
	seeds        int           // runs of a row, of which the worst counts
	mostMessages int           // of the largest backlog
	mostArticle  int           // dispatchers with the article's algorithm, which makes ten calls a message there
	otherLength  time.Duration // of the other ways of sharing a limit
	others       []string      // of which these run; nil: all
	longRun      time.Duration // of a page that is saturated to see what its owner reaches
	rows         []string      // that run; nil: all
}

// whole is all rows.
func whole() extent {
	return extent{seeds: 3, mostMessages: 300_000, mostArticle: 16, otherLength: 25 * time.Second, longRun: 90 * time.Second}
}

// extentOf returns what is to run. Under the race detector a run takes six times
// as long. One seed, a tenth of the largest backlog and fewer dispatchers find
// the races that all of it would, at one latency. With -short the telling rows run alone: each
// has another part of the dispatcher at work.
func extentOf() extent {
	e := whole()
	if raced || testing.Short() {
		e.seeds, e.mostMessages, e.mostArticle = 1, 30_000, 1
		e.otherLength, e.others = 8*time.Second, []string{"static", "redis"} // one without and one with a Redis
		e.longRun = 40 * time.Second
	}
	if testing.Short() {
		e.mostMessages, e.otherLength, e.others = 3_000, 6*time.Second, []string{"redis"}
		e.rows = []string{
			"3 × the limit, 40ms,150ms, R=4", // ours and the article's
			"2 → 1, the page's sender is killed, 700ms,1.9s, R=2",
			"the page's sender hangs, 40ms,150ms, R=4",
			"3000, 700ms,1.9s, R=4",
			"every 0.5 s, 700ms,1.9s, R=4",
			"one room, 5 events/s, 700ms,1.9s, R=4",
			"one who is sick in a busy room, 40ms,150ms, R=1",
			"redis, 40ms,150ms, R=4",
		}
	}
	return e
}

// has reports whether a row is to run.
func (e extent) has(name string) bool { return e.rows == nil || slices.Contains(e.rows, name) }
