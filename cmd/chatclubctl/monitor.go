package main

import (
	"context"
	"iter"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"chatclub/internal/console"
	"chatclub/internal/replicas"
	"chatclub/internal/service"
)

// monitor looks at everything, again and again.
type monitor struct {
	programs []asked
	metrics  replicas.Watch[*scrape]
	grown    map[string]*growth // by address
	console  *console.Console
	queues   *queueWatch // nil: they are not looked at
}

// asked is a program, and where its replicas are.
type asked struct {
	name     string
	replicas *replicas.Resolver
}

// newMonitor makes one. end stops what it began, whose context must have ended.
func (t tool) newMonitor(s topSettings, wait time.Duration) (m *monitor, end func() error, err error) {
	m = &monitor{grown: make(map[string]*growth)}
	dispatchers := &replicas.Resolver{Addresses: s.Dispatchers}
	for _, p := range []asked{
		{"webhook", &replicas.Resolver{Addresses: s.Webhook}},
		{"core", &replicas.Resolver{Addresses: s.Core}},
		{"dispatcher", dispatchers},
	} {
		if len(p.replicas.Addresses) > 0 {
			m.programs = append(m.programs, p)
		}
	}
	client := s.client()
	m.metrics = replicas.Watch[*scrape]{Wait: wait, Ask: func(ctx context.Context, r replicas.Replica) (*scrape, error) {
		return readMetrics(ctx, client, r)
	}}
	m.console, err = console.New(console.Config{
		Replicas: console.Behind(dispatchers), Token: s.AdminToken.Reveal(), Wait: wait, Client: &http.Client{Timeout: askTimeout},
	})
	if err != nil {
		return nil, nil, err
	}
	broker, err := t.openBroker(s.broker())
	if err != nil {
		return nil, nil, err
	}
	if broker != nil {
		m.queues = newQueueWatch(broker, wait)
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

// views looks every second until ctx ends. What the first look sees is not among
// them: what happens in a second is known from the next one on.
func (m *monitor) views(ctx context.Context) iter.Seq[topView] {
	return func(yield func(topView) bool) {
		m.look(ctx)
		tick := time.NewTicker(topEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if v := m.look(ctx); ctx.Err() != nil || !yield(v) {
				return
			}
		}
	}
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
				lanes = append(lanes, e.Lanes...)
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
		if a.Err != nil {
			p.Silent[list[n].Name] = service.OneLine(a.Err)
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
