package rabbit

import (
	"fmt"
	"sync/atomic"
	"time"
)

// progress is what is known of a broker by its answers to what a session publishes.
// Make one with newProgress. Safe for concurrent use.
type progress struct {
	began    time.Time
	last     atomic.Int64 // when the broker last was not to blame, in ns since began
	excused  atomic.Int64 // when it last was said so of all that came before, likewise
	refusing atomic.Bool  // the last answer was a refusal
	late     atomic.Int64 // how long a refusal took at most, in ns
}

func newProgress() *progress { return &progress{began: time.Now()} }

// touch notes that the broker is not to blame up to now.
func (p *progress) touch() { p.last.Store(int64(p.now())) }

func (p *progress) now() time.Duration { return time.Since(p.began) }

// confirmed notes that a confirm has come.
func (p *progress) confirmed() {
	p.refusing.Store(false)
	p.touch()
}

// refused notes that a message was refused, whose answer was waited for since then.
// RabbitMQ refuses at once what a full queue does not take: it was not to blame when
// the message was written. What comes late says that it does not reach the queue.
func (p *progress) refused(since time.Time) {
	p.refusing.Store(true)
	from := max(int64(since.Sub(p.began)), p.excused.Load())
	raise(&p.last, from)
	raise(&p.late, int64(p.now())-from)
}

// raise sets a to v, unless it is more.
func raise(a *atomic.Int64, v int64) {
	for old := a.Load(); old < v && !a.CompareAndSwap(old, v); old = a.Load() {
	}
}

// excuse notes that what came late until now was not the broker's fault.
func (p *progress) excuse() {
	p.excused.Store(int64(p.now()))
	p.late.Store(0)
	p.touch()
}

// stalled returns why the session is of no use any more, nil while it is; owes says
// that something is unconfirmed. One queue without a leader does not stall a session
// on which others move.
//
// A channel of RabbitMQ 3.10 that publishes to a queue for the first time asks the
// node of the queue's leader whether it may, and does nothing else meanwhile. If the
// node is not reached the message is refused. The channel asks the same node again
// for the next message, whoever leads now: each time for some 7 s, until the node is
// back. A new channel asks the new leader. So a late refusal ends the session, and so
// does as much silence after any refusal.
func (p *progress) stalled(most patience, owes bool) error {
	switch late := time.Duration(p.late.Load()); {
	case late > most.refusal:
		return fmt.Errorf("%w: it took %s", errRefusing, late.Round(time.Millisecond))
	case !owes:
		return nil
	case p.refusing.Load() && p.isQuiet(most.refusal):
		return fmt.Errorf("%w: no answer for %s after a refusal", errRefusing, most.refusal)
	case p.isQuiet(most.silent):
		return fmt.Errorf("%w: no confirm for %s", errStalled, most.silent)
	}
	return nil
}

// isQuiet reports whether the broker is to blame for so long.
func (p *progress) isQuiet(d time.Duration) bool {
	return p.now()-time.Duration(p.last.Load()) > d
}
