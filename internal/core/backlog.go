package core

import (
	"sync"
	"time"

	"chatclub/internal/rooms"
)

const (
	// staleTime is the time for which a dispatcher's report about a page is believed. It
	// reports once a second while messages wait, and a page whose dispatcher is gone has
	// another one by then.
	staleTime = 15 * time.Second
	// keepTime is the longest time on its way, behind a page's events, of a report that
	// is still right.
	keepTime = time.Minute
	// maxWait bounds a dispatcher's report: a message waits for less, or is too old.
	maxWait = 24 * time.Hour
	// forgetTime is the time for which core remembers that a room was not sent
	// messages, until the room can be told.
	forgetTime = time.Hour
	// overTime is the time without a message left out after which a room is told how
	// many were left out. tellTime is the longest time without that notice, which costs
	// as much as a message.
	overTime = 5 * time.Second
	tellTime = time.Minute
)

// Backlog holds the waiting texts of each page where they wait for long, as its dispatcher
// tells, and as core adds to them. By it a message is late before it is copied. The load
// test plays it beside other ways against overload. Safe for concurrent use.
type Backlog struct {
	mu    sync.Mutex
	pages map[string]*waiting
	left  map[rooms.RoomKey]leftOut
	swept time.Time
}

// waiting is the backlog of one page.
type waiting struct {
	rate  float64   // messages per second
	empty time.Time // when all of it will have been sent
	told  time.Time // when the report came; zero: none says that messages wait
	added []added   // by core, within keepTime: a report does not know of the last ones
}

// added is texts that core has published.
type added struct {
	at    time.Time
	texts int
}

// leftOut is the messages that a room was not sent, because they would have come late.
type leftOut struct {
	events, copies int
	first, last    time.Time
}

// NewBacklog returns one in which nothing waits.
func NewBacklog() *Backlog {
	return &Backlog{pages: make(map[string]*waiting), left: make(map[rooms.RoomKey]leftOut)}
}

// Tell takes a dispatcher's report, made at that time. Without a rate the page is not
// waited for.
func (b *Backlog) Tell(now, at time.Time, page string, messages int, rate float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweepLocked(now)
	w := b.pageLocked(page)
	wait := float64(messages) / rate
	if !(messages >= 0 && rate > 0 && wait < maxWait.Seconds()) { // NaN is none of it
		w.told = time.Time{}
		return
	}
	w.rate, w.empty, w.told = rate, at.Add(time.Duration(wait*float64(time.Second))), now
	for _, a := range w.added {
		if a.at.After(at) {
			w.push(a)
		}
	}
	if !w.empty.After(now) {
		w.told = time.Time{}
	}
}

func (b *Backlog) pageLocked(page string) *waiting {
	w := b.pages[page]
	if w == nil {
		w = new(waiting)
		b.pages[page] = w
	}
	return w
}

// wait returns how long the last of so many further messages waits for its call.
func (b *Backlog) wait(now time.Time, page string, messages int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.pages[page]
	if w == nil || now.Sub(w.told) > staleTime {
		return 0
	}
	return max(0, w.empty.Sub(now)) + w.time(messages)
}

// IsLate reports whether the last of so many further texts would come later than within
// after it was written, because its page has more than it can send. No text is never late.
func (b *Backlog) IsLate(now, written time.Time, page string, texts int, within time.Duration) bool {
	wait := b.wait(now, page, texts)
	return texts > 0 && wait > 0 && now.Sub(written)+wait > within
}

// time returns the time that so many messages take.
func (w *waiting) time(messages int) time.Duration {
	return time.Duration(float64(messages) / w.rate * float64(time.Second))
}

// push puts texts behind those that wait.
func (w *waiting) push(a added) {
	if w.empty.Before(a.at) {
		w.empty = a.at
	}
	w.empty = w.empty.Add(w.time(a.texts))
}

// Add adds texts that core has published.
func (b *Backlog) Add(now time.Time, page string, texts int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweepLocked(now)
	w := b.pageLocked(page)
	old := 0
	for old < len(w.added) && now.Sub(w.added[old].at) > keepTime {
		old++
	}
	a := added{now, texts}
	w.added = append(w.added[old:], a)
	if !w.told.IsZero() {
		w.push(a)
	}
}

// leaveOut notes that a room is not sent a message, and reports whether it is the first one.
func (b *Backlog) leaveOut(now time.Time, room rooms.RoomKey, copies int) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.left[room]
	if first = l.events == 0; first {
		l.first = now
	}
	b.left[room] = leftOut{events: l.events + 1, copies: l.copies + copies, first: l.first, last: now}
	return first
}

// leftOut returns the messages left out since the room's last notice, if one is due.
func (b *Backlog) leftOut(now time.Time, room rooms.RoomKey) leftOut {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.left[room]
	if now.Sub(l.last) < overTime && now.Sub(l.first) < tellTime {
		return leftOut{}
	}
	return l
}

// told notes that a room was told.
func (b *Backlog) told(room rooms.RoomKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.left, room)
}

// sweepLocked forgets, once a minute, old entries.
func (b *Backlog) sweepLocked(now time.Time) {
	if now.Sub(b.swept) < time.Minute {
		return
	}
	b.swept = now
	for page, w := range b.pages {
		if n := len(w.added); now.Sub(w.told) > staleTime && (n == 0 || now.Sub(w.added[n-1].at) > keepTime) {
			delete(b.pages, page)
		}
	}
	for room, l := range b.left {
		if now.Sub(l.last) > forgetTime {
			delete(b.left, room)
		}
	}
}
