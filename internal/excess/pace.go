package excess

import (
	"math"
	"time"
)

// The pace's constants. Rates are messages per second.
const (
	// headroom is the share of the configured limit that is asked for. Above it
	// limiters that look at a sliding second, and count refused calls, refuse a
	// tenth of all calls.
	headroom = 0.98
	// reach is how far above headroom a pace goes by itself, limiters
	// permitting: what is left is two messages in the second of the published
	// limit, one for each end of the second. It takes reachTime to get there, and
	// a refusal on the way ends it for restTime: a try costs a refusal or two.
	reach     = 0.993
	reachTime = 20 * time.Second
	restTime  = 5 * time.Minute
	calmAfter = 5 * time.Second
	// tolerance is the 2 % that headroom leaves of a second.
	tolerance = 20 * time.Millisecond
	// lateness is how much of its pace a sender makes up for when it was late
	// itself, not scheduled or collecting garbage, while messages waited.
	lateness = 100 * time.Millisecond
	// What one refusal takes off the pace: cutPart of it, a step of cutStep at
	// least, and cutShare of it at most, which is less for slow pages.
	cutPart  = 0.015
	cutStep  = 3.0
	cutShare = 0.3
	minPace  = 0.5
	// settle is how long after taking a page over no refusal cuts the pace: calls
	// of the sender before are still landing.
	settle = 2 * time.Second
	// A step finds out whether more is possible than at the last refusals. It
	// begins when none came for stepQuiet of pressure, longer by stepSlower after
	// each that was refused, up to stepQuietMost, and goes stepUp above the pace:
	// on a limit that stays, it costs two in a hundred of one second's calls. When
	// none is refused in stepTime, a window and some, and an answer's time, what is known of
	// the limit no longer holds, and the pace grows by leap in each leapTime.
	stepQuiet     = 500 * time.Millisecond
	stepSlower    = 1.25
	stepQuietMost = 8 * time.Second
	stepUp        = 1.05
	stepTime      = 1200 * time.Millisecond
	leap          = 1.5
	leapTime      = 300 * time.Millisecond
	// measured is below which part of the pace what was accepted in the last
	// second is believed rather than the pace.
	measured = 0.95
	// catchUp is how fast the pace grows back to what was possible at the last
	// refusal, a share per second.
	catchUp = 0.5
	// The pause after refusals in a row: long enough for a call in flight to
	// land, short against the second of the published window.
	minPause = 20 * time.Millisecond
	maxPause = 320 * time.Millisecond
	// A page that is shut for longer, as by a quota of a day, is asked less often:
	// a tenth of that time later each time, so that its end is noticed as much
	// later at most, and once a minute at least.
	shutPart = 10
	dayPause = time.Minute
	// noBurst is how long after a refusal of its pace a page has no bursts.
	noBurst = 10 * time.Second
	// forget is how long a page may be idle before what is known of it goes, but
	// for its limit.
	forget = 10 * time.Second
)

// pace is the learned speed of one page. The zero value is not useful; newPace
// makes one.
type pace struct {
	limit   float64 // as configured
	top     float64 // never faster; from headroom to reach of the limit
	rate    float64
	ceiling float64 // what was possible at the last refusal; 0: no refusal says anything
	random  func() float64

	began       time.Time
	tat         time.Time     // theoretical arrival time: when the next send is due at the present rate
	waited      bool          // a message waited for tat: sending it late is this process's doing
	streak      int           // refusals in a row
	onset       time.Time     // end of the pause after the first of them: calls sent before were under way
	resume      time.Time     // end of the pause
	probing     bool          // the lone probe is out
	reopened    time.Time     // when the last probe that passed was sent
	lastRefusal time.Time     // that was not of a burst alone
	cut         time.Time     // when a refusal last changed the pace: calls from before say nothing new
	pressure    time.Duration // how long messages waited since, in all
	step        time.Duration // pressure at which a step above the ceiling began; 0: none did
	tries       int           // steps in a row that were refused
	rest        time.Time     // until then top stays
	lastPassed  time.Time     // when the last call was accepted
	rtt         time.Duration // how long answers take, a moving average
	lastSend    time.Time
	lastWait    time.Time // when a message last had to wait
	stepped     time.Time // when the rate last grew
	successes   meter
	window      window
	burst       time.Duration // how much of a second may be sent at once
}

func newPace(now time.Time, limit float64, l learned, random func() float64) pace {
	top := headroom * limit
	p := pace{
		limit: limit, top: top, rate: top, random: random,
		stepped: now, lastSend: now, tat: now, burst: l.burst,
		window: window{epoch: now}, successes: meter{epoch: now},
	}
	if l.rate > 0 {
		p.rate, p.ceiling, p.tries = l.rate, l.rate, l.tries
	}
	return p
}

// wait is how long the next message must wait.
func (p *pace) wait(now time.Time) time.Duration {
	p.grow(now)
	var w time.Duration
	switch {
	case p.probing: // its answer may take long
		w = max(p.resume.Sub(now), p.lastSend.Add(max(maxPause, seconds(1/p.limit))).Sub(now))
	case now.Before(p.resume):
		w = p.resume.Sub(now)
	default:
		w = p.tat.Sub(now)
		p.waited = p.waited || w > 0
	}
	w = max(0, w)
	if w > 0 {
		p.lastWait = now.Add(w) // it will have waited until then
	}
	return w
}

// send takes one message's place in the bucket, and reports whether its call is
// a probe. A page that was idle gets no credit for it: a limiter that looks at
// whole seconds would refuse the excess.
func (p *pace) send(now time.Time) (probe bool) {
	earliest := now
	if p.waited {
		earliest = now.Add(-lateness)
	}
	if p.tat.Before(earliest) {
		p.tat = earliest
	}
	p.tat = p.tat.Add(seconds(1 / p.rate))
	p.waited = p.waited && p.tat.Before(now) // still behind
	p.lastSend = now
	p.probing = p.streak > 1
	p.window.count(now)
	return p.probing
}

