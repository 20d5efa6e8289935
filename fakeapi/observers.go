package fakeapi

import (
	"slices"
	"sync"
	"sync/atomic"
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

// Observe calls f with every acceptance, in the caller's goroutine, until the
// returned function is called. f must not block.
func (a *API) Observe(f func(Acceptance)) (stop func()) { return a.observers.add(f) }

// observers are the functions that are called with every acceptance. The zero
// value has none.
type observers struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*func(Acceptance)] // replaced whole, under mu
}

func (o *observers) add(f func(Acceptance)) (remove func()) {
	entry := &f
	o.change(func(list []*func(Acceptance)) []*func(Acceptance) { return append(list, entry) })
	return func() {
		o.change(func(list []*func(Acceptance)) []*func(Acceptance) {
			return slices.DeleteFunc(list, func(e *func(Acceptance)) bool { return e == entry })
		})
	}
}

// change replaces the list by the one that edit makes of a copy.
func (o *observers) change(edit func([]*func(Acceptance)) []*func(Acceptance)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := edit(slices.Clone(o.load()))
	o.list.Store(&list)
}

func (o *observers) load() []*func(Acceptance) {
	if list := o.list.Load(); list != nil {
		return *list
	}
	return nil
}
