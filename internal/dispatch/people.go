package dispatch

import (
	"slices"
	"strings"
	"time"

	"chatclub/internal/message"
)

const (
	// A person to whom a message used up its attempts is failing: later ones are
	// dead at once, for minFailing, twice as long after each further one, up to
	// maxFailing. Then one message with one attempt finds out.
	minFailing = 5 * time.Minute
	maxFailing = time.Hour
	// deferSlack is how much longer than the first message's delay later ones to
	// the person are delayed too, so that it is back before any is tried.
	deferSlack = time.Second
	// peopleSize bounds the people remembered: far more than fail in an hour.
	peopleSize = 1 << 17
)

// somebody is a person on a page.
type somebody struct{ page, to string }

// trouble is what is known of a person whose messages fail.
type trouble struct {
	failing time.Time     // until then every message is dead
	strikes int           // messages in a row that used up their attempts
	until   time.Time     // until then messages go to a retry queue, behind the first
	delay   time.Duration // of the first
	first   string        // its id, or ids where it was joined
}

// people remembers persons who cannot be sent to. Not safe for concurrent use.
type people struct{ list map[somebody]*trouble }

func newPeople() people { return people{list: make(map[somebody]*trouble)} }

func (p *people) len() int { return len(p.list) }

func (p *people) of(o *message.Outbound) *trouble {
	if len(p.list) == 0 { // nearly always
		return nil
	}
	return p.list[somebody{o.Page, o.To}]
}

// fails reports whether messages to the recipient are dead at once.
func (p *people) fails(o *message.Outbound, now time.Time) bool {
	t := p.of(o)
	return t != nil && t.failing.After(now)
}

// deferred returns how long a message is delayed because an earlier one to the
// recipient is in a retry queue: as long as that, so that the order stays.
func (p *people) deferred(o *message.Outbound, now time.Time) time.Duration {
	if t := p.of(o); t != nil && t.until.After(now) && !slices.Contains(strings.Split(t.first, " "), o.ID) {
		return t.delay
	}
	return 0
}

// onProbation reports whether the recipient has one attempt only.
func (p *people) onProbation(o *message.Outbound) bool {
	t := p.of(o)
	return t != nil && t.strikes > 0
}

// find returns what is known of the recipient, to be changed.
func (p *people) find(o *message.Outbound) *trouble {
	k := somebody{o.Page, o.To}
	t := p.list[k]
	if t == nil {
		t = &trouble{}
		if len(p.list) < peopleSize {
			p.list[k] = t
		}
	}
	return t
}

// fail notes that a message to the recipient used up its attempts, and returns
// until when further ones are dead at once.
func (p *people) fail(o *message.Outbound, now time.Time) time.Time {
	t := p.find(o)
	t.failing = now.Add(min(minFailing<<min(t.strikes, 10), maxFailing))
	t.strikes++
	t.until = time.Time{}
	return t.failing
}

// retry notes that a message to the recipient is in the retry queue with this
// delay, or several that were joined.
func (p *people) retry(o *message.Outbound, now time.Time, delay time.Duration) {
	t := p.find(o)
	t.until, t.delay, t.first = now.Add(delay+deferSlack), delay, o.ID
}

// answered notes that the recipient can be sent to.
func (p *people) answered(o *message.Outbound) {
	if p.of(o) != nil {
		delete(p.list, somebody{o.Page, o.To})
	}
}

// sweep forgets those of whom nothing was heard for long.
func (p *people) sweep(now time.Time) {
	for k, t := range p.list {
		if now.Sub(t.failing) > maxFailing && now.Sub(t.until) > time.Minute {
			delete(p.list, k)
		}
	}
}
