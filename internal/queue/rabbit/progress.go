package rabbit

import (
	"fmt"
	"sync/atomic"
	"time"
)

// progress is the time of a broker's last answer to what a session publishes.
// Make one with newProgress. Safe for concurrent use.
type progress struct {
	began time.Time
	last  atomic.Int64 // when the broker last was not to blame, in ns since began
}

func newProgress() *progress { return &progress{began: time.Now()} }

// touch notes that the broker is not to blame up to now: it has answered, or nothing
// was to be expected of it.
func (p *progress) touch() { p.last.Store(int64(p.now())) }

func (p *progress) now() time.Duration { return time.Since(p.began) }

// stalled returns why the session is of no use any more, nil while it is; owes says
// that something is unconfirmed. One queue without a leader does not stall a session
// on which others move.
func (p *progress) stalled(most patience, owes bool) error {
	if owes && p.isQuiet(most.silent) {
		return fmt.Errorf("%w: no confirm for %s", errStalled, most.silent)
	}
	return nil
}

// isQuiet reports whether the broker is to blame for so long.
func (p *progress) isQuiet(d time.Duration) bool {
	return p.now()-time.Duration(p.last.Load()) > d
}
