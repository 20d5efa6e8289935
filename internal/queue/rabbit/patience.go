package rabbit

import (
	"errors"
	"time"
)

// maxPatience bounds what repeated stalls make of a link's patience. Each
// stall doubles it: a broker that is slow because it has too much to do
// would get the same messages again and again.
const maxPatience = time.Minute

// patience is the stall timeout of a link's session. Make one with newPatience.
type patience struct {
	least  time.Duration // of silent, as it comes
	tries  int           // with each length of silent
	silent time.Duration // how long the broker may be silent
	stalls int           // in a row
}

func newPatience(least time.Duration, tries int) patience {
	return patience{least: least, tries: tries, silent: least}
}

// after returns the patience with the next session, given how the last one ended
// and how long it lasted. Silence is doubled after some tries.
func (p patience) after(err error, lasted time.Duration) patience {
	if errors.Is(err, errSilent) { // the other link's patience says it
		return p
	}
	stalled := errors.Is(err, errStalled)
	if !stalled || lasted > 2*maxPatience {
		p = newPatience(p.least, p.tries)
	}
	if !stalled {
		return p
	}
	if p.stalls++; p.stalls%p.tries == 0 {
		p.silent = min(2*p.silent, max(maxPatience, p.least))
	}
	return p
}
