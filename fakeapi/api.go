// Package fakeapi is a fake of the Messenger Platform that judges whoever
// sends to it: a Send API with the documented limits, checks, error envelopes
// and usage headers; a Source of signed webhooks that simulates chatting
// users; and a ledger that knows of every message id whether it was accepted,
// and so what was lost, doubled, unexpected or out of order. It shares no code
// with the system under test.
//
// The core is API.Do, which takes a request and the time and answers at once;
// how late the answer is to be delivered, and whether the connection is to be
// lost instead, is part of the answer. API.Serve puts it behind a socket,
// API.Transport behind an http.Client without one, so that it runs under
// virtual time (testing/synctest). The same calls at the same times with the
// same Config.Seed get the same answers.
package fakeapi

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/fakeapi/ledger"
)

// Config of an API. The zero value is a platform with DefaultSettings on which
// every page exists and has the token `token-PAGE`.
type Config struct {
	Now      func() time.Time // default time.Now
	Seed     uint64           // of everything random
	Settings *Settings        // nil: DefaultSettings
	// Tokens is the token of each page that exists. nil: every page whose id
	// is made of digits exists, with the token `token-PAGE`.
	Tokens map[string]string
	// MessageID is the id that the system under test puts into a copy's
	// metadata, so that the judge can compute what to expect from an event
	// alone. Default: PAGE/MID/RECIPIENT. A message with pictures becomes one of
	// text, with this id, and one for each picture, with /1, /2 … behind it.
	MessageID func(page, mid, recipient string) string
	Seconds   int // active seconds of history per page; default 600
}

// API is the fake platform. New makes one. All methods are safe for concurrent
// use.
type API struct {
	now       func() time.Time
	seed      uint64
	tokens    map[string]string // page → token; nil: the rule
	owners    map[string]string // token → page
	messageID func(page, mid, recipient string) string
	book      *ledger.Ledger
	catalogue map[Code]*answer
	answered  map[Code]*atomic.Uint64 // how often each error was answered
	seq       atomic.Uint64           // numbers the calls

	app     app
	waiting unanswered

	applying  sync.Mutex // one Apply at a time
	live      atomic.Pointer[live]
	observers atomic.Pointer[[]*func(Acceptance)] // replaced whole, under applying
	extension atomic.Pointer[Extension]           // nil: none

	mu    sync.RWMutex
	pages map[string]*page
	users userReports
}

// live is the Settings in force and what is derived from them. It is never
// changed, but for the counters of its injections.
type live struct {
	Settings
	generation uint64
	injections []*injection
}

type injection struct {
	Inject
	answer *answer
	left   atomic.Int64 // when Count is set
}

// Acceptance is a message, or a sender action, that the platform took for
// delivery. An action sets Page, Recipient, Action and At alone.
type Acceptance struct {
	Page, Recipient string
	ID              string // our sender's, from metadata
	MID             string // the platform's
	Text            string
	Type, URL       string // of the attachment
	Buttons         []Button
	Action          string // typing_on, typing_off or mark_seen
	At              time.Time
}

// New makes a platform.
func New(c Config) (*API, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.MessageID == nil {
		c.MessageID = func(page, mid, recipient string) string { return page + "/" + mid + "/" + recipient }
	}
	s := DefaultSettings()
	if c.Settings != nil {
		s = *c.Settings
	}
	a := &API{
		now: c.Now, seed: c.Seed, tokens: maps.Clone(c.Tokens), messageID: c.MessageID,
		book:      ledger.New(ledger.Config{Now: c.Now, Seconds: c.Seconds}),
		catalogue: catalogue(), answered: make(map[Code]*atomic.Uint64), pages: make(map[string]*page),
	}
	for code := range a.catalogue {
		a.answered[code] = new(atomic.Uint64)
	}
	if c.Tokens != nil {
		a.owners = make(map[string]string, len(c.Tokens))
		for id, token := range c.Tokens {
			if id == "" || token == "" || a.owners[token] != "" {
				return nil, fmt.Errorf("new fake platform: page %.40q: page and token must not be empty, and each token its own", id)
			}
			a.owners[token] = id
		}
	}
	a.live.Store(&live{})
	if err := a.Apply(s); err != nil {
		return nil, fmt.Errorf("new fake platform: %w", err)
	}
	return a, nil
}

