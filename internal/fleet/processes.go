package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
)

// Processes is a fleet of processes on RabbitMQ: each dispatcher is one, the
// platform is one, webhook and core are one. OpenProcesses makes it.
type Processes struct {
	cfg       Config
	amqpURL   string
	brokerPID int // 0: not on this machine, or not to be found
	version   string
	broker    *rabbit.Broker
	reg       *prometheus.Registry
	platform  *process
	front     *process

	mu          sync.Mutex
	dispatchers []*process // that run, in the order they joined
	past        []*process
	joined      int
	errs        []string
}

var _ Fleet = (*Processes)(nil)

// readyTimeout is how long the broker may take to be there.
const readyTimeout = 30 * time.Second

// OpenProcesses makes a fleet without dispatchers. The topology's queues are
// deleted before and after, with what is on them. The program must call Child
// when it is started with one of the kinds as its only argument.
func OpenProcesses(ctx context.Context, cfg Config, amqpURL string) (_ *Processes, err error) {
	p := &Processes{cfg: cfg, amqpURL: amqpURL, reg: prometheus.NewRegistry(), brokerPID: listener(amqpURL)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close(context.WithoutCancel(ctx)))
		}
	}()
	if p.version, err = rabbit.Delete(ctx, amqpURL, cfg.Topology); err != nil {
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
	if p.platform, err = spawn(ctx, KindPlatform, p.order()); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Processes) order() order {
	o := order{Options: p.cfg.Options, AMQPURL: p.amqpURL, Topology: p.cfg.Topology, Seed: p.cfg.Seed}
	if p.platform != nil {
		o.Graph = p.platform.address
	}
	return o
}

// Version is the broker's name and version.
func (p *Processes) Version() string { return p.version }

// Join starts a dispatcher.
func (p *Processes) Join(ctx context.Context) error {
	o := p.order()
	o.Replica = p.joined
	child, err := spawn(ctx, KindDispatcher, o)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.dispatchers = append(p.dispatchers, child)
	p.joined++
	p.mu.Unlock()
	return child.ready(ctx)
}

func (p *Processes) pop() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.dispatchers)
	if n == 0 {
		return nil, errors.New("no dispatcher is running")
	}
	last := p.dispatchers[n-1]
	p.dispatchers = p.dispatchers[:n-1]
	p.past = append(p.past, last)
	return last, nil
}

// Leave stops the latest dispatcher by SIGTERM.
func (p *Processes) Leave(ctx context.Context) error {
	child, err := p.pop()
	if err != nil {
		return err
	}
	if child.ended() {
		p.errs = append(p.errs, "a dispatcher ended by itself: "+child.stderr.String())
		return nil
	}
	return child.stop(ctx)
}

// Kill kills the latest dispatcher.
func (p *Processes) Kill(ctx context.Context) error {
	child, err := p.pop()
	if err != nil {
		return err
	}
	child.look(ctx)
	return child.kill()
}

// Stop stops webhook and core, then the dispatchers, all at once.
func (p *Processes) Stop(ctx context.Context) error {
	var faults []error
	if p.front != nil && !p.front.ended() {
		faults = append(faults, p.front.stop(ctx))
	}
	var leaving sync.WaitGroup
	var mu sync.Mutex
	for {
		child, err := p.pop()
		if err != nil {
			break
		}
		leaving.Go(func() {
			err := child.stop(ctx)
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, err)
		})
	}
	leaving.Wait()
	return errors.Join(faults...)
}

// Front starts webhook and core as one process.
func (p *Processes) Front(ctx context.Context, f Front) (string, error) {
	o := p.order()
	o.Front = f
	child, err := spawn(ctx, KindFront, o)
	if err != nil {
		return "", err
	}
	p.front = child
	return child.address, nil
}

// Broker is the load generator's connection.
func (p *Processes) Broker() queue.Broker { return p.broker }

// Platform is the fake's process.
func (p *Processes) Platform() Platform { return Platform{URL: p.platform.address} }

// Errors are of dispatchers that ended by themselves.
func (p *Processes) Errors() []string { return p.errs }

// Usage is of the dispatchers, those that have ended included, of the fake, and
// of the broker where it is on this machine.
func (p *Processes) Usage() (Usage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	p.mu.Lock()
	all := append(append([]*process(nil), p.past...), p.dispatchers...)
	p.mu.Unlock()
	var u Usage
	var cpu time.Duration
	var memory int64
	done, err := p.operations()
	if err != nil {
		return u, err
	}
	for _, c := range all {
		c.look(ctx)
		cpu += c.cpu
		memory += c.peak
		done += c.operations
	}
	if p.front != nil {
		p.front.look(ctx)
		done += p.front.operations
	}
	p.platform.look(ctx)
	u.Operations, u.Dispatchers, u.Memory, u.Fake = &done, &cpu, &memory, new(p.platform.cpu)
	if p.brokerPID == 0 {
		return u, nil // a sum without the broker would look better than it is
	}
	broker, err := cpuOf(p.brokerPID)
	if err != nil {
		return u, fmt.Errorf("the broker's process: %w", err)
	}
	u.Broker, u.All = &broker, new(cpu+broker+p.platform.cpu)
	if self, _, err := own(); err == nil {
		if p.front != nil {
			self += p.front.cpu
		}
		u.Machine = machine(*u.All + self)
	}
	return u, nil
}

// operations are those of this process's own connection.
func (p *Processes) operations() (int64, error) {
	families, err := p.reg.Gather()
	if err != nil {
		return 0, fmt.Errorf("read own metrics: %w", err)
	}
	sum := int64(0)
	for _, f := range families {
		switch f.GetName() {
		case "chatclub_broker_published_total", "chatclub_broker_deliveries_total", "chatclub_broker_settled_total":
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
		_, err := rabbit.Delete(ctx, p.amqpURL, p.cfg.Topology)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
