package dispatch

import (
	"sync"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// job is one delivery on its way. Only one goroutine has it at a time.
type job struct {
	delivery *queue.Delivery
	out      message.Outbound
	attempts int    // calls that failed and count as attempts, in this process and before
	lastCode string // of the last of them
}

// recipient is whom a job is for. The same person has another PSID on every page.
type recipient struct{ page, to string }

// lines keeps at most one job per recipient on its way, the others in a line
// behind it, so that a later message never overtakes an earlier one: calls in
// flight at the same time arrive in any order. A recipient without jobs costs
// nothing. The zero value is not useful. Safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	wait map[recipient][]*job // an entry exists while one job is on its way
}

func newLines() *lines { return &lines{wait: make(map[recipient][]*job)} }

// join puts j into its line and tells whether it is first: then the caller
// handles it, and after it everything that next returns.
func (l *lines) join(j *job) bool {
	r := recipient{j.out.Page, j.out.To}
	l.mu.Lock()
	defer l.mu.Unlock()
	line, busy := l.wait[r]
	if !busy {
		l.wait[r] = nil
		return true
	}
	l.wait[r] = append(line, j)
	return false
}

// next ends j's turn and returns the job behind it, nil when there is none.
func (l *lines) next(j *job) *job {
	r := recipient{j.out.Page, j.out.To}
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.wait[r]
	if len(line) == 0 {
		delete(l.wait, r)
		return nil
	}
	next := line[0]
	line[0] = nil
	l.wait[r] = line[1:]
	return next
}
