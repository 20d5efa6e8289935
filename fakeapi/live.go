package fakeapi

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// liveSettings hold the settings in force. init makes them useful.
type liveSettings struct {
	catalogue map[Code]*answer

	mu      sync.Mutex // one change at a time
	current atomic.Pointer[live]
}

// live is the settings in force and the state derived from them. Only the
// counters of its injections ever change.
type live struct {
	Settings
	generation uint64
	injections []*injection
}

type injection struct {
	Inject
	answer *answer      // nil: it hangs
	left   atomic.Int64 // when Count is set
}

func (l *liveSettings) init(catalogue map[Code]*answer) {
	l.catalogue = catalogue
	l.current.Store(&live{})
}

func (l *liveSettings) load() *live { return l.current.Load() }

// change puts a copy of the settings that edit returns in force. Injections that stay the
// same keep the count that they have left, unless edit says that they begin. edit must not
// change the settings that it is given.
func (l *liveSettings) change(edit func(Settings) (s Settings, begin bool, err error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.load()
	s, begin, err := edit(old.Settings)
	if err != nil {
		return err
	}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("apply settings: %w", err)
	}
	next := &live{Settings: s.clone(), generation: old.generation + 1}
	for i, in := range s.Inject {
		if !begin && i < len(old.injections) && old.injections[i].Inject == in {
			next.injections = append(next.injections, old.injections[i])
			continue
		}
		j := &injection{Inject: in, answer: l.catalogue[in.Code]}
		j.left.Store(int64(in.Count))
		next.injections = append(next.injections, j)
	}
	l.current.Store(next)
	return nil
}