// Ledger is the judge's book.
func (a *API) Ledger() *ledger.Ledger { return a.book }

// Reset empties the ledger and the counts of answers. It belongs between runs,
// when nothing is in flight. What the sources counted of themselves stays.
func (a *API) Reset() {
	a.book.Reset()
	a.waiting.clear()
	for _, n := range a.answered {
		n.Store(0)
	}
}

// Now returns the platform's time.
func (a *API) Now() time.Time { return a.now() }

// MessageID returns the id under which the copy of an event for a recipient is
// expected: see Config.MessageID.
func (a *API) MessageID(page, mid, recipient string) string { return a.messageID(page, mid, recipient) }

// Announce enters into the ledger what must come of an event: for each
// recipient a message of text and one for each of the event's pictures.
func (a *API) Announce(page, mid string, recipients []string, pictures int) *ledger.Event {
	return a.book.Announce(page, a.expected(page, mid, recipients, 1+pictures)...)
}

// Generation returns a number that grows with every change of the settings.
func (a *API) Generation() uint64 { return a.live.Load().generation }

// Settings is a copy of those in force.
func (a *API) Settings() Settings { return a.live.Load().clone() }

// Apply puts a copy of other settings in force for every call that comes after
// it. What the limits have counted stays counted where the algorithm stays the
// same.
func (a *API) Apply(s Settings) error {
	a.applying.Lock()
	defer a.applying.Unlock()
	return a.applyLocked(s)
}

func (a *API) applyLocked(s Settings) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("apply settings: %w", err)
	}
	old := a.live.Load()
	next := &live{Settings: s.clone(), generation: old.generation + 1}
	for i, in := range s.Inject {
		if i < len(old.injections) && old.injections[i].Inject == in {
			next.injections = append(next.injections, old.injections[i]) // keeps what it has left
			continue
		}
		j := &injection{Inject: in, answer: a.catalogue[in.Code]}
		j.left.Store(int64(in.Count))
		next.injections = append(next.injections, j)
	}
	a.live.Store(next)
	return nil
}

// Patch lays a JSON object over the settings in force; see Settings.patched.
func (a *API) Patch(patch []byte) error {
	a.applying.Lock()
	defer a.applying.Unlock()
	s, err := a.live.Load().patched(patch)
	if err != nil {
		return err
	}
	return a.applyLocked(s)
}

// Observe calls f with every acceptance, in the caller's goroutine, until the
// returned function is called. f must not block.
func (a *API) Observe(f func(Acceptance)) (stop func()) {
	entry := &f
	change := func(edit func([]*func(Acceptance)) []*func(Acceptance)) {
		a.applying.Lock()
		defer a.applying.Unlock()
		var list []*func(Acceptance)
		if old := a.observers.Load(); old != nil {
			list = slices.Clone(*old)
		}
		list = edit(list)
		a.observers.Store(&list)
	}
	change(func(list []*func(Acceptance)) []*func(Acceptance) { return append(list, entry) })
	return func() {
		change(func(list []*func(Acceptance)) []*func(Acceptance) {
			return slices.DeleteFunc(list, func(e *func(Acceptance)) bool { return e == entry })
		})
	}
}

// Token is the token of a page, if the page exists.
func (a *API) Token(page string) (string, bool) {
	if a.tokens == nil {
		return "token-" + page, isDigits(page)
	}
	t, ok := a.tokens[page]
	return t, ok
}

// owner is the page that a token belongs to.
func (a *API) owner(token string) (string, bool) {
	if a.tokens == nil {
		page, ok := strings.CutPrefix(token, "token-")
		return page, ok && isDigits(page)
	}
	page, ok := a.owners[token]
	return page, ok
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != "" && len(s) <= 20
}

// page returns the state of a page that exists.
func (a *API) page(id string) *page {
	a.mu.RLock()
	p := a.pages[id]
	a.mu.RUnlock()
	if p != nil {
		return p
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p = a.pages[id]; p == nil {
		id = strings.Clone(id)
		p = &page{id: id, book: a.book.Page(id)}
		a.pages[id] = p
	}
	return p
}

// PageID returns the id of simulated page number n.
func PageID(n int) string { return strconv.Itoa(100_000_000_000_000 + n) }
