package dispatch

import (
	"cmp"
	"fmt"
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// report is what core was told last of a page's texts and limits. The zero value is none.
type report struct {
	at      time.Time
	waiting int            // messages that were ahead; 0: none waited for long
	late    bool           // they were late
	limits  message.Limits // of the page; zero: as of pages without their own
	since   time.Time      // the beginning of the second in which sent messages are counted
	sent    int64          // traffic.sent then
	calls   int64          // traffic.calls then
	perCall float64        // messages of one call, in the second before
}

const (
	// tellEvery is the interval between two reports on a page that is busy.
	tellEvery = time.Second
	// tellFrom is the wait from which on core is told of a page.
	tellFrom = 500 * time.Millisecond
	// busyPart is the part of its page's limit from which on texts make the page busy. Of a
	// page that sends less core knows what waits: what core made, at the limit. Of one that
	// sends more it does not, because joined texts go at more than the limit.
	busyPart = 0.5
	// personTexts is the number of texts to one person that count in what waits for a page:
	// one long message.
	personTexts = 10
	// tellAgain is the interval between two reports on a page with limits of its own: a core
	// that has started since does not know of them.
	tellAgain = 5 * time.Minute
)

// count counts what was sent in the last second, once that is over. It returns the messages a
// second, 0 before.
func (r *report) count(now time.Time, t *traffic) (rate float64) {
	d := now.Sub(r.since)
	if d < tellEvery {
		return 0
	}
	sent, calls := float64(t.sent-r.sent), float64(t.calls-r.calls)
	r.since, r.sent, r.calls, r.perCall = now, t.sent, t.calls, 1
	if calls > 0 {
		r.perCall = max(1, sent/calls)
	}
	return sent / d.Seconds()
}

// tellWaiting is the event that tells core what waits for a page, and the page's limits:
//
//   - with the first messages of a page that has limits of its own, then now and then, and
//     when they change;
//   - as soon as a message waits for long, then once a second or when twice as many wait,
//     and when none does any longer;
//   - once a second while the page is busy.
func (fs *forecasts) tellWaiting(now time.Time, k excess.Key, t *traffic, ahead int, still bool) (m queue.Message, ok bool) {
	f, r, limits, usual := &t.forecast, &t.forecast.report, fs.Limits(k.Page), fs.Limits("")
	limit := fs.limitsOf(k.Page).Of(k.Class)
	sent := r.count(now, t)
	wait, pace := fs.pressure(k, f, ahead, limit*max(1, r.perCall), still)
	e := message.Event{
		Kind: message.KindFeedback, Page: k.Page, Time: now.UnixMilli(), Reason: message.FeedbackWaiting, Limits: limits,
		ID:   message.FeedbackWaiting + "/" + digest(fmt.Sprintf("%s/%d", k.Page, now.UnixNano())),
		Wait: wait, Pace: pace,
	}
	late := f.after-f.latency >= tellFrom
	long := late || e.Wait >= tellFrom.Seconds()
	age := now.Sub(r.at)
	switch {
	case fs.NoFeedback:
		return m, false
	case limits != cmp.Or(r.limits, usual), limits != usual && age >= tellAgain, !long && r.waiting > 0:
	case long && (age >= tellEvery || ahead >= 2*r.waiting), age >= tellEvery && sent >= busyPart*limit:
	default:
		return m, false
	}
	if late {
		e.Waiting = ahead + int(f.rate*f.latency.Seconds()) // those in calls arrive before, too
	}
	if late || r.late {
		e.Rate = f.rate
	}
	r.at, r.waiting, r.late, r.limits = now, 0, late, limits
	if long {
		r.waiting = ahead
	}
	return fs.toCore(e)
}

// pressure returns how many seconds a text waits for its page, and how many texts the page
// sends a second, with as many in a call as in the last second. Texts that wait for earlier calls to their own people count only if they
// are many, and to many people: somebody who is slow makes nobody else wait.
func (fs *forecasts) pressure(k excess.Key, f *forecast, ahead int, limit float64, still bool) (wait, pace float64) {
	l := fs.pages.lines[k]
	if l == nil || ahead == 0 {
		return 0, limit
	}
	many := float64(ahead)
	if long := limit * tellFrom.Seconds(); many >= long {
		for _, r := range l.recipients {
			many -= float64(max(0, len(r.msgs)-personTexts))
		}
		if many >= long && f.rate > 0 && !still {
			pace = min(f.rate, limit)
			return many / pace, pace
		}
	}
	if still || len(l.ready) > 0 || l.spill != nil {
		return many / limit, limit
	}
	return 0, limit
}
