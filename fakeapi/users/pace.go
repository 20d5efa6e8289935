package users

import (
	"fmt"
	"sync"
	"time"
)

// pace says when the next event is written, in open loop: events come at their
// times however slow the system is. Safe for concurrent use.
type pace struct {
	mu        sync.Mutex
	perSecond float64
	from      time.Time // when it began to be this pace; zero: the chat has not begun
	written   int       // events since then
	changed   chan struct{}
}

func isPace(perSecond float64) bool { return perSecond > 0 && perSecond <= 1e6 }

// SetPace changes how many events the users write in a second, of all pages
// together.
func (u *Users) SetPace(eventsPerSecond float64) error {
	if !isPace(eventsPerSecond) {
		return fmt.Errorf("set pace: %g must be above 0 and at most 1e6", eventsPerSecond)
	}
	p := &u.pace
	p.mu.Lock()
	defer p.mu.Unlock()
	p.perSecond = eventsPerSecond
	if !p.from.IsZero() {
		p.from, p.written = u.api.Now(), 0
	}
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

func (p *pace) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.from, p.written = now, 0
}

// next returns when the next event is due, and a channel that is closed when that
// is no longer true.
func (p *pace) next() (at time.Time, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.from.Add(time.Duration(float64(p.written) / p.perSecond * float64(time.Second))), p.changed
}

// wrote counts events.
func (p *pace) wrote(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written += n
}
