package excess

import (
	"cmp"
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
	// Where nothing that was sent passed for outage, longer than a window and a pause,
	// the page took nothing: that says nothing of its limit.
	outage = 1500 * time.Millisecond
	// A refusal takes cutPart off what is believed to be possible, or cutStep but
	// no more than cutMost of it, and a call at least. Those of calls that were under
	// way take more, down to cutFloor of what passed before it. Where refused calls
	// count nothing passes any more, which does not say that nothing can.
	cutPart  = 0.01
	cutStep  = 3.0
	cutMost  = 0.05
	cutFloor = 0.5
	// Where the pace went up by itself, in a try or after one, what passed before the
	// refusal is nearly right, but may be two windows' calls: ownPart of it is believed.
	// For surely after that no refusal takes more than was gained.
	ownPart = 0.9
	surely  = 3 * time.Second
	// oldPart of what was sound before an outage is believed after it.
	oldPart = 0.125
	minPace = 0.5
	// settle is how long after taking a page over no refusal cuts the pace: calls
	// of the sender before are still landing.
	settle = 2 * time.Second
	// margin is how much less than what is possible is sent, a call's worth at least.
	margin = 0.01
	// A try finds out whether more is possible than is known: for tryTime, or what
	// tryCalls take, the pace is so high that tryPart of a second's calls, and
	// tryLeast, are sent beyond the ceiling. Where no more is possible that is what
	// it costs. It begins when messages waited for tryAfter without a refusal. The
	// longer the page has had a ceiling, the longer that is: a second after trySlower,
	// four after twice that, and tryRarely at most. A try that costs more refusals than
	// it has calls makes it longer by as much, up to tryDear times.
	tryTime   = 300 * time.Millisecond
	tryCalls  = 6
	tryPart   = 0.045
	tryLeast  = 3
	tryAfter  = 350 * time.Millisecond
	trySlower = 16 * time.Second
	tryRarely = 12 * time.Second
	tryDear   = 4.0
	// wakeTime is how much longer that takes for a page that was idle: whether what
	// is remembered of it still holds shows without a try, and a try is dear where
	// little is sent.
	wakeTime = 1600 * time.Millisecond
	// A try that is not refused a second and an answer's time after its begin
	// shows that the ceiling is no longer the platform's: the pace grows by leap in
	// each leapTime, until a refusal: by farLeap far below the configured limit, where
	// it costs few calls, and by soundLeap up to what was sound before an outage.
	leap      = 2.0
	farLeap   = 2.5
	farBelow  = 0.1
	soundLeap = 10.0
	leapTime  = 200 * time.Millisecond
	// fallen is below which part of the ceiling what passed shows that the limit is
	// lower, though a try may have caused the refusal.
	fallen = 0.95
	// The pause after refusals in a row: long enough for a call in flight to
	// land, short against the second of the published window. It doubles
	// pauseDoubles times.
	minPause     = 10 * time.Millisecond
	pauseDoubles = 4
	maxPause     = minPause << pauseDoubles
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
	ceiling float64 // calls in a second that are believed to be possible; 0: no refusal says anything
	random  func() float64

	began       time.Time
	tat         time.Time     // theoretical arrival time: when the next send is due at the present rate
	waited      bool          // a message waited for tat: sending it late is this process's doing
	streak      int           // refusals in a row
	onset       time.Time     // end of the pause after the first of them: calls sent before were under way
	resume      time.Time     // end of the pause
	probing     bool          // the lone probe is out
	reopened    time.Time     // when the last call was sent that passed as a probe, or after an outage
	lastRefusal time.Time     // that was not of a burst alone
	since       time.Time     // when a ceiling was found where none was known
	cut         time.Time     // when a refusal last changed the pace: calls from before say nothing new
	sent        float64       // calls a second before the cut
	floor       float64       // the ceiling does not fall below it for calls from before the cut
	own         bool          // the pace had gone up by itself before the cut
	cost        float64       // refusals since it did, in tries' calls
	gained      float64       // the ceiling before the pace last grew
	sure        time.Time     // until then the ceiling does not fall below gained
	doubted     time.Time     // when the call was sent whose refusal was the first news since one passed; zero: there is none
	sound       float64       // the ceiling before that; 0: what passed since shows that it is lower
	pressure    time.Duration // how long messages waited since a refusal or try, in all
	try         try           // that is made, or was last
	rest        time.Time     // until then top stays
	lastPassed  time.Time     // when the last call was accepted
	rtt         time.Duration // how long answers take, a moving average
	lastSend    time.Time
	lastWait    time.Time // when a message last had to wait
	stepped     time.Time // when the rate last grew
	sends       sends
	burst       time.Duration // how much of a second may be sent at once
}

