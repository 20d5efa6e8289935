package replicas

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Watch asks replicas again and again, and keeps the latest answer of each. One that
// hangs, or is slow, holds a single Look up, for Wait: from then on nobody waits for
// it until an answer has come within Wait. Ask and Wait must be set. One goroutine
// calls Look and End.
type Watch[T any] struct {
	// Ask makes one request. It ends with ctx, and bounds itself in time: a replica
	// is not asked again before.
	Ask  func(ctx context.Context, r Replica) (T, error)
	Wait time.Duration

	asking sync.WaitGroup
	known  map[string]*watched[T] // by address

	mu sync.Mutex // guards the values in known
}

// errSilent is the error of a replica that was asked and has not answered yet.
var errSilent = errors.New("no answer yet")

// Answer is the last answer of a replica.
type Answer[T any] struct {
	Value T
	Err   error // why there is no value
	// Late says that a newer answer is being waited for. If Err is nil, Value may be
	// as old as a request takes.
	Late bool
}

// watched is the last answer of one replica, and whether it is waited for.
type watched[T any] struct {
	answer  Answer[T]
	trusted bool // it is waited for: its last answer came in time
}

// Look asks those replicas again that have answered, and returns the latest answer
// of each. What it began may go on behind it: End waits for that.
func (w *Watch[T]) Look(ctx context.Context, list []Replica) []Answer[T] {
	if w.known == nil {
		w.known = make(map[string]*watched[T])
	}
	listed := make(map[string]bool, len(list))
	var awaited []<-chan struct{}
	for _, r := range list {
		listed[r.URL] = true
		if done := w.ask(ctx, r); done != nil {
			awaited = append(awaited, done)
		}
	}
	w.await(ctx, awaited)
	w.mu.Lock()
	defer w.mu.Unlock()
	answers := make([]Answer[T], len(list))
	for i, r := range list {
		answers[i] = w.known[r.URL].answer
	}
	for url, s := range w.known {
		if !listed[url] && !s.answer.Late {
			delete(w.known, url)
		}
	}
	return answers
}

// await waits until all are closed, no longer than Wait.
func (w *Watch[T]) await(ctx context.Context, all []<-chan struct{}) {
	patience := time.NewTimer(w.Wait)
	defer patience.Stop()
	for _, done := range all {
		select {
		case <-done:
		case <-patience.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// ask begins a request unless one runs. It returns what is closed when that ends;
// nil: it is not waited for.
func (w *Watch[T]) ask(ctx context.Context, r Replica) (done <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.known[r.URL]
	if s == nil {
		s = &watched[T]{answer: Answer[T]{Err: errSilent}, trusted: true}
		w.known[r.URL] = s
	}
	if s.answer.Late { // its Look has waited for it
		return nil
	}
	awaited := s.trusted
	ended := make(chan struct{})
	s.answer.Late = true
	w.asking.Go(func() {
		began := time.Now()
		value, err := w.Ask(ctx, r)
		w.mu.Lock()
		defer w.mu.Unlock()
		s.answer = Answer[T]{Value: value, Err: err}
		s.trusted = err == nil && time.Since(began) <= w.Wait
		close(ended)
	})
	if !awaited {
		return nil
	}
	return ended
}

// End waits for the requests that still run. The context of Look must have ended.
func (w *Watch[T]) End() { w.asking.Wait() }
