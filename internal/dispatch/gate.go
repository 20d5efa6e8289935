package dispatch

import (
	"time"

	"chatclub/internal/excess"
)

// Gate decides, message by message, whether a page may be sent to now. It is
// the seam at which ways of sharing a page's limit are exchanged: the loop
// around it stays the same. Safe for concurrent use.
type Gate interface {
	// Enter asks for one message. When it answers true the caller must Leave
	// the Pass; when false the Pass is nil and the message is given back.
	Enter(k excess.Key) (Pass, bool)
	// InExcess is the number of pages that are held back now.
	InExcess() int
}

// Pass is the leave to send one message. Its methods are safe for concurrent use.
type Pass interface {
	// Refused tells of a refusal by the page's limit and returns how long to
	// wait before the same message is tried again.
	Refused() time.Duration
	// Leave ends the pass, however the message was settled. Idempotent.
	Leave()
}

// MapGate is the Gate of an excess map.
type MapGate struct{ Map *excess.Map }

// Enter implements Gate.
func (g MapGate) Enter(k excess.Key) (Pass, bool) {
	p, ok := g.Map.Enter(k)
	if !ok {
		return nil, false
	}
	return p, true
}

// InExcess implements Gate.
func (g MapGate) InExcess() int { return g.Map.Len() }
