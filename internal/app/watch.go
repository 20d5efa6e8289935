package app

import (
	"bytes"
	"errors"
	"runtime/pprof"
	"time"
)

const (
	// stillTime is longer than the ten seconds after which /healthz says no.
	stillTime = 15 * time.Second
	// watchEvery is the period of looking, and stillLooks the number of looks in a row that
	// find nothing moved. A process that was paused, or whose clock was set, goes on within
	// the first of them.
	watchEvery = time.Second
	stillLooks = 5
	// maxStacks bounds the goroutines in the log.
	maxStacks = 64 << 10
)

// errStill ends a program whose work stands still.
var errStill = errors.New("the program's work stands still: ending, so that others take its partitions")

// watch returns what ended gives, or errStill when the program's work stands still.
//
// Work that stands still cannot give its partitions up, and they are nobody else's while the
// broker hears heartbeats, which the client sends by itself. So the process must end: all its
// connections end with it, the broker gives what was held to others at once, and whoever
// started the program starts it again. To close the broker's connection alone would not do:
// the client makes another one, and the same engine gets the same partitions.
func (p *Program) watch(ended <-chan error) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for looks := 0; ; {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
		}
		if looks++; p.still() < stillTime {
			looks = 0
		}
		if looks == stillLooks {
			p.log.Error("the program's work stands still", "still_for", p.still(), "goroutines", stacks())
			return errors.Join(errStill, p.flush())
		}
	}
}

// stacks returns the stacks of all goroutines, without their arguments.
func stacks() string {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1) // a buffer takes all
	return string(b.Bytes()[:min(b.Len(), maxStacks)])
}
