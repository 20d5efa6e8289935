package fakeapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"chatclub/fakeapi/webhook"
	"chatclub/fakeapi/wire"
)

const (
	// maxPhones is how many fit beside one another on a large screen.
	maxPhones = 8
	// keptMessages of a phone are shown, some screens full of them.
	keptMessages = 100
	// maxOutbox bounds what a phone has written and the system has not taken.
	maxOutbox = 20
	// typingFor is how long the platform shows "typing" after one typing_on.
	typingFor = 20 * time.Second
)

// PhonesConfig describes the phones of a platform. API, URL, Secret and Pages
// must be set.
type PhonesConfig struct {
	API       *API
	URL       string            // of the webhook
	Secret    string            // signs the webhooks; never logged
	Transport http.RoundTripper // nil: one of its own
	Log       *slog.Logger      // nil: none

	Pages   []string // that a phone may write to
	Phones  int      // in the beginning, on the first page; default 3
	BaseURL string   // of the platform itself, where the pictures are; default http://localhost
	// Ready holds back the phones' first events until it is closed; nil: not
	// at all. With simulated users it must be closed when these have joined:
	// a phone that came in between would take a place of theirs, and the
	// Source would take the wrong ones for members of a room.
	Ready    <-chan struct{}
	RetryFor time.Duration // after a webhook's first attempt, default 30 s
}

// Phones are the users who people play by hand, on the platform's page. What a
// phone writes is posted to the webhook like every other user's event; what
// the Send API accepts for it is shown. A phone that left, or is no more, is
// answered 551 until it taps "Get Started" again.
//
// The judge cannot know who shares a room with a phone. So of a phone's
// message nothing is announced but that it happened; a copy for a phone, or of
// a phone's message, counts as expected at the moment it is accepted. It is
// judged for duplicates, but not for loss or order. What can be known is
// announced: the answer to "Get Started".
//
// NewPhones makes them; they live while Run does. All methods are safe for
// concurrent use.
type Phones struct {
	cfg    PhonesConfig
	api    *API
	hook   *webhook.Client
	seed   uint64        // of user and message ids
	events atomic.Uint64 // numbers the message ids
	work   chan struct{} // holds one token while a phone may have something to post

	mu      sync.Mutex
	waiting bool // for Ready
	made    int  // phones ever made
	list    []*phone
	byUser  map[string]*phone
	rev     uint64        // counts the changes
	changed chan struct{} // closed at the next change
}

// NewPhones makes the phones and shows them on the API's page. An API has one
// set of phones.
func NewPhones(c PhonesConfig) (*Phones, error) {
	setDefault(&c.Phones, 3)
	setDefault(&c.BaseURL, "http://localhost")
	setDefault(&c.RetryFor, 30*time.Second)
	var faults []error
	if len(c.Pages) == 0 {
		faults = append(faults, errors.New("Pages must be set"))
	}
	if c.Phones < 0 || c.Phones > maxPhones {
		faults = append(faults, fmt.Errorf("Phones %d must be 0 to %d", c.Phones, maxPhones))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("new phones: %w", err)
	}
	if c.API == nil {
		return nil, errors.New("new phones: API must be set")
	}
	hook, err := webhook.New(webhook.Config{
		URL: c.URL, Secret: c.Secret, Transport: c.Transport, Log: c.Log, Now: c.API.now,
		RetryFor: c.RetryFor, MaxInFlight: maxPhones,
	})
	if err != nil {
		return nil, fmt.Errorf("new phones: %w", err)
	}
	p := &Phones{
		cfg: c, api: c.API, hook: hook, seed: hashString(strconv.FormatInt(c.API.now().UnixNano(), 36)), work: make(chan struct{}, 1),
		rev: 1, waiting: c.Ready != nil, byUser: make(map[string]*phone), changed: make(chan struct{}),
	}
	for range c.Phones {
		if _, err := p.Add(c.Pages[0]); err != nil {
			return nil, fmt.Errorf("new phones: %w", err)
		}
	}
	if !c.API.phones.CompareAndSwap(nil, p) {
		return nil, errors.New("new phones: the API has phones already")
	}
	c.API.ReportUsers(p.counts)
	return p, nil
}

func (p *Phones) counts() UserCounts {
	n := p.hook.Counts()
	return UserCounts{
		Events: n.Events, Posts: n.Posts, Retries: n.Retries, Undelivered: n.Undelivered,
		Alerts: n.Alerts, Unsubscribed: n.Unsubscribed,
	}
}

// Run posts what the phones write until ctx ends, then gives up what is under
// way, waits for its goroutines and returns nil.
func (p *Phones) Run(ctx context.Context) error {
	defer p.hook.CloseIdleConnections()
	var posts sync.WaitGroup
	defer posts.Wait()
	ready := p.cfg.Ready
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ready:
			ready = nil
			p.begin()
		case <-p.work:
		}
		for _, f := range p.idle() {
			posts.Go(func() { p.empty(ctx, f) })
		}
	}
}

