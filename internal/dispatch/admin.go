package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	"chatclub/internal/circuit"
	"chatclub/internal/message"
	"chatclub/internal/orders"
)

// listLimit bounds each list in the answer of GET /pages.
const listLimit = 1000

// Status is the state of a dispatcher at a moment, the answer of GET /pages. Counters
// begin when the page was last forgotten, a minute after it had nothing to do.
type Status struct {
	InFlight   int             `json:"in_flight"`  // calls
	Limit      int             `json:"limit"`      // calls at a time
	APIDown    bool            `json:"api_down"`   // the API takes no calls, and is probed
	Partitions []int           `json:"partitions"` // of which something was delivered lately
	Pages      []PageStatus    `json:"pages"`      // those in excess first, then those with the most calls
	Suspended  []SuspendedPage `json:"suspended"`
	Paused     []PausedPage    `json:"paused"`            // by operators: the same on every replica
	Limited    []LimitedPage   `json:"limited,omitempty"` // has limits by operators: the same on every replica
}

// LimitedPage is a page whose limits operators have ordered. Those that are missing are as
// configured.
type LimitedPage struct {
	Page string `json:"page"`
	message.Limits
}

// PausedPage is a page that operators have paused.
type PausedPage struct {
	Page   string     `json:"page"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until,omitempty"` // missing: until it is resumed
	Reason string     `json:"reason,omitempty"`
}

// SuspendedPage is a page that nothing is sent to.
type SuspendedPage = circuit.SuspendedPage

// PageStatus is one page and class.
type PageStatus struct {
	Page     string     `json:"page"`
	Class    string     `json:"class"`
	Owner    bool       `json:"owner,omitempty"`   // this replica alone sends for the page, as far as is known
	Since    *time.Time `json:"since,omitempty"`   // in excess
	Lanes    []string   `json:"lanes,omitempty"`   // queues
	Sick     bool       `json:"sick,omitempty"`    // calls for it fail, and it is probed
	Limit    float64    `json:"limit"`             // calls per second, by an order, the pages file or the settings
	Pace     float64    `json:"pace"`              // calls per second
	Waiting  int        `json:"waiting"`           // messages in this replica's hands and in no call
	Reason   Reason     `json:"reason,omitempty"`  // why the first of them waits; empty: none does for longer than a moment
	Until    time.Time  `json:"until,omitzero"`    // when that ends by itself; missing: when what they wait for happens
	Oldest   float64    `json:"oldest"`            // age in seconds of the first of them
	InFlight int        `json:"in_flight"`         // calls
	Arrived  int64      `json:"arrived"`           // messages
	Sent     int64      `json:"sent"`              // messages
	Calls    int64      `json:"calls"`             // that were accepted
	Refused  int64      `json:"refused"`           // calls
	Usage    int        `json:"usage,omitempty"`   // of the fullest quota that the API tells of, in percent
	Arrival  *Arrival   `json:"arrival,omitempty"` // of a message that is written now; missing: nothing is sent, and nobody knows for how long
	Waited   float64    `json:"waited"`            // seconds from when messages were made to their calls, of all sent together
	// HintUntil is the end of the wait that the platform asked for, a minute at most; missing: the page does not
	// wait for that.
	HintUntil *time.Time `json:"hint_until,omitempty"`
}

// askTimeout bounds the wait for the engine, which answers between two steps.
const askTimeout = time.Second

// errBusy says that the engine does not answer.
var errBusy = errors.New("this dispatcher is busy, starts or ends")

// ask returns the engine's answer.
func ask[T any](ctx context.Context, d *Dispatcher, question func(*engine) T) (a T, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer := make(chan T, 1)
	select {
	case d.posts <- func(e *engine) { answer <- question(e) }:
		return <-answer, nil
	case <-ctx.Done():
		return a, errBusy
	}
}

// answer writes the answer to a request of the admin port: the engine's, or why there is none.
func (d *Dispatcher) answer(w http.ResponseWriter, r *http.Request, body any, err error) {
	status := http.StatusOK
	if err != nil {
		status, body = http.StatusServiceUnavailable, map[string]string{"error": err.Error()}
	}
	d.write(w, r, status, body)
}

func (d *Dispatcher) write(w http.ResponseWriter, r *http.Request, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		d.Log.Debug("answer a request", "pattern", r.Pattern, "err", err)
	}
}

// status asks the engine.
func (d *Dispatcher) status(ctx context.Context) (Status, error) {
	s, err := ask(ctx, d, (*engine).status)
	slices.SortFunc(s.Pages, func(a, b PageStatus) int { // here, and not where the engine would wait for it
		return cmp.Or(
			cmp.Compare(a.rank(), b.rank()), cmp.Compare(b.Calls+b.Refused, a.Calls+a.Refused),
			cmp.Compare(a.Page, b.Page), cmp.Compare(a.Class, b.Class),
		)
	})
	s.Pages, s.Paused = s.Pages[:min(listLimit, len(s.Pages))], s.Paused[:min(listLimit, len(s.Paused))]
	s.Limited = s.Limited[:min(listLimit, len(s.Limited))]
	return s, err
}

