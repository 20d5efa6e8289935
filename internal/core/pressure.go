package core

import (
	"sync"
	"time"

	"chatclub/internal/fanout"
	"chatclub/internal/message"
)

const (
	// paceTime is the time for which a dispatcher's report of a page's pace is believed. While
	// a page sends half of its limit or more, there is one every second.
	paceTime = 3 * time.Second
	// wayTime is the time for which a report may not know of messages that core published:
	// they are on their way to the dispatcher.
	wayTime = 500 * time.Millisecond
)

// pressure holds what waits for each page's limit: what core made, and of texts what the
// page's dispatcher tells. By it members keep to their shares. Safe for concurrent use.
type pressure struct {
	limits *Limits

	mu    sync.Mutex
	lines map[line]*bucket
	swept time.Time
}

// line names the messages of one page and class.
type line struct {
	page  string
	class message.Class
}

// bucket is what waits of a line: a leaky bucket, kept as the moment when it is empty.
type bucket struct {
	pace  float64   // messages per second: as told, else the limit; 0: neither is known
	empty time.Time // when all of it will have been sent
	told  time.Time // when the last report came
	added []added   // by core, within keepTime: a report does not know of the last ones
}

func newPressure(limits *Limits) *pressure {
	return &pressure{limits: limits, lines: make(map[line]*bucket)}
}

// tell takes a dispatcher's report, made at that time: how many seconds a page's texts wait
// for its limit, and how many it sends a second. An older dispatcher tells no pace.
func (p *pressure) tell(now, at time.Time, page string, wait, pace float64) {
	if !(wait >= 0 && wait < maxWait.Seconds() && pace > 0) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.lineLocked(now, line{page, message.ClassText})
	b.pace, b.told = pace, now
	made := b.since(at.Add(-wayTime), time.Time{})
	b.empty = b.since(at, at.Add(time.Duration(wait*float64(time.Second))))
	if b.empty.Before(made) {
		b.empty = made
	}
}

// add adds messages that core has published.
func (p *pressure) add(now time.Time, page string, class message.Class, messages int) {
	if messages == 0 {
		return
	}
	limit := p.limits.Of(page).Of(string(class))
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.lineLocked(now, line{page, class})
	b.forget(now, limit)
	old := 0
	for old < len(b.added) && now.Sub(b.added[old].at) > keepTime {
		old++
	}
	a := added{now, messages}
	b.added = append(b.added[old:], a)
	b.push(a)
}

// isOn reports whether the page is pressed: so many further messages of a class would wait
// for longer than one event's may take.
func (p *pressure) isOn(now time.Time, page string, class message.Class, messages int) bool {
	limit := p.limits.Of(page).Of(string(class))
	most := fanout.TextTime
	if class == message.ClassMedia {
		most = fanout.MediaTime
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.lineLocked(now, line{page, class})
	b.forget(now, limit)
	return max(0, b.empty.Sub(now))+b.time(messages) > most
}

// lineLocked returns a line's bucket. Once a minute it forgets those in which nothing is.
func (p *pressure) lineLocked(now time.Time, k line) *bucket {
	if now.Sub(p.swept) >= keepTime {
		p.swept = now
		for k, b := range p.lines {
			n := len(b.added)
			if !b.empty.After(now) && now.Sub(b.told) > paceTime && (n == 0 || now.Sub(b.added[n-1].at) > keepTime) {
				delete(p.lines, k)
			}
		}
	}
	b := p.lines[k]
	if b == nil {
		b = new(bucket)
		p.lines[k] = b
	}
	return b
}

// forget has a line send at its limit once its last report is too old.
func (b *bucket) forget(now time.Time, limit float64) {
	if now.Sub(b.told) > paceTime {
		b.pace = limit
	}
}

// time returns the time that so many messages take, none where no pace is known.
func (b *bucket) time(messages int) time.Duration {
	if b.pace <= 0 {
		return 0
	}
	return time.Duration(float64(messages) / b.pace * float64(time.Second))
}

// push puts messages behind those that wait.
func (b *bucket) push(a added) {
	if b.empty.Before(a.at) {
		b.empty = a.at
	}
	b.empty = b.empty.Add(b.time(a.texts))
}

// since returns when all is sent of what waits until then, and of what core added after at.
func (b *bucket) since(at, until time.Time) time.Time {
	sum := bucket{pace: b.pace, empty: until}
	for _, a := range b.added {
		if a.at.After(at) {
			sum.push(a)
		}
	}
	return sum.empty
}
