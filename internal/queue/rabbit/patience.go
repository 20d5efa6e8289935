package rabbit

import (
	"errors"
	"time"
)

const (
	// maxPatience bounds what repeated stalls make of a link's patience. Each
	// stall doubles it: a broker that is slow because it has too much to do
	// would get the same messages again and again.
	maxPatience = time.Minute
	// refusalShare is the part of the patience that a refusal has. RabbitMQ refuses
	// at once where a queue is full. Where it does not reach the queue's leader it
	// does so late: after up to 7 s, or when it gives the leader's node up.
	refusalShare = 4
)

// patience is how long a link's session may stall. Make one with newPatience.
type patience struct {
	least   time.Duration // of silent, as it comes
	tries   int           // with each length of silent
	silent  time.Duration // how long the broker may be silent
	refusal time.Duration // how long it may take to refuse a message
	stalls  int           // in a row
}

func newPatience(least time.Duration, tries int) patience {
	return patience{least: least, tries: tries, silent: least, refusal: least / refusalShare}
}

// after returns the patience with the next session, given how the last one ended
// and how long it lasted. What ended it is doubled, silence after some tries.
func (p patience) after(err error, lasted time.Duration) patience {
	refusing, stalled := errors.Is(err, errRefusing), errors.Is(err, errStalled)
	if !refusing && !stalled || lasted > 2*maxPatience {
		p = newPatience(p.least, p.tries)
	}
	most := max(maxPatience, p.least)
	switch {
	case refusing:
		p.refusal = min(2*p.refusal, most/refusalShare)
	case stalled:
		if p.stalls++; p.stalls%p.tries == 0 {
			p.silent = min(2*p.silent, most)
		}
	}
	return p
}
