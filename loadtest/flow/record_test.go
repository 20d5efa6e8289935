package flow

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// cell is the finest time that calls are counted by.
const cell = 100 * time.Millisecond

// record is the fate of every message of a run: when its call began and was
// answered, which the judge's ledger does not know.
// Make one with newRecord. Safe for concurrent use.
type record struct {
	start time.Time

	mu       sync.Mutex
	messages []entry
	calls    map[int32][]int32 // accepted, of each page by cells
}

// entry is one message; its index is in its id.
type entry struct {
	page, to  int32
	published time.Duration // since start
	accepted  bool
	begun     time.Duration // when the call began that was accepted first
	answered  time.Duration // when the answer to it came; until then when it was accepted
	times     uint8         // accepted
	calls     uint16        // made for it
}

func newRecord() *record { return &record{start: time.Now(), calls: make(map[int32][]int32)} }

// enter opens an entry and returns the message's id.
func (r *record) enter(page, to int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, entry{page: int32(page), to: int32(to), published: time.Since(r.start)})
	return "m" + strconv.Itoa(len(r.messages)-1)
}

// eachLocked calls do with the entries that a call's ids name.
func (r *record) eachLocked(ids string, do func(*entry)) {
	for id := range strings.FieldsSeq(ids) {
		i, err := strconv.Atoi(strings.TrimPrefix(id, "m"))
		if err != nil {
			panic("not an id of the record: " + id)
		}
		do(&r.messages[i])
	}
}

// accept enters that the platform took a call.
func (r *record) accept(ids string) {
	now := time.Since(r.start)
	r.mu.Lock()
	defer r.mu.Unlock()
	var page int32
	r.eachLocked(ids, func(e *entry) {
		page = e.page
		if e.times++; e.times == 1 {
			e.accepted, e.answered = true, now
		}
	})
	cells, i := r.calls[page], int(now/cell)
	cells = append(cells, make([]int32, max(0, i+1-len(cells)))...)
	cells[i]++
	r.calls[page] = cells
}

// call enters a call that began and has ended.
func (r *record) call(ids string, begun time.Duration, sent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.eachLocked(ids, func(e *entry) {
		e.calls++
		if sent && e.times == 1 {
			e.begun, e.answered = begun, time.Since(r.start)
		}
	})
}

// window is a time of the run, since its start.
type window struct{ from, to time.Duration }

func (w window) seconds() float64 { return (w.to - w.from).Seconds() }

// accepted counts the acceptances of one page in a window.
func (r *record) accepted(page int, w window) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cells := r.calls[int32(page)]
	for i := int(w.from / cell); i < int(w.to/cell) && i < len(cells); i++ {
		n += int(cells[i])
	}
	return n
}

// back returns the recovery time after from: the end of the last second, within the
// longest, in which the page was sent less than rate a second.
func (r *record) back(page int, from time.Duration, rate float64, longest time.Duration) (d time.Duration) {
	for at := time.Duration(0); at+time.Second <= longest; at += cell {
		if n := r.accepted(page, window{from + at, from + at + time.Second}); float64(n) < rate {
			d = at + time.Second
		}
	}
	return d
}

// silent returns the longest time in a window without an accepted call of a page.
func (r *record) silent(page int, w window) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := w.from
	cells := r.calls[int32(page)]
	for at := w.from; at < w.to; at += cell {
		if i := int(at / cell); i < len(cells) && cells[i] > 0 {
			last = at + cell
		}
		longest = max(longest, at+cell-last)
	}
	return longest
}

// times lists, sorted, what of returns for the messages that were published in the
// window and that it is about.
func (r *record) times(w window, of func(e *entry, now time.Duration) (d time.Duration, ok bool)) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.start)
	var list []time.Duration
	for i := range r.messages {
		e := &r.messages[i]
		if e.published < w.from || e.published >= w.to {
			continue
		}
		if d, ok := of(e, now); ok {
			list = append(list, d)
		}
	}
	slices.Sort(list)
	return list
}

// delay is the time from publish to answer. A message that was not accepted yet counts
// as answered now.
func (e *entry) delay(now time.Duration) time.Duration {
	if e.accepted {
		now = e.answered
	}
	return now - e.published
}

// delays are those of messages.
func (r *record) delays(w window, of func(e *entry) bool) []time.Duration {
	return r.times(w, func(e *entry, now time.Duration) (time.Duration, bool) { return e.delay(now), of(e) })
}

// waits are the times from publish to the begin of the call. A message that was
// not accepted yet waits still.
func (r *record) waits(w window, of func(e *entry) bool) []time.Duration {
	return r.times(w, func(e *entry, now time.Duration) (time.Duration, bool) {
		if e.accepted {
			now = e.begun
		}
		return now - e.published, of(e)
	})
}

// delivered returns the share of messages that were accepted, and the most calls
// that were made for one.
func (r *record) delivered(of func(e *entry) bool) (share float64, mostCalls, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, accepted := 0, 0
	for i := range r.messages {
		e := &r.messages[i]
		if !of(e) {
			continue
		}
		all++
		if e.accepted {
			accepted++
		}
		calls += int(e.calls)
		mostCalls = max(mostCalls, int(e.calls))
	}
	return float64(accepted) / float64(max(all, 1)), mostCalls, calls
}

// quantile of a sorted list; 0 of an empty one.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