// rank orders pages: those in excess come first.
func (p PageStatus) rank() int {
	if p.Since != nil {
		return 0
	}
	return 1
}

func (e *engine) status() Status {
	now := e.Now()
	return Status{
		InFlight: e.calls.inFlight, Limit: e.calls.limit.Limit(), APIDown: e.circuits.IsOpen(), Partitions: e.claims.owned(now),
		Suspended: e.suspended(), Paused: e.paused(now), Limited: e.limited(), Pages: e.pageStatus(now),
	}
}

// suspended lists the suspended pages and those without a token, the longest suspended first.
func (e *engine) suspended() []SuspendedPage {
	list := append(e.circuits.Suspended(listLimit), e.tokenless.list()...)
	slices.SortFunc(list, func(a, b SuspendedPage) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Page, b.Page))
	})
	return list[:min(listLimit, len(list))]
}

// status is that of each page and class that something happened to lately.
func (e *engine) pageStatus(now time.Time) []PageStatus {
	p, takesNone := e.pages, e.Broker.Ready() != nil
	list := make([]PageStatus, 0, len(p.traffic))
	for k, t := range p.traffic {
		v := p.gate.View(k)
		s := PageStatus{
			Page: k.Page, Class: k.Class, Owner: e.claims.isOwner(k.Page), Sick: p.circuits.IsSick(k.Page), Limit: p.limitsOf(k.Page).Of(k.Class), Pace: math.Round(10*v.Pace) / 10, InFlight: v.InFlight,
			Arrived: t.arrived, Sent: t.sent, Calls: t.calls, Refused: t.refused, Usage: t.usage, Arrival: t.forecast.arrival(), Waited: t.waited.Seconds(),
		}
		if takesNone { // what is written now waits before it comes here
			s.Arrival = nil
		}
		if l := p.lines[k]; l != nil {
			if l.spill != nil {
				s.Lanes = []string{l.spill.lane.source.queue}
			}
			s.Waiting = l.waiting + len(l.aside)
			if w := e.why(l, now); s.Waiting > 0 {
				s.Reason, s.Until = w.reason, w.until
			}
			if m := l.oldest(); m != nil {
				s.Oldest = m.out.Age(now).Seconds()
			}
		}
		if !v.Since.IsZero() {
			s.Since = &v.Since
		}
		if v.Asked.After(now) {
			s.HintUntil = &v.Asked
		}
		list = append(list, s)
	}
	return list
}

// paused lists the pages that operators have paused.
func (d *Dispatcher) paused(now time.Time) []PausedPage {
	list := []PausedPage{}
	for page, o := range d.orders.Pages() {
		if _, paused := o.Paused(now); !paused {
			continue
		}
		p := PausedPage{Page: page, Since: o.Since, Reason: o.Reason}
		if !o.Until.IsZero() {
			p.Until = &o.Until
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b PausedPage) int { return cmp.Compare(a.Page, b.Page) })
	return list
}

// limited lists the pages whose limits operators have ordered.
func (d *Dispatcher) limited() (list []LimitedPage) {
	for page, o := range d.orders.Pages() {
		if o.Limits != (message.Limits{}) {
			list = append(list, LimitedPage{page, o.Limits})
		}
	}
	slices.SortFunc(list, func(a, b LimitedPage) int { return cmp.Compare(a.Page, b.Page) })
	return list
}

// resume lets a suspended page's messages through again, and has core told. It returns
// false if the page was not suspended.
func (e *engine) resume(page string) bool {
	now := e.Now()
	if !e.circuits.Resume(now, page) {
		return false
	}
	e.news.add(page, "", now)
	return true
}

// PagesChanged takes the limits of pages as they are now, resumes those that are
// suspended or had no token, as their token may be new, and has core told by the owner of
// each: another replica may have suspended the page. What waits of those that lack a token
// now waits for that. It waits for the engine.
func (d *Dispatcher) PagesChanged(pages []string) {
	d.post(func(e *engine) {
		for _, page := range pages {
			e.pageChanged(page)
		}
	})
}

func (e *engine) pageChanged(page string) {
	now := e.Now()
	e.pages.relimit(page)
	if e.LacksToken != nil && e.LacksToken(page) {
		e.tokenless.lost[page] = now
		return
	}
	told := e.regain(page, now)
	if e.resume(page) {
		e.Log.Info("page resumed: its token is new", "page", page)
	} else if told || e.claims.isOwner(page) {
		e.news.add(page, "", now)
	}
}

// PagesHandler serves the dispatcher's view of its pages, and takes orders about them, for
// the admin port:
//
//	GET  /pages  → a Status, with at most 1000 in each list
//
// and what package orders reads. What it tells is this replica's alone; orders are for all.
func (d *Dispatcher) PagesHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pages", func(w http.ResponseWriter, r *http.Request) {
		s, err := d.status(r.Context())
		d.answer(w, r, s, err)
	})
	give := orders.Handler(d.Broker, d.Now, d.Log)
	for _, pattern := range orders.Patterns() {
		mux.Handle(pattern, give)
	}
	return mux
}
