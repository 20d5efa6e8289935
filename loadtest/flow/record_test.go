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
	pages    map[int]*pageRecord
}

// entry is one message; its index is in its id.
type entry struct {
	page, to  int32
	media     bool
	published time.Duration // since start
	ideal     time.Duration // how long it waits at best
	accepted  bool
	begun     time.Duration // when the call began that was accepted first
	answered  time.Duration // when the answer to it came; until then when it was accepted
	times     uint8         // accepted
	calls     uint16        // made for it
}

// pageRecord counts accepted calls of one page by cells.
type pageRecord struct {
	accepted []int32
}

func newRecord() *record { return &record{start: time.Now(), pages: make(map[int]*pageRecord)} }

// enter opens an entry and returns the message's id. ideal is how long it must
// wait for its page's limit at best.
func (r *record) enter(page, to int, media bool, ideal time.Duration) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, entry{
		page: int32(page), to: int32(to), media: media, published: time.Since(r.start), ideal: ideal,
	})
	return "m" + strconv.Itoa(len(r.messages)-1)
}

// index returns the entry that an id names. ok is false for ids of others.
func index(id string) (i int, ok bool) {
	if len(id) < 2 || id[0] != 'm' {
		return 0, false
	}
	i, err := strconv.Atoi(id[1:])
	return i, err == nil
}

func (r *record) pageLocked(page int) *pageRecord {
	p := r.pages[page]
	if p == nil {
		p = new(pageRecord)
		r.pages[page] = p
	}
	return p
}

func count(cells []int32, at time.Duration) []int32 {
	i := int(at / cell)
	if i >= len(cells) {
		cells = append(cells, make([]int32, i+1-len(cells))...)
	}
	cells[i]++
	return cells
}

// accept enters that the platform took a call.
func (r *record) accept(ids string) {
	now := time.Since(r.start)
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, id := range strings.Fields(ids) {
		i, ok := index(id)
		if !ok {
			continue
		}
		e := &r.messages[i]
		p := r.pageLocked(int(e.page))
		if k == 0 {
			p.accepted = count(p.accepted, now)
		}
		if e.times++; e.times > 1 {
			continue
		}
		e.accepted, e.answered = true, now
	}
}

// call enters a call that began and has ended.
func (r *record) call(ids string, begun time.Duration, sent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range strings.FieldsSeq(ids) {
		i, ok := index(id)
		if !ok {
			continue
		}
		e := &r.messages[i]
		e.calls++
		if sent && e.times == 1 {
			e.begun, e.answered = begun, time.Since(r.start)
		}
	}
}

// window is a time of the run, since its start.
type window struct{ from, to time.Duration }

func (w window) seconds() float64 { return (w.to - w.from).Seconds() }

func sum(cells []int32, w window) (n int) {
	for i := int(w.from / cell); i < int(w.to/cell) && i < len(cells); i++ {
		n += int(cells[i])
	}
	return n
}

// accepted counts the acceptances of one page in a window.
func (r *record) accepted(page int, w window) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sum(r.pageLocked(page).accepted, w)
}

// back is how long after from the page was sent at least rate a second again:
// the end of the last second, within the longest, in which it was less.
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
	cells := r.pageLocked(page).accepted
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

// delays are the times from publish to answer, beyond the ideal. A message that
// was not accepted yet counts as answered now.
func (r *record) delays(w window, of func(e *entry) bool) []time.Duration {
	return r.times(w, func(e *entry, now time.Duration) (time.Duration, bool) {
		at := e.answered
		if !e.accepted {
			at = now
		}
		return at - e.published - e.ideal, of(e)
	})
}

// waits are the times from publish to the begin of the call. A message that was
// not accepted yet waits still.
func (r *record) waits(w window, of func(e *entry) bool) []time.Duration {
	return r.times(w, func(e *entry, now time.Duration) (time.Duration, bool) {
		at := e.begun
		if !e.accepted {
			at = now
		}
		return at - e.published, of(e)
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
