package deployment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"chatclub/loadtest/faults"
	"chatclub/loadtest/faults/link"
)

// stopSignal asks a program to end.
const stopSignal = syscall.SIGTERM

// endFunc ends a fault.
type endFunc = func(context.Context) error

// Begin implements faults.System.
func (d *Deployment) Begin(ctx context.Context, s faults.Step) (end func(context.Context) error, err error) {
	f := s.Fault
	switch f.Part {
	case faults.Node:
		return d.beginNodes(ctx, s)
	case faults.Webhook, faults.Core, faults.Dispatcher:
		return d.beginPrograms(s)
	case faults.Programs:
		if f.Action == faults.Late {
			return d.beginLinks(s, d.linksTo("", "broker"))
		}
		return d.beginPrograms(s)
	case faults.WebhookBroker, faults.CoreBroker, faults.DispatcherBroker, faults.CoreDatabase, faults.DispatcherAPI:
		kind, end, _ := strings.Cut(string(f.Part), "-")
		return d.beginLinks(s, d.linksTo(kind, end))
	case faults.API: // the ledger's client does these
	}
	return nil, fmt.Errorf("%s cannot be made here", f.Name)
}

// kind returns the programs of a kind; "" is all.
func (d *Deployment) kind(kind string) (list []*program) {
	for _, p := range d.programs {
		if strings.HasPrefix(p.name, kind) {
			list = append(list, p)
		}
	}
	return list
}

// beginPrograms kills, stops or freezes programs.
func (d *Deployment) beginPrograms(s faults.Step) (endFunc, error) {
	kind := string(s.Fault.Part)
	if s.Fault.Part == faults.Programs {
		kind = ""
	}
	list := d.kind(kind)
	if !s.Fault.All {
		// The first of a kind is not ended, so that one of each is seen to live long.
		if s.Fault.Action != faults.Freeze && len(list) > 1 {
			list = list[1:]
		}
		list = list[s.Pick%len(list):][:1]
	}
	send := func(sig syscall.Signal) func(*program) error {
		return func(p *program) error { return p.signal(sig) }
	}
	begin, ok := map[faults.Action]func(*program) error{ //nolint:exhaustive // the others are not of programs
		faults.Kill: (*program).kill, faults.Stop: (*program).stop, faults.Freeze: send(syscall.SIGSTOP),
	}[s.Fault.Action]
	if !ok {
		return nil, fmt.Errorf("%s cannot be made to programs", s.Fault.Action)
	}
	return func(ctx context.Context) error {
		if s.Fault.Action == faults.Freeze {
			return each(list, send(syscall.SIGCONT))
		}
		return each(list, func(p *program) error { return p.start(ctx) })
	}, each(list, begin)
}

// each does something to all at once.
func each[T any](list []T, do func(T) error) error {
	faults := make([]error, len(list))
	var wg sync.WaitGroup
	for i, x := range list {
		wg.Go(func() { faults[i] = do(x) })
	}
	wg.Wait()
	return errors.Join(faults...)
}

// linksTo returns the links of each program of a kind to one end: a list for each
// program.
func (d *Deployment) linksTo(kind, end string) (list [][]*link.Link) {
	for _, p := range d.kind(kind) {
		list = append(list, d.links[p.name+" "+end])
	}
	return list
}

// beginLinks makes the links of one program, or of all, fail.
func (d *Deployment) beginLinks(s faults.Step, list [][]*link.Link) (endFunc, error) {
	if !s.Fault.All {
		list = list[s.Pick%len(list):][:1]
	}
	var links []*link.Link
	for _, of := range list {
		links = append(links, of...)
	}
	if s.Fault.Action == faults.Reset {
		return reset(links, faults.ResetEvery), nil
	}
	begin, ok := map[faults.Action]func(*link.Link) error{ //nolint:exhaustive // the others are not of links
		faults.Cut: (*link.Link).Cut, faults.HalfOpen: (*link.Link).HalfOpen,
		faults.Slow: func(l *link.Link) error { return l.Slow(faults.SlowRate) },
		faults.Late: func(l *link.Link) error { return l.Delay(faults.LateBy, faults.LateJitter) },
	}[s.Fault.Action]
	if !ok {
		return nil, fmt.Errorf("%s cannot be made to links", s.Fault.Action)
	}
	return func(context.Context) error { return each(links, (*link.Link).Heal) }, each(links, begin)
}

// reset ends the connections of links again and again, until what it returns is
// called.
func reset(links []*link.Link, every time.Duration) endFunc {
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			if err := each(links, (*link.Link).Reset); err != nil {
				done <- err
				return
			}
			select {
			case <-stop:
				done <- nil
				return
			case <-ticks.C:
			}
		}
	}()
	return func(context.Context) error {
		close(stop)
		return <-done
	}
}

// beginNodes makes one node of the broker fail, or all.
func (d *Deployment) beginNodes(ctx context.Context, s faults.Step) (endFunc, error) {
	if d.cluster == nil {
		return nil, errors.New("the broker is not the run's own")
	}
	c := d.cluster
	nodes := []int{s.Pick % len(d.broker)}
	if s.Fault.All {
		nodes = nodes[:0]
		for i := range d.broker {
			nodes = append(nodes, i)
		}
	}
	start := func(ctx context.Context) error {
		return each(nodes, func(i int) error { return c.Start(ctx, i) })
	}
	switch s.Fault.Action { //nolint:exhaustive // the others are not of nodes
	case faults.Kill:
		return start, each(nodes, c.Kill)
	case faults.Stop:
		return start, each(nodes, func(i int) error { return c.Stop(ctx, i) })
	case faults.Freeze:
		return func(context.Context) error { return each(nodes, c.Thaw) }, each(nodes, c.Freeze)
	case faults.CutOff:
		return func(context.Context) error { return each(nodes, c.Rejoin) }, each(nodes, c.CutOff)
	case faults.MemoryAlarm:
		return func(ctx context.Context) error { return c.MemoryAlarm(ctx, nodes[0], false) }, c.MemoryAlarm(ctx, nodes[0], true)
	case faults.DiskAlarm:
		return func(ctx context.Context) error { return c.DiskAlarm(ctx, nodes[0], false) }, c.DiskAlarm(ctx, nodes[0], true)
	}
	return nil, fmt.Errorf("%s cannot be made to nodes", s.Fault.Action)
}
