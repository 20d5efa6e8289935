package dispatch

import (
	"slices"
	"strings"
	"time"

	"chatclub/internal/message"
)

const (
	// A person to whom a message used up its attempts is failing: later ones of its
	// class are dead at once, for minFailing, twice as long after each further one,
	// up to maxFailing. Then one message with one attempt finds out.
	minFailing = 5 * time.Minute
	maxFailing = time.Hour
	// deferSlack is how much longer than the first message's delay later ones to
	// the person are delayed too, so that it is back before any is tried.
	deferSlack = time.Second
	// peopleSize bounds the people remembered: far more than fail in an hour.
	peopleSize = 1 << 17
	// An event is suspected once its messages fail for suspectPeople: one person may
	// be sick, and two may meet by chance. suspectTime is longer than the attempts of
	// a message take.
	suspectPeople = 3
	suspectTime   = 10 * time.Minute
	// recentEvents is how many events are remembered of which a message was accepted: those
	// of the longest call at some thousand events a second.
	recentEvents = 1 << 15
	// mostBad is how many messages in a row a person's are refused as bad, each for
	// that person alone, before the person is the cause.
	mostBad = 3
)

// somebody is a person on a page, and a class of messages: a voice message that
// fails says nothing about texts.
type somebody struct {
	page, to string
	class    message.Class
}

// trouble is the state of a person whose messages fail.
type trouble struct {
	failing   time.Time     // until then every message is dead
	strikes   int           // messages in a row that used up their attempts
	until     time.Time     // until then messages go to a retry queue, behind the first
	delay     time.Duration // of the first
	first     string        // its id, or ids where it was joined
	last      time.Time     // of the latest failure
	throttles int           // in a row
	denied    time.Time     // when the first was not allowed; zero: none
	told      time.Time     // when core was told last that the person is failing; zero: never
	reached   bool          // a message of another class was accepted since the first failure
	bad       []string      // events whose messages were refused as bad, up to mostBad
}

// suspect is an event whose messages fail.
type suspect struct {
	people []string // for whom, up to suspectPeople
	last   time.Time
}

// people remembers persons who cannot be sent to, and events that may be the cause.
// Not safe for concurrent use.
type people struct {
	list     map[somebody]*trouble
	suspects map[string]*suspect
	accepted map[string]struct{} // events of which somebody has got a message of late
	ring     []string            // the same, the oldest at next once it is full
	next     int
}

func newPeople() people {
	return people{list: make(map[somebody]*trouble), suspects: make(map[string]*suspect), accepted: make(map[string]struct{})}
}

func (p *people) len() int { return len(p.list) }

func (p *people) of(o *message.Outbound) *trouble {
	if len(p.list) == 0 { // nearly always
		return nil
	}
	return p.list[somebody{o.Page, o.To, o.Class}]
}

// fails reports whether messages to the recipient are dead at once.
func (p *people) fails(o *message.Outbound, now time.Time) bool {
	t := p.of(o)
	return t != nil && t.failing.After(now)
}

// deferred returns how long a message is delayed because an earlier one to the
// recipient is in a retry queue: as long as that, so that the order stays. It does
// not wait for one whose event is at fault, which may never arrive.
func (p *people) deferred(o *message.Outbound, now time.Time) time.Duration {
	t := p.of(o)
	if t == nil || !t.until.After(now) || slices.Contains(strings.Split(t.first, " "), o.ID) || p.isAtFault(eventOf(t.first, o)) {
		return 0
	}
	return t.delay
}

// onProbation reports whether the recipient has one attempt only.
func (p *people) onProbation(o *message.Outbound) bool {
	t := p.of(o)
	return t != nil && t.strikes > 0 && !t.reached
}

// find returns the recipient's trouble, to be changed.
func (p *people) find(o *message.Outbound, now time.Time) *trouble {
	k := somebody{o.Page, o.To, o.Class}
	t := p.list[k]
	if t == nil {
		t = &trouble{}
		if len(p.list) < peopleSize {
			p.list[k] = t
		}
	}
	t.last = now
	return t
}

// eventOf returns the event of a message to o's recipient by its id, which is
// message.CopyID's. A message with another id is an event of its own. Of joined
// messages it is the first's.
func eventOf(id string, o *message.Outbound) string {
	id, _, _ = strings.Cut(id, " ")
	if i := strings.LastIndex(id, "/"+o.To); i > len(o.Page) {
		return id[:i]
	}
	return id
}

// isAtFault reports whether an event's messages fail for several people, and nobody
// has got one.
func (p *people) isAtFault(event string) bool {
	s := p.suspects[event]
	_, accepted := p.accepted[event]
	return s != nil && len(s.people) >= suspectPeople && !accepted
}

// accept notes that somebody has got a message of an event.
func (p *people) accept(event string) {
	if _, known := p.accepted[event]; known {
		return
	}
	if len(p.ring) < recentEvents {
		p.ring = append(p.ring, event)
	} else {
		delete(p.accepted, p.ring[p.next])
		p.ring[p.next] = event
		p.next = (p.next + 1) % recentEvents
	}
	p.accepted[event] = struct{}{}
}

