package limit

import "time"

// slidingWindow estimates the calls of the last W from two fixed windows: at
// the share e of the present window,
//
//	estimate = previous × (1 − e) + present
//
// and admits while estimate + 1 ≤ limit. Cloudflare published the rule in 2017:
// "How we built rate limiting capable of scaling to millions of domains". It
// assumes that the previous window's calls were even. When they
// came late in it, nearly 2 × limit may still pass within one W.
type slidingWindow struct {
	grid
	limit        int64
	countRefused bool
	index        int64
	prev, cur    int64 // counted in windows index−1 and index
}

// window returns the window that now lies in, and the calls counted in the one
// before it and in it.
func (l *slidingWindow) window(now time.Time) (index, elapsed, prev, cur int64) {
	index, elapsed = l.at(now.UnixMicro())
	switch {
	case index < l.index:
		return l.index, 0, l.prev, l.cur
	case index == l.index:
		return index, elapsed, l.prev, l.cur
	case index == l.index+1:
		return index, elapsed, l.cur, 0
	}
	return index, elapsed, 0, 0
}

func (l *slidingWindow) Allow(now time.Time) bool {
	var elapsed int64
	l.index, elapsed, l.prev, l.cur = l.window(now)
	ok := l.prev*(l.width-elapsed)+(l.cur+1)*l.width <= l.limit*l.width
	if ok || l.countRefused {
		// Far above the limit a higher count makes no difference, and the product
		// must not overflow.
		l.cur = min(l.cur+1, 2*maxLimit)
	}
	return ok
}

func (l *slidingWindow) Usage(now time.Time) float64 {
	_, elapsed, prev, cur := l.window(now)
	estimate := float64(prev)*float64(l.width-elapsed)/float64(l.width) + float64(cur)
	return estimate / float64(l.limit)
}

func (l *slidingWindow) Wait(now time.Time) time.Duration {
	_, elapsed, prev, cur := l.window(now)
	// A call is admitted from the elapsed at which
	// prev × (W − e) ≤ (limit − cur − 1) × W.
	if room := l.limit - cur - 1; room >= 0 {
		if prev <= room {
			return 0
		}
		return micros(max(0, l.width-room*l.width/prev-elapsed))
	}
	// It is not admitted in this window. In the next one prev is cur and cur is 0.
	next := l.width - elapsed
	if room := l.limit - 1; cur > room {
		next += l.width - room*l.width/cur
	}
	return micros(next)
}

func (l *slidingWindow) SetLimit(_ time.Time, limit int) { l.limit = int64(limit) }
