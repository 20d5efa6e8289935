package limit

import "time"

// slidingLog keeps the time of every counted call and admits a call when fewer
// than `limit` were counted in the last W, that is in (now − W, now]. It is
// exact, at the price of 8 bytes × limit. With refused calls counting, a
// caller is admitted again only when the limit-th last call of any kind is W
// ago.
type slidingLog struct {
	width        int64
	countRefused bool
	times        []int64 // ring of the latest counted calls
	head         int     // oldest of them
	n            int
	last         int64
}

func newSlidingLog(c Config) *slidingLog {
	return &slidingLog{width: c.Window.Microseconds(), countRefused: c.CountRefused, times: make([]int64, c.Limit)}
}

func (l *slidingLog) Allow(now time.Time) bool {
	l.last = max(l.last, now.UnixMicro())
	ok := l.n < len(l.times) || l.last-l.times[l.head] >= l.width
	if ok || l.countRefused {
		l.push(l.last)
	}
	return ok
}

func (l *slidingLog) push(t int64) {
	if l.n < len(l.times) {
		l.times[(l.head+l.n)%len(l.times)] = t
		l.n++
		return
	}
	l.times[l.head] = t
	l.head = (l.head + 1) % len(l.times)
}

func (l *slidingLog) Usage(now time.Time) float64 {
	t := max(l.last, now.UnixMicro())
	live := 0
	for i := l.n - 1; i >= 0 && t-l.times[(l.head+i)%len(l.times)] < l.width; i-- {
		live++
	}
	return float64(live) / float64(len(l.times))
}

func (l *slidingLog) Wait(now time.Time) time.Duration {
	if l.n < len(l.times) {
		return 0
	}
	t := max(l.last, now.UnixMicro())
	return micros(max(0, l.times[l.head]+l.width-t))
}

// SetLimit keeps the newest calls that fit. A longer ring begins with what the
// shorter one held: older calls than those were not remembered, and none of
// them was admitted within W.
func (l *slidingLog) SetLimit(_ time.Time, limit int) {
	times := make([]int64, limit)
	keep := min(l.n, limit)
	for i := range keep {
		times[i] = l.times[(l.head+l.n-keep+i)%len(l.times)]
	}
	l.times, l.head, l.n = times, 0, keep
}
