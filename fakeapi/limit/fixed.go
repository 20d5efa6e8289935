package limit

import "time"

// fixedWindow admits the first `limit` calls of every window [k·W, (k+1)·W).
// It is the cheapest rule and has a known hole. A caller may send `limit` calls
// at the end of one window and `limit` at the start of the next. That is
// 2 × limit within any small time around the boundary.
type fixedWindow struct {
	grid
	limit int64
	index int64
	n     int64 // admitted in window index
}

// window returns the window that now lies in and how many calls it admitted.
func (l *fixedWindow) window(now time.Time) (index, elapsed, n int64) {
	index, elapsed = l.at(now.UnixMicro())
	if index < l.index {
		return l.index, 0, l.n
	}
	if index == l.index {
		return index, elapsed, l.n
	}
	return index, elapsed, 0
}

func (l *fixedWindow) Allow(now time.Time) bool {
	l.index, _, l.n = l.window(now)
	if l.n >= l.limit {
		return false
	}
	l.n++
	return true
}

func (l *fixedWindow) Usage(now time.Time) float64 {
	_, _, n := l.window(now)
	return float64(n) / float64(l.limit)
}

func (l *fixedWindow) Wait(now time.Time) time.Duration {
	_, elapsed, n := l.window(now)
	if n < l.limit {
		return 0
	}
	return micros(l.width - elapsed)
}

func (l *fixedWindow) SetLimit(_ time.Time, limit int) { l.limit = int64(limit) }