// note adds a person to those for whom messages of an event fail.
func (p *people) note(event, to string, now time.Time) {
	s := p.suspects[event]
	if s == nil {
		if len(p.suspects) >= peopleSize {
			return
		}
		s = &suspect{}
		p.suspects[event] = s
	}
	s.last = now
	if len(s.people) < suspectPeople && !slices.Contains(s.people, to) {
		s.people = append(s.people, to)
	}
}

// noteFailed notes that a call for a message failed, by the message's fault or the
// recipient's.
func (p *people) noteFailed(o *message.Outbound, now time.Time) {
	p.find(o, now)
	p.note(eventOf(o.ID, o), o.To, now)
}

// isCause reports whether the recipient is why a message used up its attempts. Nobody is
// who was sent something since the first failure, nor by an event that is at fault.
func (p *people) isCause(o *message.Outbound) bool {
	t := p.of(o)
	return t != nil && !t.reached && !p.isAtFault(eventOf(o.ID, o))
}

// isTold reports whether core is told that the recipient of a message fails. It is not
// where that is a voice message, because core would hold texts back as well.
func isTold(o *message.Outbound) bool { return o.Class == message.ClassText }

// acquit notes that a message used up its attempts by its own fault. For the next one
// the recipient must be reached again.
func (p *people) acquit(o *message.Outbound) {
	if t := p.of(o); t != nil {
		t.reached = false
	}
}

// noteBad notes that a message was refused as bad, and reports whether the recipient
// is why: the platform says so of some people without a code of its own.
func (p *people) noteBad(o *message.Outbound, now time.Time) bool {
	event, t := eventOf(o.ID, o), p.find(o, now)
	p.note(event, o.To, now)
	if !slices.Contains(t.bad, event) {
		t.bad = append(t.bad, event)
	}
	t.bad = slices.DeleteFunc(t.bad, p.isAtFault)
	return len(t.bad) >= mostBad && !t.reached
}

// fail notes that messages to the recipient fail by the recipient's fault, and
// returns until when further ones are dead at once.
func (p *people) fail(o *message.Outbound, now time.Time) time.Time {
	t := p.find(o, now)
	t.failing = now.Add(min(minFailing<<min(t.strikes, 10), maxFailing))
	t.strikes++
	t.until, t.told = time.Time{}, now
	return t.failing
}

// tell reports whether core is to be told now that a recipient is failing, and until
// when, and takes it as told.
func (p *people) tell(o *message.Outbound, now time.Time) (until time.Time, tell bool) {
	t := p.of(o)
	if t == nil || !isTold(o) || now.Sub(t.told) < tellAgain {
		return time.Time{}, false
	}
	t.told = now
	return t.failing, true
}

// throttle notes that the recipient was throttled, and returns how often in a row.
func (p *people) throttle(o *message.Outbound, now time.Time) int {
	t := p.find(o, now)
	t.throttles++
	return t.throttles
}

// deny notes that a message to the recipient is not allowed, and returns since when.
func (p *people) deny(o *message.Outbound, now time.Time) time.Time {
	t := p.find(o, now)
	if t.denied.IsZero() {
		t.denied = now
	}
	return t.denied
}

// retry notes that a message to the recipient is in the retry queue with this
// delay, or several that were joined.
func (p *people) retry(o *message.Outbound, now time.Time, delay time.Duration) {
	t := p.find(o, now)
	t.until, t.delay, t.first = now.Add(delay+deferSlack), delay, o.ID
}

// answered notes that the recipient can be sent to, and reports whether core was
// told otherwise.
func (p *people) answered(o *message.Outbound) (told bool) {
	p.accept(eventOf(o.ID, o))
	if len(p.list) == 0 {
		return false
	}
	for _, class := range []message.Class{message.ClassText, message.ClassMedia} {
		k := somebody{o.Page, o.To, class}
		switch t := p.list[k]; {
		case t == nil:
		case class == o.Class:
			told = told || t.strikes > 0 && class == message.ClassText
			delete(p.list, k)
		default:
			told = told || t.strikes > 0 && class == message.ClassText
			t.reached, t.failing, t.strikes = true, time.Time{}, 0
		}
	}
	return told
}

// forget forgets the people of pages.
func (p *people) forget(isOurs func(page string) bool) {
	for k := range p.list {
		if isOurs(k.page) {
			delete(p.list, k)
		}
	}
}

// sweep forgets those of whom nothing was heard for long.
func (p *people) sweep(now time.Time) {
	for k, t := range p.list {
		if now.Sub(t.failing) > maxFailing && now.Sub(t.last) > suspectTime {
			delete(p.list, k)
		}
	}
	for event, s := range p.suspects {
		if now.Sub(s.last) > suspectTime {
			delete(p.suspects, event)
		}
	}
}