// accepted tells that a send went through.
func (p *pace) accepted(now time.Time, t Permit) {
	p.successes.add(now)
	p.lastPassed = now
	p.rtt += (now.Sub(t.at) - p.rtt) / 16
	if t.probe || t.at.After(p.onset) {
		p.streak, p.probing = 0, false
	}
	if t.probe {
		p.reopened = t.at
	}
}

// refused tells that a send was refused.
func (p *pace) refused(now time.Time, t Permit) {
	if t.probe && !t.at.After(p.reopened) {
		return // another probe passed meanwhile
	}
	p.grow(now)
	first := p.streak == 0
	p.rtt += (now.Sub(t.at) - p.rtt) / 16
	// Where answers take long a probe would cost more than it saves, as long as
	// some calls pass.
	row := p.streak == 1 && !t.at.Before(p.onset) && (p.rtt < maxPause || now.Sub(p.lastPassed) > time.Second+p.rtt)
	if t.probe || first || row {
		p.streak++
	}
	pause := min(minPause<<min(p.streak-1, 4), maxPause)
	if p.streak > 1 {
		pause = max(pause, min(now.Sub(p.onset)/shutPart, dayPause))
	}
	p.resume = now.Add(time.Duration(float64(pause) * (0.8 + 0.4*p.random())))
	if first {
		p.onset = p.resume
	}
	if p.tat.Before(p.resume) { // the pause is not made up for
		p.tat, p.waited = p.resume, false
	}
	p.lastRefusal = now
	if base := headroom * p.limit; p.top > base {
		p.top, p.rest = base, now.Add(restTime)
	}
	p.land(t)
	switch {
	case t.probe:
	case now.Sub(p.began) < settle: // another's calls, not this pace, used up the limit
	case t.at.Before(p.cut): // the pace was cut for it
		if p.step == 0 {
			p.pressure = 0
		}
	case t.ahead: // the burst was too much, not the pace
	default:
		p.lower(now)
	}
}

// lower takes the pace below what was just refused.
func (p *pace) lower(now time.Time) {
	known, got := p.rate, p.successes.lastSecond(now)
	if p.step > 0 { // by as much as passed the ceiling was too low
		known = min(known, max(p.ceiling, got))
		p.tries++
	}
	if got < measured*known {
		known = max(got, known/4)
	}
	p.ceiling = known
	p.rate = max(minPace, known-min(max(cutStep, cutPart*known), cutShare*known))
	p.cut, p.pressure, p.step = now, 0, 0
}

// land ends a send whose result says nothing about the pace, too.
func (p *pace) land(t Permit) {
	if t.probe {
		p.probing = false
	}
}

// grow brings the pace up to now.
func (p *pace) grow(now time.Time) {
	dt := min(now.Sub(p.stepped), time.Second)
	if dt <= 0 {
		return
	}
	p.stepped = now
	if now.Sub(p.lastWait) > time.Second || p.streak > 1 {
		return // nobody waits, or there is nothing to learn
	}
	p.pressure += dt
	switch {
	case p.rate >= p.top:
		p.ceiling, p.step, p.tries = 0, 0, 0
		if p.pressure > calmAfter && now.After(p.rest) {
			p.top = min(reach*p.limit, p.top+(reach-headroom)*p.limit*dt.Seconds()/reachTime.Seconds())
			p.rate = p.top
		}
	case p.step > 0 && p.pressure-p.step >= stepTime+p.rtt: // far more is possible
		p.rate = min(p.top, p.rate*math.Pow(leap, dt.Seconds()/leapTime.Seconds()))
	case p.step > 0:
	case p.pressure >= p.quiet():
		p.step = p.pressure
		p.rate = max(p.rate, min(p.top, p.ceiling*stepUp))
	case p.rate < headroom*p.ceiling:
		p.rate = min(p.top, p.rate*math.Exp(catchUp*dt.Seconds()))
	}
}

// quiet is how long nothing must be refused before a step.
func (p *pace) quiet() time.Duration {
	return min(stepQuietMost, time.Duration(float64(stepQuiet)*math.Pow(stepSlower, float64(p.tries))))
}

// calm reports whether bursts may go ahead of the pace: it is all that was
// configured, nothing was refused for a while, and what others sent before it
// began has had its time.
func (p *pace) calm(now time.Time) bool {
	return p.streak == 0 && !p.probing && p.rate >= headroom*p.limit &&
		now.Sub(p.began) >= burstTime && (p.lastRefusal.IsZero() || now.Sub(p.lastRefusal) >= noBurst)
}

// idle reports whether nothing was learned or wanted for long enough to forget
// the page.
func (p *pace) idle(now time.Time) bool {
	return now.Sub(p.lastSend) >= forget && now.Sub(p.lastWait) >= forget && now.Sub(p.lastRefusal) >= forget
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// meter counts what happened in the last second, to a tenth.
type meter struct {
	epoch time.Time
	slots [10]int
	at    int64 // the tenth that slots[at%10] counts
}

func (m *meter) add(now time.Time) {
	m.advance(now)
	m.slots[m.at%10]++
}

func (m *meter) lastSecond(now time.Time) float64 {
	m.advance(now)
	n := 0
	for _, s := range m.slots {
		n += s
	}
	return float64(n)
}

func (m *meter) advance(now time.Time) {
	at := int64(now.Sub(m.epoch) / (100 * time.Millisecond))
	for i := max(m.at+1, at-9); i <= at; i++ {
		m.slots[i%10] = 0
	}
	m.at = max(m.at, at)
}
