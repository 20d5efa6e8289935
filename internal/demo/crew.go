package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/app"
	"chatclub/internal/chaos"
	"chatclub/internal/console"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

const (
	// MaxDispatchers are as many as a page can show.
	MaxDispatchers = 64
	// goneTime is the time for which a dispatcher that has ended is shown.
	goneTime = 6 * time.Second
)

// The states of a dispatcher.
const (
	running  = "running"
	hung     = "hung"
	stopping = "stopping"
	killed   = "killed"
)

// CrewConfig describes a Crew.
type CrewConfig struct {
	Settings app.DispatcherSettings // of each
	// Connect opens a dispatcher's connection to the broker, with metrics of its own.
	// The crew closes it.
	Connect  func(name string, metrics prometheus.Registerer) (queue.Broker, error)
	Platform http.RoundTripper // to the Send API
	Tokens   sender.TokenSource
	Registry *prometheus.Registry
	Log      *slog.Logger
}

// Crew are the dispatchers: each as a program of its own in this process, with
// connections that can be cut. Its methods are safe for concurrent use.
type Crew struct {
	cfg CrewConfig

	mu      sync.Mutex
	members []*member // in the order in which they came; those that ended stay for a while
	joined  int
	article bool // they work the article's way
	ending  bool
	failure chan error // of the first dispatcher that ended by itself
	watches map[*watch]struct{}
	admin   string // where ServeHTTP is
}

// member is one dispatcher.
type member struct {
	name   string
	state  string
	since  time.Time
	link   *chaos.Link
	way    *chaos.Way
	broker queue.Broker
	calls  atomic.Int64 // that the platform answered
	run    func(context.Context) error
	ready  func(context.Context) error
	pages  *http.ServeMux // of its admin port; nil: it has none
	cancel context.CancelFunc
	done   chan error
}

// NewCrew returns a crew without dispatchers.
func NewCrew(cfg CrewConfig) *Crew {
	return &Crew{cfg: cfg, failure: make(chan error, 1), watches: make(map[*watch]struct{})}
}

// Run waits for ctx's end, or for a dispatcher that ends by itself. Then it stops all.
func (c *Crew) Run(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
	case err = <-c.failure:
	}
	c.mu.Lock()
	c.ending = true
	all := slices.Clone(c.members)
	c.mu.Unlock()
	return errors.Join(err, c.stop(all...))
}

// Add starts n dispatchers, and returns their names.
func (c *Crew) Add(ctx context.Context, n int) (names []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.activeLocked())+n > MaxDispatchers {
		return nil, fmt.Errorf("at most %d dispatchers can run", MaxDispatchers)
	}
	for range n {
		c.joined++
		names = append(names, fmt.Sprintf("D%d", c.joined))
	}
	return names, c.startLocked(ctx, names)
}

// startLocked starts dispatchers of these names.
func (c *Crew) startLocked(ctx context.Context, names []string) error {
	for _, name := range names {
		if c.ending {
			return errors.New("the demonstration ends")
		}
		m, err := c.start(ctx, name)
		if err != nil {
			return err
		}
		c.members = append(c.members, m)
	}
	return nil
}

// start starts one.
func (c *Crew) start(ctx context.Context, name string) (_ *member, err error) {
	metrics := prometheus.NewRegistry() // its own, because one of its name may have been before
	broker, err := c.cfg.Connect(name, metrics)
	if err != nil {
		return nil, err
	}
	m := &member{name: name, state: running, since: time.Now(), broker: broker, link: chaos.NewLink(broker), done: make(chan error, 1)}
	m.way = chaos.NewWay(m.link, &answered{c.cfg.Platform, c, m})
	if c.article {
		err = c.worker(m, metrics)
	} else {
		err = c.dispatcher(ctx, m, metrics)
	}
	if err != nil {
		return nil, errors.Join(err, broker.Close())
	}
	labelled := prometheus.WrapCollectorWith(prometheus.Labels{"program": name}, metrics)
	if err := c.cfg.Registry.Register(labelled); err != nil {
		return nil, errors.Join(fmt.Errorf("register the metrics of %s: %w", name, err), broker.Close())
	}
	var running context.Context
	running, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		err := m.run(running)
		if running.Err() == nil {
			select {
			case c.failure <- fmt.Errorf("dispatcher %s ended by itself: %w", name, err):
			default: // one is enough
			}
		}
		c.cfg.Registry.Unregister(labelled)
		m.done <- errors.Join(err, broker.Close())
	}()
	return m, nil
}

// dispatcher makes it one of ours.
func (c *Crew) dispatcher(ctx context.Context, m *member, metrics *prometheus.Registry) error {
	s := c.cfg.Settings
	s.Admin.Addr = ""
	p, err := app.NewDispatcher(ctx, app.DispatcherConfig{
		Settings: s, Tokens: c.cfg.Tokens, Transport: m.way,
		Options: app.Options{Instance: m.name, Broker: m.link, Registry: metrics, Log: c.cfg.Log.With("replica", m.name)},
	})
	if err != nil {
		return err
	}
	m.run, m.ready, m.pages = p.Run, p.Ready, http.NewServeMux()
	p.MountPages(m.pages)
	return nil
}

// activeLocked are those that have not been killed or stopped.
func (c *Crew) activeLocked() []*member {
	var list []*member
	for _, m := range c.members {
		if m.state == running || m.state == hung {
			list = append(list, m)
		}
	}
	return list
}

