package audit

import (
	"sync"
	"time"
)

// Seldom counts what may happen often, for a line that is written seldom. Every must be
// set. Safe for concurrent use.
type Seldom struct {
	Every time.Duration // the period of the line

	mu    sync.Mutex
	count int // since the last line
	told  time.Time
}

// Add counts once. When it is time for a line, Add returns true and how many the line is
// about.
func (s *Seldom) Add(now time.Time) (n int, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	n, tell = s.count, now.Sub(s.told) >= s.Every
	if tell {
		s.count, s.told = 0, now
	}
	return n, tell
}
