package core

import (
	"sync"
	"time"

	"chatclub/internal/rooms"
)

// floods holds the users who are over the store's FloodLimit, and the times whose events the
// store would refuse in silence. So a flood of a few users costs no database. An event that
// is refused here is recorded nowhere. Safe for concurrent use.
type floods struct {
	mu    sync.Mutex
	users map[person]flood
	swept time.Time
}

// person is one user of a page.
type person struct{ page, user string }

// flood is what the store said last of a user.
type flood struct {
	refused rooms.Span
	noted   time.Time
}

// floodKept is the time for which a flood is kept. Its events may wait for long, in a burst
// of their page; after that the store says again of which time it refuses them.
const floodKept = time.Minute

func newFloods() *floods { return &floods{users: make(map[person]flood)} }

// refuses reports whether the store would refuse an event in silence.
func (f *floods) refuses(now time.Time, ev rooms.Event) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.users[person{ev.Page, ev.User}]
	return ok && !ev.Idle && now.Sub(known.noted) < floodKept && known.refused.Has(ev.At)
}

// note takes the store's result of an event.
func (f *floods) note(now time.Time, ev rooms.Event, refused rooms.Span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.swept) >= floodKept {
		f.swept = now
		for who, known := range f.users {
			if now.Sub(known.noted) >= floodKept {
				delete(f.users, who)
			}
		}
	}
	if who := (person{ev.Page, ev.User}); refused != (rooms.Span{}) {
		f.users[who] = flood{refused, now}
	} else if !ev.Idle {
		delete(f.users, who)
	}
}
