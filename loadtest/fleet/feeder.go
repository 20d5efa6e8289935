package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// feeder is the program that puts messages into a peer's queue. Its commands and
// answers are JSON objects, one a line. Several commands may be under way, and
// their answers come in any order: a batch of one page must not keep those of
// others waiting. Make one with newFeeder. Safe for concurrent use.
type feeder struct {
	*process
	writing sync.Mutex // of one command at a time

	mu      sync.Mutex
	last    int                 // number of the last command
	waiting map[int]chan answer // for answers, by the commands' numbers; nil: it has ended
	broken  error               // why no answer can be believed any more; nil: they can
}

func newFeeder() *feeder { return &feeder{waiting: make(map[int]chan answer)} }

// command is what a feeder is asked for: put or left.
type command struct {
	N    int   `json:"n"` // its number
	Put  []fed `json:"put,omitempty"`
	Left bool  `json:"left,omitempty"`
}

// fed is one message.
type fed struct {
	ID   string `json:"id"`
	Page string `json:"page"`
	Body string `json:"body"` // to post as it is
}

// answer is a feeder's to one command.
type answer struct {
	N     int    `json:"n"`    // the command's number
	Put   int    `json:"put"`  // how many messages the queue has taken
	Left  *left  `json:"left"` //
	Error string `json:"error"`
}

// left are the messages that a peer has not sent: those that it would send if its
// workers ran on, and those that it has given up.
type left struct {
	Waiting []string `json:"waiting"`
	Dead    []string `json:"dead"`
}

// read hands on the answers until there are no more.
func (f *feeder) read(r *bufio.Reader) {
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			f.abandon(nil)
			return
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			f.abandon(fmt.Errorf("the feeder answered no JSON: %.80q", bytes.TrimSpace(line)))
		} else if to := f.asker(a.N); to != nil {
			to <- a
		} else {
			f.abandon(fmt.Errorf("the feeder said something that it was not asked for: %.80q", bytes.TrimSpace(line)))
		}
	}
}

// asker returns who waits for an answer, nil where nobody does.
func (f *feeder) asker(n int) chan<- answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := f.waiting[n]
	delete(f.waiting, n)
	return to
}

// abandon gives up the feeder. nil: it has ended.
func (f *feeder) abandon(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken == nil {
		f.broken = err
	}
	for _, to := range f.waiting {
		close(to)
	}
	f.waiting = nil
}

// number returns the number of a new command, and where its answer will be.
func (f *feeder) number() (int, <-chan answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	to := make(chan answer, 1)
	if f.waiting == nil {
		close(to)
	} else {
		f.waiting[f.last] = to
	}
	return f.last, to
}

// put returns when the queue has taken all messages.
func (f *feeder) put(ctx context.Context, list []fed) error {
	a, err := f.ask(ctx, command{Put: list})
	if err != nil {
		return fmt.Errorf("put messages into the peer's queue: %w", err)
	}
	if a.Put != len(list) {
		return fmt.Errorf("put messages into the peer's queue: the feeder says that it put %d of %d", a.Put, len(list))
	}
	return nil
}

// left returns what is left, once no worker runs.
func (f *feeder) left(ctx context.Context) (left, error) {
	a, err := f.ask(ctx, command{Left: true})
	if err == nil && a.Left == nil {
		err = errors.New("the answer has no field left")
	}
	if err != nil {
		return left{}, fmt.Errorf("ask the feeder what is left: %w", err)
	}
	return *a.Left, nil
}

// ask waits for the answer to a command.
func (f *feeder) ask(ctx context.Context, c command) (a answer, err error) {
	n, to := f.number()
	c.N = n
	b, err := json.Marshal(c)
	if err != nil {
		return a, err
	}
	// A feeder that reads nothing blocks the write, which is not waited for.
	go func() {
		f.writing.Lock()
		defer f.writing.Unlock()
		_, _ = f.stdin.Write(append(b, '\n')) // an error is of one that has ended
	}()
	select {
	case a, ok := <-to:
		if !ok {
			return a, f.why(ctx)
		}
		if a.Error != "" {
			return a, fmt.Errorf("the feeder says: %.300s", a.Error)
		}
		return a, nil
	case <-ctx.Done():
		f.asker(n)
		return a, fmt.Errorf("the feeder did not answer: %w", ctx.Err())
	}
}

// why is the reason for which there are no more answers.
func (f *feeder) why(ctx context.Context) error {
	f.mu.Lock()
	err := f.broken
	f.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-f.done: // then all that it wrote is known
	case <-ctx.Done():
	}
	return fmt.Errorf("the feeder ended: %s", f.stderr)
}

// removeTimeout is how long a feeder may take to remove what the run has made.
const removeTimeout = time.Minute

// end lets the feeder remove what it has made.
func (f *feeder) end(ctx context.Context) error {
	if !f.close(ctx) {
		return fmt.Errorf("the feeder ended by itself: %s", f.stderr)
	}
	_ = f.stdin.Close() // an error is of one that has ended just now
	select {
	case <-f.done:
	case <-time.After(removeTimeout):
		return errors.Join(fmt.Errorf("the feeder did not end within %v", removeTimeout), f.kill())
	}
	if code := f.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the feeder ended with %d: %s", code, f.stderr)
	}
	return nil
}
