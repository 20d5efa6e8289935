package excess

import (
	"math"
	"time"
)

// The owner's constants. Rates are messages per second.
const (
	// headroom is the share of the configured limit that is used. Above it,
	// limiters that look at a sliding second and count refused calls refuse a
	// tenth of all calls; see the package comment.
	headroom = 0.98
	// reach is how far above headroom an owner goes by itself, where the limiter
	// permits. It leaves two messages in the second of the published limit, one
	// for each end of the second. An owner takes reachTime to get there. A refusal
	// on the way ends it for restTime, because a try costs a refusal or two.
	reach     = 0.993
	reachTime = 20 * time.Second
	restTime  = 5 * time.Minute
	// lateness is how much of its pace an owner makes up for when it was late
	// itself, not scheduled or collecting garbage, while messages waited.
	lateness = 100 * time.Millisecond
	// One refusal takes cutPart off the pace, and a step of cutStep at least. It
	// takes cutShare of the pace at most, which is less for slow pages.
	cutPart  = 0.015
	cutStep  = 3.0
	cutShare = 0.3
	minPace  = 0.5
	// settle is how long after taking over no refusal cuts the pace: calls of
	// those who sent before are still landing.
	settle = 2 * time.Second
	// memoryTime is how fast the remembered pace follows the real one.
	memoryTime = 10 * time.Second
	// unlearn is how much of the remembered pace, above the present one, goes with
	// each new refusal. After one, three quarters of the way back is still fast.
	// After eight, a tenth is left, and growth is slow from there. The ceiling,
	// the pace at which refusals come, follows each cut as fast.
	unlearn = 0.25
	// The pace grows by slowGrowth (a share per second) near the remembered one,
	// by fastGrowth below it. When no refusal came for calmAfter, what was learned
	// is no longer true, and growth doubles every calmDouble. It doubles every
	// passedDouble when none came for passedAfter and the pace is past the
	// ceiling. It ends at maxGrowth.
	slowGrowth   = 0.005
	fastGrowth   = 0.03
	nearMemory   = 0.97
	maxGrowth    = 0.7
	calmAfter    = 5 * time.Second
	calmDouble   = time.Second
	passedBy     = 1.005
	passedAfter  = 2 * time.Second
	passedDouble = 500 * time.Millisecond
	// startGrowth is the growth after a refused probe, up to startUpTo of what is
	// remembered: e times as fast every 1.4 s. So a page that was refused
	// for a while is back within seconds. It ends with the next refusal.
	startGrowth = 0.7
	startUpTo   = 0.8
	// The pause after refusals in a row: long enough for a call in flight to
	// land, short against the second of the published window.
	minPause = 20 * time.Millisecond
	maxPause = 320 * time.Millisecond
	// A page that is refused for longer, as by a quota of a day, is asked less
	// often. Each time is a tenth of that time later, and a minute later at
	// most. So the end is noticed as much later at most.
	refusedPart = 10
	dayPause    = time.Minute
	// forget is how long a page may be idle before what was learned about it
	// goes.
	forget = 10 * time.Second
)

// pace is the learned speed of one page at its owner. The zero value is not
// useful; newPace makes one. Not safe for concurrent use.
type pace struct {
	limit  float64 // as configured
	top    float64 // never faster; from headroom to reach of the limit
	rate   float64
	memory float64 // the rate of the last memoryTime
	random func() float64

	began       time.Time
	tat         time.Time // when the next send is due at the present rate
	waited      bool      // a message waited for tat: sending it late is this process's doing
	streak      int       // refusals in a row
	onset       time.Time // end of the pause after the first of them: calls sent before were under way
	resume      time.Time // end of the pause
	probing     bool      // the lone probe is in flight
	starting    bool      // a probe was refused, and nothing sent since
	probeSent   time.Time // when that probe was: what was sent before says nothing new
	lastRefusal time.Time
	rest        time.Time // until then top stays
	ceiling     float64   // the rate at which refusals came, as far as it is known
	passed      time.Time // when the rate went past it with no refusal; zero: it did not
	lastSend    time.Time
	lastWait    time.Time // when a message last had to wait
	stepped     time.Time // when the rate last grew
	successes   meter
}

func newPace(now time.Time, limit float64, random func() float64) *pace {
	top := headroom * limit
	return &pace{
		limit: limit, top: top, rate: top, memory: top, random: random,
		began: now, stepped: now, lastSend: now,
		tat: now.Add(seconds(random() / top)),
	}
}

// wait returns how long the next message must wait. A negative answer means until
// the result of the probe in flight. It brings the pace up to now.
func (p *pace) wait(now time.Time) time.Duration {
	p.grow(now)
	var w time.Duration
	switch {
	case p.probing:
		w = -1
	case now.Before(p.resume):
		w = p.resume.Sub(now)
	default:
		w = max(0, p.tat.Sub(now))
		p.waited = p.waited || w > 0
	}
	if w != 0 {
		p.lastWait = now.Add(max(0, w)) // it will have waited until then
	}
	return w
}

