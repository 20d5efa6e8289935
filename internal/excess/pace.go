package excess

import (
	"math"
	"time"
)

const (
	// headroom is the part of a limit that is asked for. A call may be late by the rest
	// of a second, and the next still on time. Together that is 0.985 × 1.015 of a
	// limit, less than all of it: one call more in a second is never too many.
	headroom  = 0.985
	tolerance = 15 * time.Millisecond
	// doubling is the time in which the pace grows from a limit to its double. From
	// headroom of it to the limit it is ∜0.015 of that, 1.2 s: one window of the
	// platform's ends before more is asked for.
	doubling = 3200 * time.Millisecond
	// dear is the part of a doubling's calls that refusals may cost. Growth that cost
	// more takes longer next time, by as much, up to slowest: a raised limit is found
	// within half a minute.
	dear    = 0.04
	slowest = 20 * time.Second
	// half of a limit is the least that a refusal leaves. A far lower one is found in a
	// few steps, and a stray refusal of a page that sends little costs it a second.
	half = 0.5
	// shutPart is the part of the time for which nothing passed after which a closed
	// page is asked, and dayPause the longest such pause. So it opens a tenth of that
	// time late at most, and is asked once a minute while it is shut for a day.
	shutPart = 10
	dayPause = time.Minute
	// answerTime is the time for which the answer to the call is waited for that asks after
	// a pause that the platform asked for: longer than nearly all answers take.
	answerTime = 3 * time.Second
)

// pace is the learned speed of one page.
type pace struct {
	top    float64   // as configured, with headroom
	limit  float64   // calls a second that are believed to be possible; top at most
	phase  float64   // on the curve: the pace is limit × curve(phase)
	own    bool      // growth beyond the limit caused the latest refusal
	cost   float64   // calls that the latest such refusals took
	burst  float64   // calls that may be sent at once
	due    time.Time // when the next call is, by the pace
	cut    time.Time // the refusal of a call sent before it is no news
	sent   time.Time // when the latest call that passed was sent; before cut: closed
	passed time.Time // when the latest answer came that a call passed
	asked  time.Time // until then the platform asked for no calls
	full   time.Time // when an answer told last that the limit is nearly used
	sends  sends
}

// curve is the pace at a phase, in limits. The fourth power is flatter at the limit
// than CUBIC's third, and steeper far from it: fewer refusals, and sooner back.
func curve(phase float64) float64 { return 1 + phase*phase*phase*math.Abs(phase) }

// phaseOf is the inverse of curve.
func phaseOf(share float64) float64 {
	return math.Copysign(math.Sqrt(math.Sqrt(math.Abs(share-1))), share-1)
}

// begin makes a pace ready for its first call. An owner before it may just have sent
// a burst.
func (p *pace) begin(now, since time.Time) {
	p.sends.epoch = now.Add(-time.Second)
	p.due, p.cut, p.sent, p.passed = now, p.sends.epoch, now, now
	p.restart()
	if now.Sub(since) < time.Second {
		p.sends.count(since, math.Ceil(p.top))
	}
}

// learned reports whether there is anything to remember of a page. One that took nothing
// shows no limit.
func (p *pace) learned() bool {
	return p.cut.Sub(p.passed) <= time.Second && (p.limit < p.top || p.burst < p.top)
}

func (p *pace) open() bool { return !p.sent.Before(p.cut) }

func (p *pace) rate() float64 { return min(p.top, p.limit*curve(p.phase)) }

// relimit takes another configured limit. A lower one that was learned holds.
func (p *pace) relimit(now time.Time, top float64) {
	was := p.top
	if top == was {
		return
	}
	p.top = top
	if p.burst >= was || p.burst > top {
		p.burst = top
	}
	if p.limit < was && p.limit <= top {
		return
	}
	p.limit = top
	if !p.sends.epoch.IsZero() {
		p.due = later(p.due, now.Add(p.sends.room(now, top)))
		p.restart()
	}
}

// restart begins the curve just below the limit, or at the configured one.
func (p *pace) restart() {
	if p.phase = phaseOf(headroom); p.limit >= p.top {
		p.phase = 0
	}
}

