package fakeapi

import (
	"slices"
	"sync"
	"time"
)

// Acceptance is a message, or a sender action, that the platform took for
// delivery. An action sets Page, Recipient, Action and At alone.
type Acceptance struct {
	Page, Recipient string
	ID              string // the sender's own, from metadata; several, with spaces between them, of a joined message
	MID             string // the platform's
	Text            string
	Type, URL       string // of the attachment
	Buttons         []Button
	Action          string // typing_on, typing_off or mark_seen
	At              time.Time
}

// observers are the functions that are called with every acceptance. The zero
// value has none.
type observers struct {
	mu   sync.RWMutex
	list []*func(Acceptance) // replaced whole
}

// Observe calls f with every acceptance, in the caller's goroutine, until the
// returned function is called. f must not block.
func (a *API) Observe(f func(Acceptance)) (stop func()) {
	o := &a.observers
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(slices.Clip(o.list), &f)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.list = slices.DeleteFunc(slices.Clone(o.list), func(e *func(Acceptance)) bool { return e == &f })
	}
}

func (o *observers) load() []*func(Acceptance) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.list
}
