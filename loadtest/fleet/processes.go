package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/article"
	"chatclub/internal/machine"
	"chatclub/internal/queue"
	"chatclub/internal/queue/leftover"
	"chatclub/internal/queue/rabbit"
	"chatclub/loadtest/proc"
)

// Processes is a fleet of processes on RabbitMQ: each dispatcher is one, the
// platform is one, webhook and core are one. OpenProcesses makes it.
type Processes struct {
	crew
	cfg       Config
	amqpURL   string
	brokerPID int // 0: not on this machine, or not to be found
	version   string
	broker    *rabbit.Broker
	reg       *prometheus.Registry
	platform  *process
	ingress   *process
}

var _ Fleet = (*Processes)(nil)

// readyTimeout is how long the broker may take to be there.
const readyTimeout = 30 * time.Second

// OpenProcesses makes a fleet without dispatchers. The topology's queues are
// deleted before and after, with what is on them. The program must call Child
// when it is started with one of the kinds as its only argument.
func OpenProcesses(ctx context.Context, cfg Config, amqpURL string) (_ *Processes, err error) {
	p := &Processes{cfg: cfg, amqpURL: amqpURL, reg: prometheus.NewRegistry(), brokerPID: proc.Listener(amqpURL)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close(context.WithoutCancel(ctx)))
		}
	}()
	if p.version, err = leftover.Delete(ctx, amqpURL, cfg.Topology, article.Queue(cfg.Topology).Name); err != nil {
		return nil, err
	}
	if p.broker, err = rabbit.Open(rabbit.Config{
		URLs: []string{amqpURL}, Topology: cfg.Topology, Log: cfg.Log, Registerer: p.reg, Name: "loadtest",
	}); err != nil {
		return nil, err
	}
	for end := time.Now().Add(readyTimeout); ; time.Sleep(20 * time.Millisecond) {
		err := p.broker.Ready()
		if err == nil {
			break
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return nil, fmt.Errorf("the broker is not ready: %w", err)
		}
	}
	if cfg.Options.shares() {
		if err := p.broker.Declare(ctx, article.Queue(cfg.Topology)); err != nil {
			return nil, err
		}
	}
	if p.platform, err = spawn(ctx, cfg.Log, KindPlatform, p.spec()); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Processes) spec() childSpec {
	o := childSpec{Options: p.cfg.Options, AMQPURL: p.amqpURL, Topology: p.cfg.Topology, Seed: p.cfg.Seed}
	if p.platform != nil {
		o.Graph = p.platform.address
	}
	return o
}

// Version is the broker's name and version.
func (p *Processes) Version() string { return p.version }

// Join starts a dispatcher.
func (p *Processes) Join(ctx context.Context) error {
	o := p.spec()
	o.Replica = p.joined()
	child, err := spawn(ctx, p.cfg.Log, KindDispatcher, o)
	if err != nil {
		return err
	}
	p.add(child)
	return child.ready(ctx)
}

// Stop stops webhook and core, then the dispatchers, all at once.
func (p *Processes) Stop(ctx context.Context) error {
	var err error
	if p.ingress != nil {
		err = p.ingress.stop(ctx)
	}
	return errors.Join(err, p.stop(ctx))
}

// Ingress starts webhook and core as one process.
func (p *Processes) Ingress(ctx context.Context, f Ingress) (string, error) {
	o := p.spec()
	o.Ingress = f
	child, err := spawn(ctx, p.cfg.Log, KindIngress, o)
	if err != nil {
		return "", err
	}
	p.ingress = child
	return child.address, nil
}

// Broker is the load generator's connection.
func (p *Processes) Broker() queue.Broker { return p.broker }

// Platform is the fake's process.
func (p *Processes) Platform() Platform { return Platform{URL: p.platform.address} }

// Delayed is 0: what RabbitMQ keeps back is on a queue.
func (*Processes) Delayed() int { return 0 }

