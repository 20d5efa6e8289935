package core

import (
	"sync"
	"time"

	"chatclub/internal/rooms"
)

const (
	// staleTime is how long what a dispatcher told of a page is believed. It tells it
	// once a second while messages wait, and a page whose dispatcher is gone has another
	// one by then.
	staleTime = 15 * time.Second
	// maxWait bounds what a dispatcher may tell: a message waits for less, or is too old.
	maxWait = 24 * time.Hour
	// forgetTime is how long it is kept that a room was not sent messages, until the
	// room can be told.
	forgetTime = time.Hour
	// overTime is how long nothing is left out before a room is told how much was, and
	// tellTime how long it is told nothing while that goes on: to tell it costs as much
	// as a message.
	overTime = 5 * time.Second
	tellTime = time.Minute
)

// backlog is the texts that wait of each page where they wait for long, as its dispatcher
// tells, and as core adds to them. Safe for concurrent use.
type backlog struct {
	mu    sync.Mutex
	pages map[string]*waiting
	left  map[rooms.RoomKey]leftOut
	swept time.Time
}

// waiting is the texts that wait of a page.
type waiting struct {
	rate  float64   // messages per second
	empty time.Time // when all of it will have been sent
	told  time.Time
}

// leftOut is the messages that a room was not sent, because they would have come late.
type leftOut struct {
	events, copies int
	first, last    time.Time
}

func newBacklog() *backlog {
	return &backlog{pages: make(map[string]*waiting), left: make(map[rooms.RoomKey]leftOut)}
}

// tell takes what a dispatcher tells. Without a rate the page is not waited for.
func (b *backlog) tell(now time.Time, page string, messages int, rate float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweepLocked(now)
	if wait := float64(messages) / rate; messages > 0 && rate > 0 && wait < maxWait.Seconds() {
		b.pages[page] = &waiting{rate: rate, empty: now.Add(time.Duration(wait * float64(time.Second))), told: now}
		return
	}
	delete(b.pages, page)
}

// wait returns how long the last of so many further messages waits for its call.
func (b *backlog) wait(now time.Time, page string, messages int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.pages[page]
	if w == nil || now.Sub(w.told) > staleTime {
		return 0
	}
	return max(0, w.empty.Sub(now)) + w.time(messages)
}

// time is what so many messages take.
func (w *waiting) time(messages int) time.Duration {
	return time.Duration(float64(messages) / w.rate * float64(time.Second))
}

// add adds messages that core has published.
func (b *backlog) add(now time.Time, page string, messages int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.pages[page]; w != nil {
		if w.empty.Before(now) {
			w.empty = now
		}
		w.empty = w.empty.Add(w.time(messages))
	}
}

// leaveOut notes that a room is not sent a message, and reports whether it is the first one.
func (b *backlog) leaveOut(now time.Time, room rooms.RoomKey, copies int) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.left[room]
	if first = l.events == 0; first {
		l.first = now
	}
	b.left[room] = leftOut{events: l.events + 1, copies: l.copies + copies, first: l.first, last: now}
	return first
}

// leftOut returns what a room was not sent since it was told last, if it is to be told now.
func (b *backlog) leftOut(now time.Time, room rooms.RoomKey) leftOut {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.left[room]
	if now.Sub(l.last) < overTime && now.Sub(l.first) < tellTime {
		return leftOut{}
	}
	return l
}

// told notes that a room was told.
func (b *backlog) told(room rooms.RoomKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.left, room)
}

// sweepLocked forgets, now and then, what is old.
func (b *backlog) sweepLocked(now time.Time) {
	if now.Sub(b.swept) < time.Minute {
		return
	}
	b.swept = now
	for page, w := range b.pages {
		if now.Sub(w.told) > staleTime {
			delete(b.pages, page)
		}
	}
	for room, l := range b.left {
		if now.Sub(l.last) > forgetTime {
			delete(b.left, room)
		}
	}
}
