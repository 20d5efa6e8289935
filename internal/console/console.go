// Package console is chatclub's own page: it shows what dispatchers do, page by
// page. Its content comes from the dispatchers' GET /pages, merged, so that it
// can stand beside any deployment. There it also pauses and resumes pages, and shows,
// replays and purges dead letters, for users with the password. A demonstration gives
// it more: a judge that counts what arrived, phones, and things to do.
package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"chatclub/internal/deadletter"
	"chatclub/internal/queue"
)

// Replica is a dispatcher that is asked.
type Replica struct {
	Name  string
	URL   string    // of its admin port; empty: it is not asked
	State string    // as in Dispatcher; empty: running, or lost while it does not answer
	Since time.Time // in this state

	// Of a dispatcher that is not asked.
	Calls    int64 // so far
	InFlight int
}

// Counts counts a page's calls and copies since it was first seen. It never shrinks.
type Counts struct {
	Asked   int64         // copies that came
	Sent    int64         // calls that were accepted
	Refused int64         // calls
	Copies  int64         // that were accepted
	Delay   time.Duration // of these copies, in all
	Waiting int64         // copies, at this moment
	Limit   int           // calls a second; 0: not known
}

// Demo is the source of a demonstration's data and actions.
type Demo interface {
	// Pages returns the ids of the pages in the order in which they are shown.
	Pages() []string
	Name(page string) string
	// Counts returns the judge's counts of each page.
	Counts() map[string]Counts
	Verdict() Verdict
	Strategy() string
	// Ending says what is waited for at the end, or "" before it.
	Ending() string
	// Machine says why the figures are worth little just now, or "".
	Machine() string
	Actions() []Action
	Receipts() []Receipt // the latest first
	Markers() []Marker
	Tour() *Tour
	// Act does something. Its error is a sentence for the visitor.
	Act(ctx context.Context, action string, on Target) (receipt int, err error)
	// Phones returns the changes of the phones after a revision, which is 0 at first,
	// the revision now, and a channel that is closed at the next change.
	Phones(since uint64) (changes any, now uint64, changed <-chan struct{})
	// Forward serves the platform's parts: phones, ledger and settings.
	Forward(w http.ResponseWriter, r *http.Request)
}

// Target is the page, dispatcher or number that an action is for.
type Target struct {
	Page       string `json:"page"`
	Dispatcher string `json:"dispatcher"`
	Count      int    `json:"count"`
}

// Config is the configuration of New. Replicas must be set.
type Config struct {
	Replicas func(context.Context) []Replica // in the order in which they are shown
	// Token is sent to the admin ports; empty: none. With one, and without a Demo, it is
	// the password of the page, on which pages are paused and resumed, and dead letters
	// replayed and purged. Without one the page only shows.
	Token   string
	Core    func(context.Context) []Replica // the cores, which take orders before dispatchers; nil: none
	Webhook func(context.Context) []Replica // the webhooks; nil: they are not asked
	Broker  queue.Broker                    // RabbitMQ, whose queues are counted; nil: it is not asked
	Dead    *deadletter.Queue               // nil: no dead letters are shown
	Log     *slog.Logger                    // nil: no log
	Demo    Demo                            // nil: it stands beside a deployment
	Every   time.Duration                   // between two looks of Run; default 250 ms
	Client  *http.Client                    // nil: one of its own
}

// Console looks at the dispatchers while Run runs, or when Look is called, and serves
// its page. New makes one. All methods are safe for concurrent use, except that Look
// is for one goroutine, and not beside Run.
type Console struct {
	cfg     Config
	merger  *merger
	started time.Time
	login   *login       // nil: everybody is in
	dead    *deadLetters // nil: none are shown

	mu      sync.Mutex
	letters *Dead         // nil: none are shown
	health  health        // as of the last look at it
	latest  []byte        // the State as JSON
	state   State         //
	changed chan struct{} // closed at the next one
}

// New returns a Console that has not looked yet.
func New(c Config) (*Console, error) {
	if c.Replicas == nil {
		return nil, errors.New("new console: Replicas must be set")
	}
	if c.Every == 0 {
		c.Every = 250 * time.Millisecond
	}
	if c.Client == nil {
		c.Client = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext}}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	k := &Console{cfg: c, merger: newMerger(), started: time.Now(), changed: make(chan struct{})}
	if c.Demo == nil && c.Token != "" {
		k.login = newLogin(c.Token, c.Log)
	}
	if c.Dead != nil {
		k.letters = &Dead{Count: -1}
		k.dead = newDeadLetters(*c.Dead, k.login == nil, func(d Dead) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.letters = &d
		})
	}
	k.look(nil)
	return k, nil
}

// Run looks at the dispatchers until ctx ends.
func (k *Console) Run(ctx context.Context) error {
	defer k.End()
	var beside sync.WaitGroup
	defer beside.Wait()
	if k.dead != nil {
		beside.Go(func() { k.dead.watch(ctx) })
	}
	if k.cfg.Demo == nil {
		beside.Go(func() { k.watchHealth(ctx) })
	}
	tick := time.NewTicker(k.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			k.Look(ctx)
		}
	}
}

// Look looks at the dispatchers once, for a caller that does not use Run, and returns
// what it saw.
func (k *Console) Look(ctx context.Context) State {
	k.look(k.ask(ctx))
	return k.State()
}

// End closes the connections after the last Look. Run does so by itself.
func (k *Console) End() {
	k.cfg.Client.CloseIdleConnections()
}

// State returns the latest state.
func (k *Console) State() State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// look makes the next state of the replicas' answers.
func (k *Console) look(answers []answer) {
	now := time.Now()
	s := State{Now: now, Started: k.started, ReadOnly: true, Strategy: "chatclub", Actions: []Action{}, Receipts: []Receipt{}, Markers: []Marker{}}
	var counts map[string]Counts
	var shown []string
	name := ShortName
	if d := k.cfg.Demo; d != nil {
		s.Demo, s.ReadOnly = true, false
		counts, shown, name = d.Counts(), d.Pages(), d.Name
		v := d.Verdict()
		s.Verdict, s.Machine, s.Strategy, s.Tour = &v, d.Machine(), d.Strategy(), d.Tour()
		s.Actions, s.Receipts, s.Markers = d.Actions(), d.Receipts(), d.Markers()
	} else if k.login != nil {
		s.ReadOnly, s.Login = false, true
		s.Actions = []Action{{Name: pause, Enabled: true}, {Name: resume, Enabled: true}}
	}
	k.mu.Lock()
	s.Dead, s.Programs, s.Broker = k.letters, k.health.programs, k.health.broker
	k.mu.Unlock()
	s.Pages, s.AllPages, s.Dispatchers = k.merger.merge(now, answers, counts, shown, name)
	s.Sentence = headline(&s)
	if d := k.cfg.Demo; d != nil && d.Ending() != "" {
		s.Sentence = Sentence{d.Ending(), Excess}
	}
	b, err := json.Marshal(s)
	if err != nil { // no value of a State can make it fail
		panic(fmt.Sprintf("console: encode the state: %v", err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state, k.latest = s, b
	close(k.changed)
	k.changed = make(chan struct{})
}

// ShortName names a page by its id, where no name is known: ids differ at their ends.
func ShortName(page string) string {
	return "…" + page[max(0, len(page)-5):]
}
