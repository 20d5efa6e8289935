package demo

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"chatclub/fakeapi"
	"chatclub/fakeapi/users"
	"chatclub/fakeapi/webhook"
	"chatclub/internal/backoff"
)

// Names are those of the pages, in the order in which they are made.
func Names() []string {
	return []string{"Jazz", "Chess", "Food", "Football", "Films", "Hiking", "Poetry", "Gardens"}
}

// lines are the texts of the crowd.
var lines = []string{
	"Good evening, everybody!", "Who was there yesterday?", "That was the best one this year.", "I disagree, but politely.",
	"Has anybody got a spare ticket?", "Look at that!", "Ha, exactly!", "Where do you all live?", "I'm from Porto.", "Köln here, grüße!",
	"What are you listening to?", "Something slow tonight.", "Who's up for Saturday?", "Count me in.", "Me too.", "I'll bring a friend.",
	"What time does it start?", "Half past eight, I think.", "Thanks!", "See you there.", "No way.", "Tell us more.", "Long day. Hello all.",
}

const (
	// flood is the factor of its limit that a page in a flood asks for. It pauses while
	// the backlog takes longer than mostWaiting, so that every backlog can be seen to
	// its end.
	flood       = 3
	mostWaiting = 7 * time.Second
	floodPoll   = 100 * time.Millisecond
	// Waves: the first page floods for waveTime of each wavePeriod, the first time
	// after waveStart.
	waveStart  = 3 * time.Second
	waveTime   = 7 * time.Second
	wavePeriod = 45 * time.Second
)

// CrowdConfig describes a Crowd.
type CrowdConfig struct {
	API     *fakeapi.API
	Webhook webhook.Config

	Pages     int
	FirstPage int // number of the first page
	Rooms     int // of each page
	Users     int // in each room
	// EventsPerSecond is the rate of all pages together while they are calm.
	EventsPerSecond float64
	Waves           bool // the first page floods now and then
	Limit           int  // of each page
}

// Crowd is the simulated people: one group for each of the first pages, whose pace
// can be changed, and one for all the others. Its methods are safe for concurrent
// use.
type Crowd struct {
	cfg    CrowdConfig
	groups []*group
	joined chan struct{}
}

// group is the people of one page, or of all that have no group of their own.
type group struct {
	users *users.Users
	calm  float64 // events a second

	mu sync.Mutex // held by a flood
}

// NewCrowd returns people who have not joined yet.
func NewCrowd(cfg CrowdConfig) (*Crowd, error) {
	c := &Crowd{cfg: cfg, joined: make(chan struct{})}
	own := min(cfg.Pages, len(Names()))
	for first := 0; first < cfg.Pages; {
		n := 1
		if first >= own {
			n = cfg.Pages - first
		}
		calm := cfg.EventsPerSecond * float64(n) / float64(cfg.Pages)
		parallel := 1 // or the rooms would hold others than the ledger expects
		if cfg.Rooms == 1 {
			parallel = 8
		}
		u, err := users.New(users.Config{
			API: cfg.API, Webhook: cfg.Webhook, Pages: n, FirstPage: cfg.FirstPage + first, Rooms: cfg.Rooms, Users: cfg.Users, JoinParallel: parallel,
			EventsPerSecond: calm, Texts: lines, Seed: uint64(first),
		})
		if err != nil {
			return nil, err
		}
		c.groups = append(c.groups, &group{users: u, calm: calm})
		first += n
	}
	return c, nil
}

// Pages returns the ids of all pages.
func (c *Crowd) Pages() []string {
	var list []string
	for _, g := range c.groups {
		list = append(list, g.users.Pages()...)
	}
	return list
}

// People returns the number of people.
func (c *Crowd) People() int { return c.cfg.Pages * c.cfg.Rooms * c.cfg.Users }

// Joined returns a channel that is closed when all have joined.
func (c *Crowd) Joined() <-chan struct{} { return c.joined }

// Events returns the number of events posted so far.
func (c *Crowd) Events() int64 {
	var n int64
	for _, g := range c.groups {
		n += g.users.Counts().Events
	}
	return n
}

