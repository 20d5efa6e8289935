package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"chatclub/internal/console"
	"chatclub/internal/replicas"
	"chatclub/internal/service"
	"chatclub/internal/term"
)

// topSettings are those of `chatclubctl top`.
type topSettings struct {
	adminSettings
	Webhook []string `env:"WEBHOOK" doc:"Admin addresses of the webhooks, likewise."`
	queueSettings
}

// About says what the program does.
func (topSettings) About() string {
	return "chatclubctl top shows what all replicas do, and what waits on the queues, every second until Ctrl-C.\n" +
		"Where there is no terminal it shows it once."
}

// Validate names every fault.
func (s topSettings) Validate() error {
	return errors.Join(s.adminSettings.Validate(), checkAddresses("WEBHOOK", s.Webhook), s.queueSettings.Validate())
}

const (
	// topEvery is the time between two looks.
	topEvery = time.Second
	// topWait is how long a look waits for what does not answer, the first time.
	topWait = 500 * time.Millisecond
	// onceWait is the same for one who looks once, and has no later look.
	onceWait = 3 * time.Second
)

// topView is what top shows.
type topView struct {
	Time     time.Time `json:"time"`
	Programs []program `json:"programs"`

	// A second, over all replicas, since the last look.
	Events  float64 `json:"events"` // that webhook queued, or where it is not asked, that core handled
	Copies  float64 `json:"copies"`
	Sent    float64 `json:"sent"` // messages
	Refused float64 `json:"refused"`
	Dead    float64 `json:"dead"`

	InFlight   int      `json:"in_flight"`
	Limit      int      `json:"limit"`        // calls at a time
	AgeP95     *float64 `json:"age_p95"`      // seconds, of what was sent since the last look; nil: nothing was
	Excess     int      `json:"pages_excess"` // pages and classes
	Sick       int      `json:"pages_sick"`   //
	Suspended  int      `json:"pages_suspended"`
	Queues     *depths  `json:"queues,omitempty"`
	QueueError string   `json:"queues_error,omitempty"` // why there are none

	Dispatchers []console.Dispatcher `json:"dispatchers"`
	Pages       []console.Page       `json:"pages"` // those with the most to do
	AllPages    int                  `json:"all_pages"`
}

// program is one of the three, and its replicas.
type program struct {
	Name   string            `json:"program"`
	Up     int               `json:"up"`
	Of     int               `json:"of"`
	Silent map[string]string `json:"silent,omitempty"` // who does not answer, and why
}

// monitor looks at everything, again and again.
type monitor struct {
	programs []asked
	metrics  replicas.Watch[*scrape]
	grown    map[string]*growth // by address
	console  *console.Console
	queues   *queueWatch // nil: they are not looked at
	lanes    func(page, class string) string
}

// asked is a program, and where its replicas are.
type asked struct {
	name     string
	replicas *replicas.Resolver
}

// newMonitor makes one. end stops what it began, whose context must have ended.
func (t tool) newMonitor(s topSettings, wait time.Duration) (m *monitor, end func() error, err error) {
	m = &monitor{grown: make(map[string]*growth)}
	for _, p := range []struct {
		name      string
		addresses []string
	}{{"webhook", s.Webhook}, {"core", s.Core}, {"dispatcher", s.Dispatchers}} {
		if len(p.addresses) > 0 {
			m.programs = append(m.programs, asked{p.name, &replicas.Resolver{Addresses: p.addresses}})
		}
	}
	client := s.client(askTimeout)
	m.metrics = replicas.Watch[*scrape]{Wait: wait, Ask: func(ctx context.Context, r replicas.Replica) (*scrape, error) {
		return readMetrics(ctx, client, r)
	}}
	m.console, err = console.New(console.Config{
		Replicas: m.dispatchers, Token: s.AdminToken.Reveal(), Every: topEvery, Wait: wait, Client: &http.Client{Timeout: askTimeout},
	})
	if err != nil {
		return nil, nil, err
	}
	broker, err := t.openBroker(s.broker())
	if err != nil {
		return nil, nil, err
	}
	if broker != nil {
		m.queues, m.lanes = newQueueWatch(broker, wait), broker.Topology().Lane
	}
	return m, func() error {
		m.console.End()
		m.metrics.End()
		client.HTTP.CloseIdleConnections()
		if broker == nil {
			return nil
		}
		m.queues.watch.End()
		return broker.Close()
	}, nil
}

