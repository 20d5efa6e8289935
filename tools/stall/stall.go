// Package stall measures how much later than due this process runs, by which a
// starved machine is told from a defect. A test that fails on a time bound says it
// in one line beside the failure.
//
// A Meter sleeps for 10 ms again and again, and notes by how much each sleep was
// too long. A machine with time to spare is late by a millisecond; one whose
// processors, memory or disk are overbooked is late by much more. A Meter works
// in real time only, not in a synctest bubble.
package stall

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

const (
	// every is the time between two looks: 100 a second are no load.
	every = 10 * time.Millisecond
	// starvedBy is a delay that no test allows for: the shortest bound of a test
	// in real time is 2 s.
	starvedBy = 500 * time.Millisecond
	// starvedFor is the share of the time above which the machine gave us less
	// than half of what we asked for, though no single delay was long.
	starvedFor = .5
)

// Meter measures delays until it is stopped. Start makes one. Its methods may be
// called at once.
type Meter struct {
	stop  chan struct{}
	ended chan struct{}

	mu    sync.Mutex
	seen  time.Duration // how long it has looked
	late  time.Duration // the sum of the delays
	worst time.Duration // the longest delay
}

// Start returns a running meter. The caller stops it.
func Start() *Meter {
	m := &Meter{stop: make(chan struct{}), ended: make(chan struct{})}
	go m.run()
	return m
}

// Watch returns a meter that runs until the test ends.
func Watch(t testing.TB) *Meter {
	t.Helper()
	m := Start()
	t.Cleanup(m.Stop)
	return m
}

func (m *Meter) run() {
	defer close(m.ended)
	for {
		begin := time.Now()
		select {
		case <-m.stop:
			return
		case <-time.After(every):
		}
		m.note(time.Since(begin))
	}
}

// note takes a sleep that should have lasted for every.
func (m *Meter) note(slept time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen += slept
	m.late += slept - every
	m.worst = max(m.worst, slept-every)
}

// Stop ends the meter, which keeps its figures. It is called once.
func (m *Meter) Stop() {
	close(m.stop)
	<-m.ended
}

// Starved reports whether the machine was too slow for a time bound to mean
// anything.
func (m *Meter) Starved() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.starved()
}

func (m *Meter) starved() bool {
	return m.worst >= starvedBy || m.late.Seconds() > starvedFor*m.seen.Seconds()
}

// String returns one line that says whether the machine was starved, and by how
// much.
func (m *Meter) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	verdict := "the machine was not starved"
	if m.starved() {
		verdict = "the machine was STARVED, so a failed time bound shows nothing"
	}
	share := 0.
	if m.seen > 0 {
		share = 100 * m.late.Seconds() / m.seen.Seconds()
	}
	return fmt.Sprintf("%s: this process was late by up to %v, and for %.0f %% of %v",
		verdict, m.worst.Round(time.Millisecond), share, m.seen.Round(time.Millisecond))
}