func newPace(now time.Time, limit float64, l learned, random func() float64) pace {
	top := headroom * limit
	p := pace{
		limit: limit, top: top, rate: top, random: random,
		stepped: now, lastSend: now, tat: now, burst: l.burst,
		sends: sends{epoch: now},
	}
	if l.ceiling > 0 {
		p.ceiling, p.since = l.ceiling, l.since
		p.pressure = l.pressure - wakeTime
		p.rate = p.below()
	}
	return p
}

// wait is how long the next message must wait.
func (p *pace) wait(now time.Time) time.Duration {
	p.grow(now)
	var w time.Duration
	switch {
	case p.probing || p.streak > 1: // a probe is out, whose answer may take long, or is next
		gap := seconds(1 / p.limit)
		if p.probing {
			gap = max(gap, maxPause)
		}
		w = max(p.resume.Sub(now), p.lastSend.Add(gap).Sub(now))
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
	p.sends.count(now)
	return p.probing
}

// accepted tells that a send went through.
func (p *pace) accepted(now time.Time, t Permit) {
	p.lastPassed = now
	p.rtt += (now.Sub(t.at) - p.rtt) / 16
	if t.probe || t.at.After(p.onset) {
		p.streak, p.probing = 0, false
	}
	if !p.doubted.IsZero() && t.at.After(p.doubted) {
		if t.at.Sub(p.doubted) > outage {
			p.reopened, p.try = t.at, try{state: tryPassed}
			p.ceiling = max(p.ceiling, oldPart*p.sound)
			p.rate = p.below()
		} else {
			p.sound = 0
		}
		p.doubted = time.Time{}
	}
	if t.probe {
		p.reopened, p.pressure = t.at, tryAfter-time.Second
		p.hasten(now)
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
	row := p.streak == 1 && !t.at.Before(p.onset) && (!p.slow() || now.Sub(p.lastPassed) > time.Second+p.rtt)
	if t.probe || first || row {
		p.streak++
	}
	pause := minPause << min(p.streak-1, pauseDoubles)
	if p.streak > 1 {
		pause = max(pause, min(now.Sub(p.onset)/shutPart, dayPause))
	}
	p.resume = now.Add(time.Duration(float64(pause) * (0.8 + 0.4*p.random())))
	if first {
		p.onset = p.resume
	}
	p.hold(p.resume)
	p.lastRefusal = now
	if base := headroom * p.limit; p.top > base {
		p.top, p.rest = base, now.Add(restTime)
	}
	p.sends.refused(t.at)
	switch {
	case t.probe:
	case now.Sub(p.began) < settle: // another's calls, not this pace, used up the limit
	case t.ahead: // the burst was too much, not the pace
	case t.at.Before(p.reopened): // the page took nothing then, and does now
	case now.Sub(t.at) > sendsKept-burstTime: // what passed then is forgotten
	default:
		p.learn(now, t.at)
	}
}

// learn takes from a refusal what is possible: no more than what passed in the
// second before it. That is an upper bound: the second may have been part of two
// windows of the platform's.
func (p *pace) learn(now, at time.Time) {
	passed, grew := p.sends.second(at), p.try.state == tryPassed
	if p.doubted.IsZero() {
		if p.doubted = at; p.sound > 0 && at.Sub(p.reopened) < 2*outage { // it was not as sound as it seemed
			p.sound *= oldPart
		} else {
			p.sound = cmp.Or(p.try.from, p.ceiling, p.limit)
		}
	}
	if p.ceiling == 0 {
		p.ceiling, p.since = p.rate, now
	}
	tried := p.try.caused(at)
	if !at.Before(p.cut) { // for calls from before it the ceiling fell already, but maybe not enough
		p.cut, p.sent, p.own = now, max(p.rate, passed), tried || grew
		switch possible := min(p.ceiling, passed); {
		case p.own:
			p.floor, p.cost = ownPart*possible, 0
		case at.Before(p.sure):
			p.floor = max(cutFloor*possible, p.gained)
		default:
			p.floor = cutFloor * possible
		}
		if grew { // a bucket may have let the try pass
			p.gained, p.sure = p.try.from, at.Add(surely)
		}
		if !tried {
			p.ceiling -= max(1, cutPart*p.ceiling, min(cutStep, cutMost*p.ceiling))
		}
	}
	if p.own {
		p.cost += 1 / max(tryLeast, tryPart*p.ceiling)
	}
	if tried {
		p.try.state = tryRefused
	} else {
		p.try = try{}
	}
	if !tried || passed <= fallen*p.ceiling {
		p.ceiling = max(minPace, min(p.ceiling, max(passed, p.floor)))
	}
	if p.ceiling < fallen*p.top { // it was not the reach that was refused
		p.rest = time.Time{}
	}
	// Refused calls may count, and answers come too late to stop them: no more is to be
	// sent in a second than is possible, counting those that were sent before.
	if p.slow() && p.sent > p.ceiling {
		p.hold(p.cut.Add(seconds(1 - p.ceiling/p.sent)))
	}
	p.pressure = 0
	if p.try.state == noTry { // the second that is tried in must have no pause
		p.pressure = tryAfter - time.Second
	}
	p.rate = p.below()
}

// slow reports whether answers take so long that many calls are under way.
func (p *pace) slow() bool { return p.rtt >= maxPause }

// hold has nothing sent before a time, which is not made up for.
func (p *pace) hold(until time.Time) {
	if p.tat.Before(until) {
		p.tat, p.waited = until, false
	}
}

// below is the pace at which nothing should be refused.
func (p *pace) below() float64 {
	return max(minPace, min(p.top, p.ceiling-min(max(1, margin*p.ceiling), p.ceiling/4)))
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
	case p.rate >= p.top && p.try.state != trying:
		if p.pressure <= calmAfter {
			break
		}
		p.ceiling, p.try = 0, try{}
		if now.After(p.rest) {
			p.top = min(reach*p.limit, p.top+(reach-headroom)*p.limit*dt.Seconds()/reachTime.Seconds())
			p.rate = p.top
		}
	case p.try.state == tryPassed: // far more is possible
		by := leap
		switch {
		case p.rate < p.sound:
			by = soundLeap
		case p.rate < farBelow*p.limit:
			by = farLeap
		}
		p.rate = min(p.top, p.rate*math.Pow(by, dt.Seconds()/(leapTime+p.rtt).Seconds()))
		p.ceiling = max(p.ceiling, p.rate)
		if p.sound > 0 && p.ceiling >= p.sound { // it is as it was
			p.ceiling, p.try = p.sound, try{}
			p.rate = p.below()
		}
	case p.try.state == noTry:
		if p.pressure >= p.untilTry(now) {
			p.begin(now)
		}
	case now.After(p.try.begin.Add(time.Second + p.rtt)):
		p.judge(now)
	case now.After(p.try.end):
		p.rate = p.below()
	}
}

// try is a time in which more is sent than is known to be possible.
type try struct {
	state      tryState
	begin, end time.Time
	from       float64 // the ceiling before it passed
}

type tryState uint8

const (
	noTry tryState = iota
	trying
	tryRefused
	tryPassed
)

// caused reports whether the refusal of a call may be due to the try.
func (t *try) caused(at time.Time) bool {
	return (t.state == trying || t.state == tryRefused) && !at.Before(t.begin) && at.Before(t.end.Add(time.Second))
}

// untilTry is how long nothing must be refused before a try.
func (p *pace) untilTry(now time.Time) time.Duration {
	known, dear := float64(now.Sub(p.since))/float64(trySlower), max(1, min(p.cost, tryDear))
	return max(tryAfter, seconds(dear*min(tryRarely.Seconds(), known*known)))
}

// begin begins a try.
func (p *pace) begin(now time.Time) {
	length := max(tryTime, min(time.Second, seconds(tryCalls/p.ceiling)))
	p.try = try{state: trying, begin: now, end: now.Add(length)}
	p.rate = min(p.top, p.rate+max(tryLeast, tryPart*p.ceiling)/length.Seconds())
	p.hasten(now)
}

// hasten makes the next send due no later than the present rate asks for: the rate
// was lower, or probes were sent.
func (p *pace) hasten(now time.Time) {
	if next := now.Add(seconds(1 / p.rate)); p.tat.After(next) {
		p.tat = next
	}
}

// judge ends a try whose calls have been answered.
func (p *pace) judge(now time.Time) {
	passed := p.sends.second(p.try.end)
	switch {
	case p.try.state == tryRefused: // but more may have passed than was known
		p.ceiling, p.try = max(p.ceiling, ownPart*passed), try{}
	case passed > p.ceiling+max(1, tryPart/3*p.ceiling):
		p.try.state, p.try.from = tryPassed, p.ceiling
		p.ceiling, p.sound, p.pressure = passed, 0, 0
		if now.After(p.rest) { // nothing says that it cannot be all
			p.top = reach * p.limit
		}
	default: // too few waited
		p.pressure, p.try = 0, try{}
	}
	p.rate = p.below()
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