// Errors are of processes that ended by themselves or could not be asked, and of
// the dispatchers' strategy.
func (p *Processes) Errors() []string {
	var list []string
	for _, c := range p.all() {
		list = append(list, c.faults()...)
	}
	if p.ingress != nil {
		list = append(list, p.ingress.faults()...)
	}
	return append(list, p.platform.faults()...)
}

// Usage is of the dispatchers, those that have ended included, of webhook and
// core, of the fake, and of the broker where it is on this machine.
func (p *Processes) Usage() (Usage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	all := p.all()
	n := len(all) // of dispatchers
	if p.ingress != nil {
		all = append(all, p.ingress)
	}
	got := make([]used, len(all))
	var asking sync.WaitGroup // side by side, so that one that hangs takes nothing from the others
	for i, c := range all {
		asking.Go(func() { got[i] = c.look(ctx) })
	}
	fake := p.platform.look(ctx)
	asking.Wait()
	own, err := p.operations()
	if err != nil {
		return Usage{}, err
	}
	u := usage(got[:n], got[n:], own)
	u.Fake = fake.cpu
	if p.brokerPID == 0 {
		return u, nil // a sum without the broker would look better than it is
	}
	broker, err := proc.CPU(p.brokerPID)
	if err != nil {
		return u, fmt.Errorf("the broker's process: %w", err)
	}
	u.Broker = &broker
	parts := []*time.Duration{u.Dispatchers, u.Broker, u.Fake}
	if p.ingress != nil {
		parts = append(parts, u.Ingress)
	}
	u.All = sum(parts...)
	u.machine(0)
	return u, nil
}

// machine enters what other programs had, once our own share is known. beside is
// CPU time that belongs to the run and is not in All.
func (u *Usage) machine(beside time.Duration) {
	if self, err := machine.OwnCPU(); err == nil && u.All != nil {
		u.Machine = machine.Read(*u.All + self + beside)
	}
}

// usage adds up what dispatchers, and webhook and core where they run, have used;
// own are the operations of this process.
func usage(dispatchers, ingress []used, own int64) (u Usage) {
	operations := []*int64{&own}
	var cpu []*time.Duration
	var peaks []*int64
	for _, d := range dispatchers {
		operations, cpu, peaks = append(operations, d.operations), append(cpu, d.cpu), append(peaks, d.peak)
	}
	for _, f := range ingress {
		operations, u.Ingress = append(operations, f.operations), f.cpu
	}
	u.Operations, u.Dispatchers = sum(operations...), sum(cpu...)
	// Not the sum of the peaks: those of dispatchers that never ran at the same
	// time would be added up, and no memory is sampled.
	if len(peaks) > 0 && !slices.Contains(peaks, nil) {
		u.Memory = slices.MaxFunc(peaks, func(a, b *int64) int { return cmp.Compare(*a, *b) })
	}
	return u
}

// sum is nil when one of them is: it would be too low.
func sum[N int64 | time.Duration](list ...*N) *N {
	var n N
	for _, x := range list {
		if x == nil {
			return nil
		}
		n += *x
	}
	return &n
}

// operations are those of this process's own connection.
func (p *Processes) operations() (int64, error) {
	families, err := p.reg.Gather()
	if err != nil {
		return 0, fmt.Errorf("read own metrics: %w", err)
	}
	sum := int64(0)
	for _, f := range families {
		if isOperation(f.GetName()) {
			for _, m := range f.GetMetric() {
				sum += int64(m.GetCounter().GetValue())
			}
		}
	}
	return sum, nil
}

// Close ends everything and deletes the queues.
func (p *Processes) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	faults := []error{p.Stop(ctx)}
	if p.platform != nil {
		faults = append(faults, p.platform.stop(ctx))
	}
	if p.broker != nil {
		faults = append(faults, p.broker.Close())
		_, err := leftover.Delete(ctx, p.amqpURL, p.cfg.Topology, article.Queue(p.cfg.Topology).Name)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