// dispatchers are those that the console asks.
func (m *monitor) dispatchers(ctx context.Context) (list []console.Replica) {
	for _, p := range m.programs {
		if p.name != "dispatcher" {
			continue
		}
		for _, r := range p.replicas.Replicas(ctx) {
			list = append(list, console.Replica{Name: r.Name, URL: r.URL})
		}
	}
	return list
}

// look asks everybody.
func (m *monitor) look(ctx context.Context) topView {
	v := topView{Time: time.Now().UTC().Truncate(time.Second)}
	var state console.State
	var asking sync.WaitGroup
	asking.Go(func() { state = m.console.Look(ctx) })
	m.readMetrics(ctx, &v)
	asking.Wait()
	v.Dispatchers, v.Pages, v.AllPages = state.Dispatchers, state.Pages, state.AllPages
	for i := range v.Pages {
		v.Pages[i].History = console.History{}
	}
	if m.queues != nil {
		var lanes []string
		for _, d := range state.Dispatchers {
			for _, e := range d.Excess {
				lanes = append(lanes, m.lanes(e.Page, e.Class))
			}
		}
		slices.Sort(lanes)
		var err error
		if v.Queues, err = m.queues.look(ctx, slices.Compact(lanes)); err != nil {
			v.QueueError = err.Error()
		}
	}
	return v
}

// readMetrics adds up what the replicas count.
func (m *monitor) readMetrics(ctx context.Context, v *topView) {
	var list []replicas.Replica
	var of []int // the program of each
	for i, p := range m.programs {
		for _, r := range p.replicas.Replicas(ctx) {
			list, of = append(list, r), append(of, i)
		}
		v.Programs = append(v.Programs, program{Name: p.name, Silent: make(map[string]string)})
	}
	ages := make(map[float64]float64)
	var queued, handled float64
	for n, a := range m.metrics.Look(ctx, list) {
		p := &v.Programs[of[n]]
		p.Of++
		if a.Err != nil || a.Value == nil {
			p.Silent[list[n].Name] = "no answer"
			if a.Err != nil {
				p.Silent[list[n].Name] = service.OneLine(a.Err)
			}
			continue
		}
		p.Up++
		g := m.grown[list[n].URL]
		if g == nil {
			g = new(growth)
			m.grown[list[n].URL] = g
		}
		g.see(a.Value)
		queued += g.of(eventsQueued)
		handled += g.of(eventsHandled)
		v.Copies += g.of(copiesMade)
		v.Sent += g.of(messagesSent)
		v.Refused += g.of(callsRefused)
		v.Dead += g.of(messagesDead)
		g.ages(ages)
		for name, sum := range map[string]*int{
			callsInFlight: &v.InFlight, callsLimit: &v.Limit, pagesInExcess: &v.Excess, pagesSick: &v.Sick, pagesSuspended: &v.Suspended,
		} {
			*sum += int(a.Value.values[name])
		}
	}
	v.Events = handled
	if slices.ContainsFunc(m.programs, func(p asked) bool { return p.name == "webhook" }) {
		v.Events = queued
	}
	if age := quantile(0.95, ages); !math.IsNaN(age) {
		v.AgeP95 = &age
	}
}

func (t tool) top(ctx context.Context, _ string, args []string) (err error) {
	flags := flag.NewFlagSet("chatclubctl top", flag.ContinueOnError)
	once := flags.Bool("once", false, "show it once, and end")
	asJSON := flags.Bool("json", false, "print it once as JSON, for programs")
	s, err := service.LoadFlags[topSettings](flags, args, t.environ, t.stdout)
	if err != nil {
		return err
	}
	if len(s.Dispatchers)+len(s.Core)+len(s.Webhook) == 0 {
		return &service.SettingsError{Faults: []error{errors.New("DISPATCHERS, CORE or WEBHOOK must be set")}}
	}
	screen := term.NewScreen(t.stdout)
	wait := topWait
	if *once = *once || *asJSON || !screen.IsShown(); *once {
		wait = onceWait
	}
	m, end, err := t.newMonitor(s, wait)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		err = errors.Join(err, end())
	}()
	m.look(ctx)
	skip := 0
	if *once { // the rates of pages need a whole second
		skip = 1
	}
	tick := time.NewTicker(topEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		v := m.look(ctx)
		switch skip--; {
		case ctx.Err() != nil:
			return nil
		case skip >= 0:
		case *asJSON:
			return errors.Join(json.NewEncoder(t.stdout).Encode(v), v.err())
		case *once:
			v.print(t.stdout)
			return v.err()
		}
		var text strings.Builder
		v.print(&text)
		screen.Show(text.String())
	}
}