// Member returns the id of somebody on a page with people of its own.
func (c *Crowd) Member(page string) (user string, ok bool) {
	if g := c.group(page); g != nil {
		return g.users.User(0, 1), true
	}
	return "", false
}

// Run lets all join, then chat for length (0: until ctx ends). Copies may still be
// under way then.
func (c *Crowd) Run(ctx context.Context, length time.Duration) error {
	joining, joinCtx := errgroup.WithContext(ctx)
	for _, g := range c.groups {
		joining.Go(func() error { return g.users.Join(joinCtx) })
	}
	if err := joining.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // ending ctx is how a run without end is ended
		}
		return err
	}
	close(c.joined)
	chatting, chatCtx := errgroup.WithContext(ctx)
	for _, g := range c.groups {
		chatting.Go(func() error { return g.users.Chat(chatCtx, length) })
	}
	waves, stop := context.WithCancel(ctx)
	var waving sync.WaitGroup
	if c.cfg.Waves {
		waving.Go(func() { c.wave(waves, length) })
	}
	err := chatting.Wait()
	stop()
	waving.Wait()
	return err
}

// wave floods the first page again and again, but not where its backlog would
// outlive a chat of that length.
func (c *Crowd) wave(ctx context.Context, length time.Duration) {
	page := c.groups[0].users.Pages()[0]
	for wait := waveStart; backoff.Sleep(ctx, wait); wait = wavePeriod - waveTime {
		if length > 0 && length < 3*waveTime {
			return
		}
		if c.waiting(page) > int64(c.cfg.Limit) {
			continue // it floods by hand
		}
		_ = c.Flood(ctx, page, waveTime) // the page has a group
	}
}

// Play is Run, followed by waiting for the copies under way, as that of one Users.
func (c *Crowd) Play(ctx, again context.Context, p users.PlayOptions) (whole bool, err error) {
	defer func() {
		for _, g := range c.groups {
			g.users.CloseIdleConnections()
		}
	}()
	return users.Play(ctx, again, c.cfg.API, func(ctx context.Context) error { return c.Run(ctx, p.Duration) }, p)
}

// Copies returns the ids of all that may be sent because of an event of one of them.
func (c *Crowd) Copies(page, mid, user string) []string {
	for _, g := range c.groups {
		if ids := g.users.Copies(page, mid, user); ids != nil {
			return ids
		}
	}
	return nil
}

func (c *Crowd) group(page string) *group {
	for _, g := range c.groups[:min(len(c.groups), len(Names()))] {
		if g.users.Pages()[0] == page {
			return g
		}
	}
	return nil
}

// Flood has a page ask for three times its limit, until the time is over or ctx ends.
func (c *Crowd) Flood(ctx context.Context, page string, length time.Duration) error {
	g := c.group(page)
	if g == nil {
		return errors.New("page is none of those that can be flooded")
	}
	g.mu.Lock()
	defer g.mu.Unlock() // one flood at a time, or the first that ends would calm the page
	pace := max(g.calm, float64(flood*c.cfg.Limit)/float64(c.cfg.Users-1))
	flooding := false
	for end := time.Now().Add(length); ; {
		on := ctx.Err() == nil && time.Now().Before(end) && c.waiting(page) < c.most()
		if on != flooding {
			flooding = on
			next := g.calm
			if on {
				next = pace
			}
			if err := g.users.SetPace(next); err != nil {
				return err
			}
		}
		if !backoff.Sleep(ctx, floodPoll) || !time.Now().Before(end) {
			return g.users.SetPace(g.calm)
		}
	}
}

// most returns the number of copies that may wait in a flood.
func (c *Crowd) most() int64 {
	return int64(mostWaiting.Seconds() * float64(c.cfg.API.Settings().Text.PerSecond))
}

// waiting returns the number of a page's copies that wait.
func (c *Crowd) waiting(page string) int64 { return c.cfg.API.Ledger().Accounts()[page].Pending }
