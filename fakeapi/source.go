package fakeapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/fakeapi/webhook"
)

// SourceConfig describes the simulated users of a Source. API, URL and Secret
// must be set.
//
// All pages share one pace. For pages of different paces run several sources
// on one API, with different FirstPage.
type SourceConfig struct {
	API       *API
	URL       string            // of the webhook
	Secret    string            // signs the webhooks; never logged
	Transport http.RoundTripper // nil: one of its own
	Log       *slog.Logger      // of a webhook that keeps failing; nil: none

	Pages     int // default 1
	FirstPage int // number of the first page; page ids are computed from it
	Rooms     int // per page, default 1
	// Users per room, default 10. With several rooms per page it must equal
	// the room capacity of the system under test, which fills a room before it
	// opens the next: users k × Users … (k+1) × Users − 1 are room k.
	Users int
	// JoinParallel is how many users of one page join at a time, never across
	// a room's end. Default 1: strictly one after another.
	JoinParallel int
	JoinTimeout  time.Duration // how long one user waits for the welcome; default 1 minute

	EventsPerSecond float64 // of all pages together in the chat; default 20
	Duplicates      float64 // share of webhooks that come a second time, up to 2 s later
	Batches         float64 // share of webhooks that carry 2 to 5 events
	OutOfOrder      float64 // share of webhooks that come up to 1 s late, behind younger ones
	Pictures        float64 // share of messages that carry 1 to 3 pictures, half of them without text
	Receipts        bool    // echo, delivery and read events for what the API accepted
	BadRecipients   float64 // share of users who cannot be sent to any more once the chat begins

	Timeout          time.Duration // for one answer, default 5 s as Messenger's
	RetryFor         time.Duration // after the first attempt, default 1 minute
	AlertAfter       time.Duration // of failures without a success in between, default 15 minutes
	UnsubscribeAfter time.Duration // likewise, default 1 hour: then the source ends, as Messenger does
	MaxInFlight      int           // webhooks unanswered at a time, default 4096; beyond it events are skipped

	Seed uint64
	// Run makes the message ids of this run differ from those of others on the
	// same database. Default: the present time.
	Run string
}

// Source simulates users on pages with rooms: they join, then they chat. Every
// event's copies are announced to the API's ledger before it is posted, so the
// ledger knows what must arrive. NewSource makes one.
type Source struct {
	cfg   SourceConfig
	api   *API
	hook  *webhook.Client
	seed  uint64
	seq   atomic.Uint64 // numbers the mids
	count counters
	slots chan struct{} // one for each webhook under way in the chat

	joinedOnce sync.Once
	joined     chan struct{} // closed when all have joined
}

// NewSource makes a source that has not begun.
func NewSource(c SourceConfig) (*Source, error) {
	c.fill()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("new event source: %w", err)
	}
	hook, err := webhook.New(webhook.Config{
		URL: c.URL, Secret: c.Secret, Transport: c.Transport, Log: c.Log, Now: c.API.now, MaxInFlight: c.MaxInFlight,
		Timeout: c.Timeout, RetryFor: c.RetryFor, AlertAfter: c.AlertAfter, UnsubscribeAfter: c.UnsubscribeAfter,
	})
	if err != nil {
		return nil, fmt.Errorf("new event source: %w", err)
	}
	s := &Source{
		cfg: c, api: c.API, seed: c.Seed ^ hashString(c.Run), slots: make(chan struct{}, c.MaxInFlight), joined: make(chan struct{}), hook: hook,
	}
	c.API.mu.Lock()
	defer c.API.mu.Unlock()
	c.API.sources = append(c.API.sources, s)
	return s, nil
}

