// Package users simulates people on pages with rooms: they join, then they
// chat. Before an event is posted to the webhook its copies are announced to
// the platform's ledger, so the ledger knows which must arrive.
package users

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/webhook"
	"chatclub/fakeapi/wire"
)

// Config describes the users. API and Webhook must be set.
//
// All pages share one pace. For pages of different paces make several Users on
// one API, with different FirstPage.
type Config struct {
	API     *fakeapi.API
	Webhook webhook.Config // Now and MaxInFlight are set by New

	Pages     int // default 1
	FirstPage int // number of the first page; page ids are computed from it
	Rooms     int // per page, default 1
	// Users per room, default 10. With several rooms per page it must equal
	// the room capacity of the system under test. That fills a room before it
	// opens the next: users k × Users … (k+1) × Users − 1 are room k.
	Users int
	// JoinParallel is the number of users of one page that join at a time, never across
	// a room's end. Default 1: strictly one after another.
	JoinParallel int
	JoinTimeout  time.Duration // how long one user waits for the welcome; default 1 minute

	EventsPerSecond float64 // of all pages together in the chat; default 20; SetPace changes it
	// Texts are the texts that the users write. Default: texts with characters that a
	// careless system gets wrong.
	Texts         []string
	Duplicates    float64 // share of webhooks that come a second time, up to 2 s later
	Batches       float64 // share of webhooks that carry 2 to 5 events
	OutOfOrder    float64 // share of webhooks that come up to 1 s late, behind younger ones
	Pictures      float64 // share of messages that carry 1 to 3 pictures, half of them without text
	Receipts      bool    // echo, delivery and read events for every accepted message
	BadRecipients float64 // share of users who cannot be sent to any more once the chat begins

	MaxInFlight int // webhooks unanswered at a time, default 4096; beyond it events are skipped

	Seed uint64
}

// Users are the people of one run. New makes them. All methods are safe for
// concurrent use.
type Users struct {
	cfg    Config
	api    *fakeapi.API
	hook   *webhook.Client
	seed   uint64        // of the message ids
	events atomic.Uint64 // numbers the message ids
	counts struct{ joined, pictures, repeats, receipts, skipped atomic.Int64 }
	slots  chan struct{} // one for each webhook under way in the chat
	pace   pace

	joinedOnce sync.Once
	joined     chan struct{} // closed when all have joined
}

// New makes users who have not joined yet. The platform reports their counts
// beside those of its ledger.
func New(c Config) (*Users, error) {
	c, hook, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new users: %w", err)
	}
	// The time makes the message ids differ from those of other runs on the same database.
	run := wire.Mix(uint64(c.API.Now().UnixNano()))
	u := &Users{
		cfg: c, api: c.API, hook: hook, seed: c.Seed ^ run,
		slots: make(chan struct{}, c.MaxInFlight), joined: make(chan struct{}),
		pace: pace{perSecond: c.EventsPerSecond, changed: make(chan struct{})},
	}
	c.API.ReportUsers(u.Counts)
	return u, nil
}

// withDefaults sets the fields that are not set. Its error names every fault.
func (c Config) withDefaults() (Config, *webhook.Client, error) {
	c.Pages = cmp.Or(c.Pages, 1)
	c.Rooms = cmp.Or(c.Rooms, 1)
	c.Users = cmp.Or(c.Users, 10)
	c.JoinParallel = cmp.Or(c.JoinParallel, 1)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 4096)
	c.EventsPerSecond = cmp.Or(c.EventsPerSecond, 20)
	c.JoinTimeout = cmp.Or(c.JoinTimeout, time.Minute)
	if len(c.Texts) == 0 {
		c.Texts = texts
	}
	c.Webhook.RetryFor = cmp.Or(c.Webhook.RetryFor, time.Minute)
	c.Webhook.MaxInFlight = c.MaxInFlight
	faults := c.faults()
	if c.API == nil {
		faults = append(faults, errors.New("API must be set"))
	} else {
		c.Webhook.Now = c.API.Now
	}
	hook, err := webhook.New(c.Webhook)
	return c, hook, errors.Join(append(faults, err)...)
}

const (
	// firstUser is the id of the first user of page 0.
	firstUser = 1_000_000_000_000_000_000
	// usersPerPage keeps the ids of different pages' users apart; see Users.user.
	usersPerPage = 10_000_000
	// freshPages is the number of pages that a run can have before its ids meet those
	// of a run that begins a second later.
	freshPages = 1000
	// freshSeconds bounds the numbers, so that users' ids keep their 19 digits and
	// begin with 1. The same numbers come again after three years.
	freshSeconds = 99_000_000
)