// err names the replicas that did not answer, for those who look once.
func (v *topView) err() error {
	var errs []error
	for _, p := range v.Programs {
		for _, name := range slices.Sorted(maps.Keys(p.Silent)) {
			errs = append(errs, fmt.Errorf("%s %s: %s", p.Name, name, p.Silent[name]))
		}
	}
	if v.QueueError != "" {
		errs = append(errs, errors.New(v.QueueError))
	}
	return errors.Join(errs...)
}

// print writes it as people read it.
func (v *topView) print(out io.Writer) {
	fmt.Fprintf(out, "%s ", v.Time.Format(time.TimeOnly))
	for _, p := range v.Programs {
		fmt.Fprintf(out, "  %s %d of %d up", p.Name, p.Up, p.Of)
	}
	age := "-"
	if v.AgeP95 != nil {
		age = seconds(*v.AgeP95)
	}
	fmt.Fprintf(out, "\na second  events %.0f  copies %.0f  sent %.0f  refused %.0f  dead %.0f\n", v.Events, v.Copies, v.Sent, v.Refused, v.Dead)
	fmt.Fprintf(out, "calls     %d in flight of %d  p95 age %s\n", v.InFlight, v.Limit, age)
	fmt.Fprintf(out, "pages     %d in excess  %d suspended  %d sick\n", v.Excess, v.Suspended, v.Sick)
	switch {
	case v.Queues != nil:
		q := v.Queues
		fmt.Fprintf(out, "queues    inbound %d  overflow %d  partitions %d", q.Inbound, q.Overflow, q.Partitions)
		if q.Deepest != "" {
			fmt.Fprintf(out, " (most on %s)", printable(q.Deepest))
		}
		fmt.Fprintf(out, "  lanes %d  retry %d  dead %d\n", q.Lanes, q.Retry, q.Dead)
	case v.QueueError != "":
		fmt.Fprintf(out, "queues    %s\n", printable(v.QueueError))
	}
	v.printSilent(out)
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DISPATCHER\tSTATE\tCALLS/S\tIN FLIGHT\tLIMIT\tPARTITIONS\tIN EXCESS")
	for i := range v.Dispatchers {
		d := &v.Dispatchers[i]
		if d.State == "lost" {
			fmt.Fprintf(w, "%s\tno answer\t-\t-\t-\t-\t-\n", printable(d.Name))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\n", printable(d.Name), d.State, d.Calls, d.InFlight, d.Limit, len(d.Partitions), len(d.Excess))
	}
	_ = w.Flush() // as all that is printed here
	fmt.Fprintln(out)
	// On 80 columns the last ones are cut off.
	fmt.Fprintln(w, "PAGE\tSTATE\tPACE\tLIMIT\tSENT/S\tREFUSED/S\tWAITING\tDELAY\tOWNER\tEXCESS SINCE")
	for i := range v.Pages {
		p := &v.Pages[i]
		pace, excess, state := "-", "-", p.State
		if p.Since != nil { // others have a pace, too, but do not need it
			pace, excess = fmt.Sprintf("%g", p.Pace), since(*p.Since)
		}
		if p.Why != "" {
			state += " (" + p.Why + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", printable(p.ID), printable(state),
			pace, p.Limit, p.Sent, p.Refused, p.Waiting, seconds(p.Delay), printable(p.Owner), excess)
	}
	_ = w.Flush()
	if more := v.AllPages - len(v.Pages); more > 0 {
		fmt.Fprintf(out, "and %d more, with less to do\n", more)
	}
}

// seconds is a duration with as many digits as people need.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		d = d.Round(time.Millisecond)
	case d < 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Second)
	}
	return d.String()
}

// printSilent names who does not answer.
func (v *topView) printSilent(out io.Writer) {
	for _, p := range v.Programs {
		for _, name := range slices.Sorted(maps.Keys(p.Silent)) {
			fmt.Fprintf(out, "%s %s: %s\n", p.Name, printable(name), printable(p.Silent[name]))
		}
	}
}
