package demo

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/web"
	"chatclub/internal/backoff"
	"chatclub/internal/console"
	"chatclub/internal/machine"
)

// Config is the configuration of New. All fields must be set.
type Config struct {
	API    *fakeapi.API
	Site   *web.Site
	Fake   string // address of the platform's own page
	Crowd  *Crowd
	Crew   *Crew
	Divert *Divert
	// Depth returns the number of messages on the broker, in all queues; -1: not known.
	Depth func(context.Context) int
}

// Demo is the demonstration as the console shows it. New makes one; what visitors
// start lives while Run does. Its methods are safe for concurrent use.
type Demo struct {
	receipts

	cfg     Config
	proxy   *httputil.ReverseProxy
	pages   []string
	limit   int // that the platform had in the beginning
	console *console.Console

	running context.Context //nolint:containedctx // of Run; actions outlive the requests that began them
	stop    context.CancelFunc
	work    sync.WaitGroup

	mu        sync.Mutex
	ended     bool
	busy      map[string]going // actions that go on
	tour      *console.Tour
	lost      int64 // copies that nobody holds
	explained int64 // copies that may come twice, because a dispatcher was killed
	quiet     time.Time
	machine   string
	ending    string // the things waited for at the end
	processor struct {
		at  time.Time
		use machine.Use
	}
}

// going is an action that goes on.
type going struct {
	until time.Time
	page  string // that it is done to; empty: to all
}

var _ console.Demo = (*Demo)(nil)

// New makes a demonstration.
func New(cfg Config) (*Demo, error) {
	to, err := url.Parse(cfg.Fake)
	if err != nil {
		return nil, fmt.Errorf("new demo: %w", err)
	}
	d := &Demo{cfg: cfg, pages: cfg.Crowd.Pages(), limit: cfg.API.Settings().Text.PerSecond, busy: make(map[string]going)}
	d.running, d.stop = context.WithCancel(context.Background())
	d.proxy = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		// The guard before this has seen where the request comes from.
		r.Out.Header.Del("Origin")
		r.Out.Header.Del("Sec-Fetch-Site")
	}}
	return d, nil
}

// Show names the console that shows it. Call it before Run.
func (d *Demo) Show(c *console.Console) { d.console = c }

// Run looks at the machine and for what is lost, until ctx ends. Then it ends what
// visitors started.
func (d *Demo) Run(ctx context.Context) error {
	var forwarding sync.WaitGroup
	forwarding.Go(func() { d.forward(d.running) })
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.lookAtMachine()
			d.lookForLost(ctx)
		case <-ctx.Done():
			d.mu.Lock()
			d.ended = true
			d.mu.Unlock()
			d.stop()
			d.work.Wait()
			forwarding.Wait()
			return nil
		}
	}
}

// forward brings what the article's workers left back to ours while these work, and
// takes what waits for ours to them while those do.
func (d *Demo) forward(running context.Context) {
	for running.Err() == nil {
		article := d.cfg.Crew.Article()
		ctx, cancel := context.WithCancel(running)
		var watching sync.WaitGroup
		watching.Go(func() {
			for d.cfg.Crew.Article() == article && backoff.Sleep(ctx, 50*time.Millisecond) {
			}
			cancel()
		})
		if article {
			d.cfg.Divert.Gather(ctx)
		} else {
			d.cfg.Divert.Forward(ctx)
		}
		watching.Wait()
	}
}

// Pages implements console.Demo.
func (d *Demo) Pages() []string { return d.pages[:min(len(d.pages), console.MaxPages)] }

// Name implements console.Demo.
func (d *Demo) Name(page string) string {
	if i := slices.Index(d.pages, page); i >= 0 && i < len(Names()) {
		return Names()[i]
	}
	return console.ShortName(page)
}

// Counts implements console.Demo.
func (d *Demo) Counts() map[string]console.Counts {
	set := d.cfg.API.Settings()
	all := make(map[string]console.Counts, len(d.pages))
	for page, c := range d.cfg.API.Ledger().Accounts() {
		all[page] = console.Counts{
			Asked: c.Expected + c.Excused, Sent: c.Calls, Refused: c.Refused, Copies: c.Accepted,
			Delay: c.Delay, Waiting: max(0, c.Pending), Limit: set.TextLimit(page),
		}
	}
	return all
}

// Verdict implements console.Demo.
func (d *Demo) Verdict() console.Verdict {
	t := d.totals()
	d.mu.Lock()
	defer d.mu.Unlock()
	return console.Verdict{
		Expected: t.Expected, Accepted: t.Accepted, Waiting: t.Pending - d.lost, Lost: d.lost,
		Duplicated: t.Duplicated, Explained: min(d.explained, t.Duplicated), Unexpected: t.Unexpected, Refused: t.Refused,
	}
}

func (d *Demo) totals() ledger.Counts { return d.cfg.API.Ledger().Totals() }

// lostTime is the time with nothing held after which awaited copies count as lost.
const lostTime = 5 * time.Second

// lookForLost finds copies that are awaited while nobody holds anything.
func (d *Demo) lookForLost(ctx context.Context) {
	held := d.cfg.Depth(ctx)
	if held == 0 && d.console != nil {
		for _, x := range d.console.State().Dispatchers {
			held += x.InFlight
			for _, e := range x.Excess {
				held += e.Waiting
			}
		}
	}
	pending := d.totals().Pending
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	switch {
	case held != 0 || pending == 0 || d.cfg.Crew.Article():
		d.quiet, d.lost = time.Time{}, min(d.lost, pending)
	case d.quiet.IsZero():
		d.quiet = now
	case now.Sub(d.quiet) > lostTime:
		// Those that were announced since are on their way.
		if r := d.cfg.API.Ledger().Report(ledger.Query{}); r.PendingAgeMax > lostTime {
			d.lost = pending
		}
	}
}

// machineTime is over how long the machine is measured.
const machineTime = 5 * time.Second

// lookAtMachine says so when other programs have most of the processors.
func (d *Demo) lookAtMachine() {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.processor.at) < machineTime {
		return
	}
	own, err := machine.OwnCPU()
	if err != nil {
		return
	}
	m := machine.Read(own)
	if m == nil {
		return
	}
	before := d.processor.use
	first := d.processor.at.IsZero()
	d.processor.at, d.processor.use = now, *m
	if first {
		return
	}
	d.machine = ""
	if share := m.OthersSince(before); share > machine.MostOthers {
		d.machine = fmt.Sprintf("Other programs have %.0f %% of this machine's %d processors: what you see is slower than it is.", 100*share, runtime.NumCPU())
	}
}

// Machine implements console.Demo.
func (d *Demo) Machine() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.machine
}

// Say names the things waited for at the end.
func (d *Demo) Say(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ending = strings.ToUpper(line[:1]) + line[1:] + "."
}

// Ending implements console.Demo.
func (d *Demo) Ending() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ending
}

// Strategy implements console.Demo.
func (d *Demo) Strategy() string {
	if d.cfg.Crew.Article() {
		return "article"
	}
	return "chatclub"
}

// Tour implements console.Demo.
func (d *Demo) Tour() *console.Tour {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tour
}

// Phones implements console.Demo.
func (d *Demo) Phones(since uint64) (changes any, now uint64, changed <-chan struct{}) {
	return d.cfg.Site.Phones(since)
}

// Forward implements console.Demo.
func (d *Demo) Forward(w http.ResponseWriter, r *http.Request) { d.proxy.ServeHTTP(w, r) }