// errPhone is why a phone cannot do what it was asked to.
type errPhone struct {
	status int // of HTTP
	why    string
}

func (e *errPhone) Error() string { return e.why }

var errNoPhone = &errPhone{http.StatusNotFound, "there is no such phone"}

// Add makes one more phone on a page and returns its id.
func (p *Phones) Add(page string) (string, error) {
	if !slices.Contains(p.cfg.Pages, page) {
		return "", &errPhone{http.StatusBadRequest, "page is none of those that phones may write to"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) == maxPhones {
		return "", &errPhone{http.StatusConflict, fmt.Sprintf("there are %d phones already", maxPhones)}
	}
	p.made++
	f := &phone{id: strconv.Itoa(p.made), page: page, user: p.userID(p.made), state: phoneNew, next: 1}
	p.list = append(p.list, f)
	p.byUser[f.user] = f
	p.touchLocked()
	return f.id, nil
}

// Remove leaves the page, if the phone is on it, and throws the phone away.
func (p *Phones) Remove(id string) error {
	return p.with(id, func(f *phone) error {
		f.outbox = nil
		p.list = deletePhone(p.list, f)
		delete(p.byUser, f.user)
		p.touchLocked()
		return nil
	})
}

// Start taps "Get Started".
func (p *Phones) Start(id string) error {
	return p.with(id, func(f *phone) error {
		if f.state != phoneNew && f.state != phoneLeft {
			return &errPhone{http.StatusConflict, "the phone has joined already"}
		}
		f.state = phoneJoining
		f.outbox = append(f.outbox, p.sayLocked(f, phoneMessage{Tap: true, Text: "Get Started", start: true}))
		p.wake()
		return nil
	})
}

// Say writes a text or, when that is empty, sends one of the pictures.
func (p *Phones) Say(id, text, picture string) error {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	switch {
	case (text == "") == (picture == ""):
		return &errPhone{http.StatusBadRequest, "either text or picture must be set"}
	case utf8.RuneCountInString(text) > maxText:
		return &errPhone{http.StatusBadRequest, fmt.Sprintf("text must have at most %d characters", maxText)}
	case picture != "" && !isPicture(picture):
		return &errPhone{http.StatusBadRequest, "picture is none of the built-in ones"}
	}
	return p.with(id, func(f *phone) error {
		return p.postLocked(f, phoneMessage{Text: text, Picture: picture})
	})
}

// postLocked puts down what the phone writes or taps, and has it posted.
func (p *Phones) postLocked(f *phone, m phoneMessage) error {
	if f.state != phoneJoined {
		return &errPhone{http.StatusConflict, "the phone must join first"}
	}
	if len(f.outbox) >= maxOutbox {
		return &errPhone{http.StatusConflict, "too much is still being sent"}
	}
	f.outbox = append(f.outbox, p.sayLocked(f, m))
	p.wake()
	return nil
}

// Leave is what a user does who blocks the page: from now on the Send API
// answers 551.
func (p *Phones) Leave(id string) error {
	return p.with(id, func(f *phone) error {
		if f.state != phoneJoined {
			return &errPhone{http.StatusConflict, "the phone has not joined"}
		}
		for _, m := range f.outbox {
			p.markLocked(f, m.N, phoneFailed)
		}
		f.outbox, f.typingUntil, f.state = nil, time.Time{}, phoneLeft
		p.touchLocked()
		return nil
	})
}

// userID is the n-th phone's id at its page. Another run on the same database
// has others.
func (p *Phones) userID(n int) string {
	return strconv.FormatUint(phoneUsers+wire.Mix(p.seed+uint64(n))%phoneUsers, 10) //nolint:gosec // counted from 1
}

// The phones' users have ids of 19 digits that begin with 2 or 3; a Source's
// begin with 1, and the platform's real ones are shorter. Their message ids
// carry a mark.
const (
	phoneUsers = 2_000_000_000_000_000_000
	phoneMark  = "m_phone-"
)

func isPhone(user string) bool {
	return len(user) == 19 && (user[0] == '2' || user[0] == '3') && isDigits(user)
}

// ofPhones tells whether a send is for a phone, or is a copy of what one wrote,
// provided that our sender's ids hold the event's id as Config.MessageID has
// it by default.
func ofPhones(recipient, id string) bool {
	return isPhone(recipient) || strings.Contains(id, phoneMark)
}

// leftPhone is the answer to a send for a phone that is not on the page.
func (a *API) leftPhone(page, to string) *answer {
	if !isPhone(to) {
		return nil
	}
	p := a.phones.Load()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.byUser[to]; f != nil && f.page == page && (f.state == phoneJoining || f.state == phoneJoined) {
		return nil
	}
	return errGone
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