func (m *member) set(state string) { m.state, m.since = state, time.Now() }

// Replicas are the dispatchers for the console.
func (c *Crew) Replicas(context.Context) []console.Replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = slices.DeleteFunc(c.members, func(m *member) bool {
		return m.state == killed && time.Since(m.since) > goneTime
	})
	list := make([]console.Replica, len(c.members))
	for i, m := range c.members {
		list[i] = console.Replica{Name: m.name, State: m.state, Since: m.since, Calls: m.calls.Load(), InFlight: m.way.InFlight()}
		if m.state != killed && m.pages != nil {
			list[i].URL = c.admin + prefix + m.name
		}
	}
	return list
}

// prefix is the path below which a dispatcher's pages are, behind which comes its name.
const prefix = "/dispatchers/"

// Mount serves the dispatchers' admin pages below /dispatchers/NAME on an admin
// server of this address.
func (c *Crew) Mount(on interface {
	Handle(pattern string, h http.Handler)
}, addr string,
) {
	on.Handle(prefix, http.HandlerFunc(c.serve))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.admin = "http://" + addr
}

func (c *Crew) serve(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, prefix), "/")
	c.mu.Lock()
	i := slices.IndexFunc(c.members, func(m *member) bool { return m.name == name && m.state != killed })
	var pages *http.ServeMux
	if i >= 0 {
		pages = c.members[i].pages
	}
	c.mu.Unlock()
	if pages == nil {
		http.NotFound(w, r)
		return
	}
	http.StripPrefix(prefix+name, pages).ServeHTTP(w, r)
}

// Active are the names of those that work.
func (c *Crew) Active() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, m := range c.activeLocked() {
		names = append(names, m.name)
	}
	return names
}

// Ready returns nil when every dispatcher is ready.
func (c *Crew) Ready(ctx context.Context) error {
	c.mu.Lock()
	list := c.activeLocked()
	c.mu.Unlock()
	for _, m := range list {
		if err := m.ready(ctx); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// findLocked returns a member that works.
func (c *Crew) findLocked(name string) (*member, error) {
	for _, m := range c.activeLocked() {
		if m.name == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("no dispatcher %.20q runs", name)
}

// Kill cuts one off the broker and the platform, as when its process dies. It
// returns how many calls it had in flight.
func (c *Crew) Kill(name string) (inFlight int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.findLocked(name)
	if err != nil {
		return 0, err
	}
	m.link.Cut()
	inFlight = m.way.InFlight()
	m.cancel()
	m.set(killed)
	return inFlight, nil
}

// Hang makes the platform stop answering one, until resume is called.
func (c *Crew) Hang(name string) (resume func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.findLocked(name)
	if err != nil {
		return nil, err
	}
	m.way.SetHealth(chaos.Hung)
	m.set(hung)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		m.way.SetHealth(chaos.Healthy)
		if m.state == hung {
			m.set(running)
		}
	}, nil
}

// Remove stops one cleanly.
func (c *Crew) Remove(name string) error {
	c.mu.Lock()
	m, err := c.findLocked(name)
	if err == nil {
		m.set(stopping)
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.stop(m)
}

// stop ends dispatchers together, and forgets them.
func (c *Crew) stop(list ...*member) error {
	for _, m := range list {
		m.cancel()
	}
	var errs []error
	for _, m := range list {
		err := <-m.done
		m.done <- err               // it may be waited for again
		if c.stateOf(m) != killed { // a killed one could end nothing well
			errs = append(errs, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = slices.DeleteFunc(c.members, func(m *member) bool { return m.state != killed && slices.Contains(list, m) })
	return errors.Join(errs...)
}

func (c *Crew) stateOf(m *member) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.state
}

// Switch has all dispatchers end, and start again the article's way or ours.
func (c *Crew) Switch(ctx context.Context, article bool) error {
	c.mu.Lock()
	old := c.activeLocked()
	for _, m := range old {
		m.set(stopping)
	}
	c.mu.Unlock()
	err := c.stop(old...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.article = article
	var names []string
	for _, m := range old {
		names = append(names, m.name)
	}
	return errors.Join(err, c.startLocked(ctx, names))
}

// Article reports whether they work the article's way.
func (c *Crew) Article() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.article
}

// watch waits for the next call that is accepted for a page.
type watch struct {
	page, besides string
	seen          chan string
}

// NextSend returns a channel that gets the name of the dispatcher that next has a
// message for a page accepted, but for one. An empty page is any. The caller must
// call forget.
func (c *Crew) NextSend(page, besides string) (by <-chan string, forget func()) {
	w := &watch{page: page, besides: besides, seen: make(chan string, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches[w] = struct{}{}
	return w.seen, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watches, w)
	}
}

// sent tells those who watch.
func (c *Crew) sent(page, by string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watches {
		if w.besides != by && (w.page == "" || w.page == page) {
			select {
			case w.seen <- by:
			default:
			}
		}
	}
}

// answered is a member's way to the platform, which sees its answers.
type answered struct {
	http.RoundTripper

	crew   *Crew
	member *member
}

// RoundTrip implements http.RoundTripper.
func (a *answered) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	a.member.calls.Add(1)
	if resp.StatusCode == http.StatusOK {
		a.crew.sent(path.Base(path.Dir(r.URL.Path)), a.member.name)
	}
	return resp, nil
}