// wait returns how long the next call must wait, and whether it then goes ahead of the
// pace: where no lower limit is known, it may when the last second has room.
func (p *pace) wait(now time.Time) (wait time.Duration, ahead bool) {
	if wait = p.due.Sub(now); wait > 0 && p.open() && p.rate() >= p.top {
		if sooner := p.sends.room(now, p.burst); sooner < wait {
			return sooner, true
		}
	}
	return max(0, wait), false
}

// send takes the place of a call.
func (p *pace) send(now time.Time) {
	gap := seconds(1 / p.rate())
	switch idle := now.Sub(p.due); {
	case !p.open():
		if gap = max(gap, p.patience(now)); p.asked.After(p.cut) {
			gap = max(gap, answerTime)
		}
	case idle > time.Second: // the reached limit holds, and nobody asked whether the page is shut
		p.passed = now
		p.limit = max(p.limit, p.rate())
		p.restart()
	case idle <= tolerance && now.Sub(p.full) > fullTime: // the message waited
		p.grow(gap)
	}
	p.due = later(p.due, now.Add(-tolerance)).Add(gap)
	p.sends.count(now, 1)
}

// grow moves the pace along its curve. Up to twice the limit that takes longer after a
// dear refusal; beyond, the limit was raised. Twice the configured limit shows that it
// holds: by then a platform that saves calls for later has refused some.
func (p *pace) grow(by time.Duration) {
	length := doubling
	if p.phase >= phaseOf(headroom) && p.phase < 1 {
		length = max(length, min(slowest, seconds(p.cost/(dear*p.limit))))
	}
	p.phase += by.Seconds() / length.Seconds()
	if p.limit*curve(p.phase) >= 2*p.top {
		p.limit, p.phase, p.cost = p.top, 0, 0
	}
}

// patience returns the time between the calls of a closed page.
func (p *pace) patience(now time.Time) time.Duration {
	return min(now.Sub(p.passed)/shutPart, dayPause)
}

// accepted tells that a call went through.
func (p *pace) accepted(now time.Time, t Permit) {
	p.passed = now
	if t.ahead { // one call more for each burst, as a TCP window grows
		p.burst = min(p.top, p.burst+1/p.burst)
	}
	silent := t.at.Sub(later(p.sent, p.asked)) > time.Second
	if !p.open() && (silent || t.at.After(p.cut)) {
		if !silent {
			p.limit = max(1, min(p.top, p.rate()/headroom))
			p.restart()
		}
		p.cut = t.at
		next := later(p.asked, now.Add(max(seconds(1/p.rate()), p.sends.room(now, p.rate()))))
		if p.due.After(next) {
			p.due = next
		}
	}
	p.sent = later(p.sent, t.at)
}

// refused tells that a call was refused.
func (p *pace) refused(now time.Time, t Permit) {
	p.sends.refused(t.at)
	passed := p.sends.second(t.at)
	switch {
	case now.Sub(t.at) > sendsKept-time.Second: // sends before it are forgotten
		return
	case t.ahead: // the burst was too much, not the pace
		p.burst = max(1, min(p.burst, headroom*passed))
		return
	case t.at.After(p.cut):
		if p.open() {
			p.close(passed)
		}
		p.cut = now
	}
	if p.own {
		p.cost++
	}
	switch {
	case !p.open():
		p.phase = max(phaseOf(half), min(p.phase, phaseOf(headroom*passed/p.limit)))
		p.due = later(p.due, now.Add(max(p.sends.room(now, p.rate()), p.patience(now))))
	case !p.own && p.phase <= 0: // the limit that the page was opened with is too high
		p.limit = max(1, headroom*p.limit, min(p.limit, passed))
	}
}

// close takes the limit from the sends in the second before a refused call.
func (p *pace) close(passed float64) {
	was := max(p.limit, p.rate())
	if p.own = p.phase > 0 && p.limit < p.top; p.own {
		p.cost = 0
	}
	p.limit, p.phase = max(1, half*was, min(was, passed)), 0
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
