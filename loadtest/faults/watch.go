package faults

import (
	"time"

	"chatclub/fakeapi/ledger"
)

// watch finds out how long pages were silent. A page is silent while it awaits
// copies and none of them comes. Make one with newWatch when the fault begins; it is
// for one goroutine at a time.
type watch struct {
	silent map[string]time.Time // since when, of each page that is
	count  map[string]int64     // copies accepted, once each
	worst  time.Duration
	healed time.Time       // zero: the fault lasts
	waits  map[string]bool // pages that were silent when it ended, and have been since
	back   time.Duration   // from there until the last of them was not
}

func newWatch() *watch {
	return &watch{silent: make(map[string]time.Time), count: make(map[string]int64), waits: make(map[string]bool)}
}

// note takes what the ledger says at a moment.
func (w *watch) note(at time.Time, pages []ledger.PageReport) {
	for i := range pages {
		w.notePage(at, pages[i].Page, pages[i].Totals)
	}
}

func (w *watch) notePage(at time.Time, page string, c ledger.Counts) {
	once := c.Accepted - c.Duplicated
	before, known := w.count[page]
	w.count[page] = once
	since, was := w.silent[page]
	if was {
		w.worst = max(w.worst, at.Sub(since))
	}
	if moves := !known || once > before; moves || c.Pending == 0 {
		delete(w.silent, page)
		if w.waits[page] {
			delete(w.waits, page)
			w.back = at.Sub(w.healed)
		}
	}
	if _, was := w.silent[page]; !was && c.Pending > 0 {
		w.silent[page] = at
	}
}

// heal says that the fault has ended.
func (w *watch) heal(at time.Time) {
	w.healed = at
	for page := range w.silent {
		w.waits[page] = true
	}
}