func (c *SourceConfig) fill() {
	setDefault(&c.Pages, 1)
	setDefault(&c.Rooms, 1)
	setDefault(&c.Users, 10)
	setDefault(&c.JoinParallel, 1)
	setDefault(&c.MaxInFlight, 4096)
	setDefault(&c.EventsPerSecond, 20)
	setDefault(&c.JoinTimeout, time.Minute)
	setDefault(&c.Timeout, 5*time.Second)
	setDefault(&c.RetryFor, time.Minute)
	setDefault(&c.AlertAfter, 15*time.Minute)
	setDefault(&c.UnsubscribeAfter, time.Hour)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Run == "" && c.API != nil {
		c.Run = strconv.FormatInt(c.API.now().UnixNano(), 36)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// usersPerPage keeps the ids of different pages' users apart; see Source.User.
const usersPerPage = 10_000_000

func (c *SourceConfig) validate() error {
	var faults []error
	if c.API == nil {
		faults = append(faults, errors.New("API must be set"))
	}
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" {
		faults = append(faults, errors.New("URL must be an absolute address")) // it may hold credentials: not quoted
	}
	if c.Secret == "" {
		faults = append(faults, errors.New("Secret must be set"))
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"Pages", c.Pages}, {"Rooms", c.Rooms}, {"JoinParallel", c.JoinParallel}, {"MaxInFlight", c.MaxInFlight}} {
		if n.value < 1 {
			faults = append(faults, fmt.Errorf("%s %d must be at least 1", n.name, n.value))
		}
	}
	if c.Users < 2 {
		faults = append(faults, fmt.Errorf("Users %d must be at least 2: one alone has nobody to write to", c.Users))
	}
	if c.Rooms*c.Users > usersPerPage {
		faults = append(faults, fmt.Errorf("Rooms × Users %d must be at most %d", c.Rooms*c.Users, usersPerPage))
	}
	if !(c.EventsPerSecond > 0) || c.EventsPerSecond > 1e6 {
		faults = append(faults, fmt.Errorf("EventsPerSecond %g must be above 0 and at most 1e6", c.EventsPerSecond))
	}
	for _, p := range []struct {
		name  string
		value float64
	}{{"Duplicates", c.Duplicates}, {"Batches", c.Batches}, {"OutOfOrder", c.OutOfOrder}, {"Pictures", c.Pictures}, {"BadRecipients", c.BadRecipients}} {
		if err := share(p.value); err != nil {
			faults = append(faults, fmt.Errorf("%s %g %w", p.name, p.value, err))
		}
	}
	return errors.Join(faults...)
}

// PageID is the id of simulated page number n.
func PageID(n int) string { return strconv.Itoa(100_000_000_000_000 + n) }

// Page is the id of the source's i-th page.
func (s *Source) Page(i int) string { return PageID(s.cfg.FirstPage + i) }

// User is the id of the n-th user of the source's i-th page. Ids are scoped to
// a page, as the platform's are: no two pages share one.
func (s *Source) User(i, n int) string {
	return strconv.Itoa(1_000_000_000_000_000_000 + (s.cfg.FirstPage+i)*usersPerPage + n)
}

// Tokens are the pages of the source with their access tokens, as the system
// under test needs them.
func (s *Source) Tokens() map[string]string {
	m := make(map[string]string, s.cfg.Pages)
	for i := range s.cfg.Pages {
		id := s.Page(i)
		if token, ok := s.api.Token(id); ok {
			m[id] = token
		}
	}
	return m
}

// Run lets all users join, then chat for the duration (0: until ctx ends). It
// returns when every webhook is answered or given up, with nil also when ctx
// ended. Copies may still be under way then: see Settle.
func (s *Source) Run(ctx context.Context, duration time.Duration) error {
	if err := s.Join(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // ending ctx is how a run without end is ended
	}
	return s.Chat(ctx, duration)
}

// settlePoll is how often Settle looks: it bounds how late it sees the end.
const settlePoll = 20 * time.Millisecond

// Settle waits until the ledger awaits nothing, at most for timeout. It
// returns how many ids are still awaited: these are lost unless they come
// later.
func (s *Source) Settle(ctx context.Context, timeout time.Duration) int {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for s.api.book.Pending() > 0 {
		if sleep(ctx, settlePoll) != nil {
			break
		}
	}
	return s.api.book.Pending()
}
