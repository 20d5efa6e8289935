package limit

import (
	"sort"
	"time"
)

// slidingLog keeps the time of every counted call. It admits a call when fewer
// than `limit` were counted in the last W, that is in (now − W, now]. It is
// exact, at the price of 8 bytes × the largest limit it ever had. With refused
// calls counting, a caller is admitted again only when the limit-th last call
// of any kind is W ago.
type slidingLog struct {
	width        int64
	limit        int
	countRefused bool
	times        []int64 // ring of the latest counted calls, of limit or more
	head         int     // oldest of them
	n            int
	last         int64
}

func newSlidingLog(c Config) *slidingLog {
	return &slidingLog{
		width: c.Window.Microseconds(), limit: c.Limit, countRefused: c.CountRefused, times: make([]int64, c.Limit),
	}
}

// at returns the time of the i-th oldest call in the ring.
func (l *slidingLog) at(i int) int64 { return l.times[(l.head+i)%len(l.times)] }

// free returns the earliest time at which a call is admitted: W after the
// limit-th newest one.
func (l *slidingLog) free() (t int64, always bool) {
	if l.n < l.limit {
		return 0, true
	}
	return l.at(l.n-l.limit) + l.width, false
}

func (l *slidingLog) Allow(now time.Time) bool {
	l.last = max(l.last, now.UnixMicro())
	t, ok := l.free()
	ok = ok || l.last >= t
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
	// The times ascend: the first that lies within W.
	first := sort.Search(l.n, func(i int) bool { return t-l.at(i) < l.width })
	return float64(l.n-first) / float64(l.limit)
}

func (l *slidingLog) Wait(now time.Time) time.Duration {
	free, always := l.free()
	if always {
		return 0
	}
	return micros(max(0, free-max(l.last, now.UnixMicro())))
}

// SetLimit makes the ring longer where it must, and never shorter. A limit that
// is lowered and raised again within W must not forget the calls before.
func (l *slidingLog) SetLimit(_ time.Time, limit int) {
	l.limit = limit
	if limit <= len(l.times) {
		return
	}
	times := make([]int64, limit)
	for i := range l.n {
		times[i] = l.at(i)
	}
	l.times, l.head = times, 0
}