// send counts one message; wait must have answered 0. A page that was idle gets
// no credit for it. Other replicas may have sent meanwhile, and a limiter that
// looks at whole seconds would refuse the rest.
func (p *pace) send(now time.Time) Permit {
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
	return Permit{at: now, probe: p.probing}
}

// accepted learns that a send went through.
func (p *pace) accepted(now time.Time, t Permit) {
	p.successes.add(now)
	if t.probe || t.at.After(p.lastRefusal) {
		p.streak = 0
	}
	p.land(t)
}

// refused learns that a send was refused.
func (p *pace) refused(now time.Time, t Permit) {
	p.grow(now)
	first := p.streak == 0
	if t.probe || first || p.streak == 1 && !t.at.Before(p.onset) {
		p.streak++
	}
	pause := min(minPause<<min(p.streak-1, 4), maxPause)
	if p.streak > 1 {
		pause = max(pause, min(now.Sub(p.onset)/refusedPart, dayPause))
	}
	p.resume = now.Add(time.Duration(float64(pause) * (0.8 + 0.4*p.random())))
	if first {
		p.onset = p.resume
		p.ceiling, p.passed = max(p.ceiling, p.rate), time.Time{}
	}
	p.lastRefusal = now
	if base := headroom * p.limit; p.top > base {
		p.top, p.rest = base, now.Add(restTime)
	}
	if first && now.Sub(p.began) >= settle {
		p.memory -= max(0, p.memory-p.rate) * unlearn
	}
	switch {
	case now.Sub(p.began) < settle: // others' calls, not this pace, used up the limit
	case t.probe:
		p.rate = max(minPace, min(p.rate, p.successes.lastSecond(now)))
		p.starting, p.probeSent = true, t.at
		p.ceiling = p.rate
	case t.at.Before(p.probeSent): // the probe has answered for it
	case t.ahead: // the burst was too much, not the pace
	default:
		p.starting = false
		p.ceiling += (p.rate - p.ceiling) * unlearn
		p.rate = max(minPace, p.rate-min(max(cutStep, cutPart*p.rate), cutShare*p.rate))
	}
	p.land(t)
}

// land ends a send, also one whose result says nothing about the pace.
func (p *pace) land(t Permit) {
	if t.probe {
		p.probing = false
	}
}

// grow brings rate and memory up to now.
func (p *pace) grow(now time.Time) {
	dt := now.Sub(p.stepped).Seconds()
	if dt <= 0 {
		return
	}
	p.stepped = now
	waiting := now.Sub(p.lastWait) <= time.Second
	if waiting && p.rate >= p.top && now.Sub(p.lastRefusal) > calmAfter && now.Sub(p.began) > calmAfter && now.After(p.rest) {
		p.top = min(reach*p.limit, p.top+(reach-headroom)*p.limit*dt/reachTime.Seconds())
	}
	if waiting && p.rate < p.top {
		a := slowGrowth
		if p.rate < nearMemory*p.memory {
			a = fastGrowth
		}
		if n := p.doublings(now); n > 0 {
			a = min(maxGrowth, a*math.Exp2(n))
		}
		if p.starting = p.starting && p.rate < startUpTo*p.memory; p.starting && p.streak == 0 {
			a = startGrowth
		}
		p.rate = min(p.top, p.rate*math.Exp(a*dt))
	}
	if p.streak == 0 { // while the page is refused there is nothing to learn
		p.memory += (p.rate - p.memory) * (1 - math.Exp(-dt/memoryTime.Seconds()))
	}
}

// doublings returns how often growth has doubled for want of refusals.
func (p *pace) doublings(now time.Time) float64 {
	quiet := now.Sub(p.lastRefusal)
	if p.passed.IsZero() && quiet > passedAfter && p.rate > passedBy*p.ceiling {
		p.passed = now
	}
	n := (quiet - calmAfter).Seconds() / calmDouble.Seconds()
	if !p.passed.IsZero() {
		n = max(n, now.Sub(p.passed).Seconds()/passedDouble.Seconds())
	}
	return n
}

// calm reports whether bursts may go ahead of the pace. Then it is all that was
// configured, nothing was refused for a while, and the sends of others before it
// began have had their time.
func (p *pace) calm(now time.Time) bool {
	return p.streak == 0 && !p.probing && p.rate >= headroom*p.limit &&
		now.Sub(p.began) >= settle && now.Sub(p.lastRefusal) >= noBurst
}

// idle reports whether nothing was learned or wanted for long enough to forget the page.
func (p *pace) idle(now time.Time) bool {
	return now.Sub(p.lastSend) >= forget && now.Sub(p.lastWait) >= forget && now.Sub(p.lastRefusal) >= forget
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// meter counts what happened in the last second, to a tenth.
type meter struct {
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
	at := now.UnixNano() / int64(100*time.Millisecond)
	for i := m.at + 1; i <= min(at, m.at+10); i++ {
		m.slots[i%10] = 0
	}
	m.at = max(m.at, at)
}