// FreshPage returns a Config.FirstPage that no run had which began at another
// time. On a database that was used before, its pages have no members yet.
func FreshPage(now time.Time) int { return int(now.Unix()%freshSeconds) * freshPages }

func (c *Config) faults() []error {
	var faults []error
	for _, n := range []struct {
		name  string
		value int
	}{{"Pages", c.Pages}, {"Rooms", c.Rooms}, {"JoinParallel", c.JoinParallel}, {"MaxInFlight", c.MaxInFlight}} {
		if n.value < 1 {
			faults = append(faults, fmt.Errorf("%s %d must be at least 1", n.name, n.value))
		}
	}
	if c.Users < 2 {
		faults = append(faults, fmt.Errorf("Users %d must be at least 2: one alone has no other to write to", c.Users))
	}
	if c.Rooms*c.Users > usersPerPage {
		faults = append(faults, fmt.Errorf("Rooms × Users %d must be at most %d", c.Rooms*c.Users, usersPerPage))
	}
	if !isPace(c.EventsPerSecond) {
		faults = append(faults, fmt.Errorf("EventsPerSecond %g must be above 0 and at most 1e6", c.EventsPerSecond))
	}
	for _, p := range []struct {
		name  string
		value float64
	}{{"Duplicates", c.Duplicates}, {"Batches", c.Batches}, {"OutOfOrder", c.OutOfOrder}, {"Pictures", c.Pictures}, {"BadRecipients", c.BadRecipients}} {
		if !(p.value >= 0 && p.value <= 1) {
			faults = append(faults, fmt.Errorf("%s %g must be 0 to 1", p.name, p.value))
		}
	}
	return faults
}

// Pages returns the ids of the users' pages.
func (u *Users) Pages() []string {
	list := make([]string, u.cfg.Pages)
	for i := range list {
		list[i] = u.page(i)
	}
	return list
}

// page returns the id of the i-th page.
func (u *Users) page(i int) string { return fakeapi.PageID(u.cfg.FirstPage + i) }

// User returns the id of the n-th user of the i-th page. Ids are scoped to a
// page, as the platform's are: no two pages share one.
func (u *Users) User(i, n int) string {
	return strconv.Itoa(firstUser + (u.cfg.FirstPage+i)*usersPerPage + n)
}

// Copies returns the ids of all that may be sent because of a user's event: the
// copies for the others in its room, and an answer to itself. They are none if the
// user is not one of these.
func (u *Users) Copies(page, mid, user string) (ids []string) {
	number, err := strconv.Atoi(user)
	if err != nil {
		return nil
	}
	i, n := (number-firstUser)/usersPerPage-u.cfg.FirstPage, (number-firstUser)%usersPerPage
	if i < 0 || i >= u.cfg.Pages || n < 0 || n >= u.cfg.Rooms*u.cfg.Users || u.page(i) != page {
		return nil
	}
	for _, to := range append(u.others(i, n), user) {
		ids = append(ids, u.api.MessageID(page, mid, to))
	}
	return ids
}

// Run lets all users join, then chat for the duration (0: until ctx ends). It
// returns when every webhook is answered or given up, and returns nil also when
// ctx ended. Copies may still be under way then: see Play.
func (u *Users) Run(ctx context.Context, duration time.Duration) error {
	if err := u.Join(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // ending ctx is how a run without end is ended
	}
	return u.Chat(ctx, duration)
}

// Counts returns the counts of the users' actions so far.
func (u *Users) Counts() fakeapi.UserCounts {
	n := &u.counts
	return fakeapi.UserCounts{
		Counts: u.hook.Counts(), Joined: n.joined.Load(), Pictures: n.pictures.Load(),
		Repeats: n.repeats.Load(), Receipts: n.receipts.Load(), Skipped: n.skipped.Load(),
	}
}

// CloseIdleConnections closes the connections to the webhook that wait for a next
// post. A webhook that stops would wait for those that never had one.
func (u *Users) CloseIdleConnections() { u.hook.CloseIdleConnections() }

// nextMID makes the next message id.
func (u *Users) nextMID() string { return string(wire.AppendMID(nil, u.seed, u.events.Add(1))) }
