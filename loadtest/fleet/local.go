package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/internal/article"
	"chatclub/internal/chaos"
	"chatclub/internal/dispatch"
	"chatclub/internal/machine"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/sender"
)

// Local is a fleet in this process: dispatchers as goroutines, the broker in
// memory, the platform without a socket. It runs in a synctest bubble as well.
// OpenLocal and NewLocal make one.
type Local struct {
	cfg      LocalConfig
	broker   *memory.Broker
	net      *network // nil: none lies between
	source   queue.Broker
	platform *fakeapi.API
	ingress  *ingress
	replicas []*Dispatcher // that run, in the order they joined
	killed   []*Dispatcher // whose goroutines may still have to end
	joined   int

	mu     sync.Mutex
	errs   []string
	faults int64 // of the strategy
	first  error // of them
}

var _ Fleet = (*Local)(nil)

// LocalConfig is a Config with what only a Local can do.
type LocalConfig struct {
	Config
	Network  Network
	Platform *fakeapi.Settings // nil: the fake's defaults
	Seconds  int               // of each page that the platform's ledger keeps; 0: its default

	// Transport is around every dispatcher's way to the platform. nil: none.
	Transport func(http.RoundTripper) http.RoundTripper
	// Random returns a dispatcher's source of random numbers in [0, 1), which
	// must be safe for concurrent use. nil: math/rand.
	Random func() func() float64
	// DialRedis connects to the Redis of the strategies that need one. nil: by
	// TCP.
	DialRedis func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Dispatcher is one of a Local.
type Dispatcher struct {
	link   chaos.Link
	way    *chaos.Way
	sender *sender.Sender
	cancel context.CancelCauseFunc
	done   chan error
}

// SetHealth changes the state of the dispatcher's way to the platform.
func (d *Dispatcher) SetHealth(h chaos.Health) { d.way.SetHealth(h) }

// InFlight returns how many calls the platform has taken and not answered.
func (d *Dispatcher) InFlight() int { return d.way.InFlight() }

// errKilled is why a killed dispatcher's context ends.
var errKilled = errors.New("killed")

// OpenLocal makes a Local without dispatchers. It is returned as a Fleet, because
// a nil *Local that a caller hands on as one would not be nil any more.
func OpenLocal(ctx context.Context, cfg Config) (Fleet, error) {
	l, err := NewLocal(ctx, LocalConfig{Config: cfg})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// NewLocal makes a Local without dispatchers.
func NewLocal(ctx context.Context, cfg LocalConfig) (*Local, error) {
	broker, err := memory.New(cfg.Topology)
	if err != nil {
		return nil, err
	}
	if cfg.Options.shares() {
		if err := broker.Declare(ctx, article.Queue(cfg.Topology)); err != nil {
			return nil, err
		}
	}
	platform, err := fakeapi.New(fakeapi.Config{Seed: cfg.Seed, Settings: cfg.Platform, Seconds: cfg.Seconds})
	if err != nil {
		return nil, err
	}
	if cfg.Random == nil {
		cfg.Random = func() func() float64 { return rand.Float64 }
	}
	if cfg.Transport == nil {
		cfg.Transport = func(rt http.RoundTripper) http.RoundTripper { return rt }
	}
	l := &Local{cfg: cfg, broker: broker, source: broker, platform: platform}
	if cfg.Network.Hop > 0 || cfg.Network.Capacity > 0 {
		l.net = newNetwork(cfg.Network, broker)
		l.source = l.net.connect()
	}
	return l, nil
}

// connect returns one more dispatcher's connection to the broker.
func (l *Local) connect() chaos.Link {
	if l.net != nil {
		return l.net.connect()
	}
	return chaos.NewLink(l.broker)
}

// Join starts a dispatcher. It takes messages at once.
func (l *Local) Join(ctx context.Context) error {
	link := l.connect()
	way := chaos.NewWay(link, l.platform.Transport())
	reg := prometheus.NewRegistry()
	send, err := sender.New(sender.Config{
		BaseURL: "http://fakeapi" + graphVersion, Tokens: tokens{}, Transport: l.cfg.Transport(way),
		MaxInFlight: MaxInFlight, CallTimeout: callTimeout, Registerer: reg,
	})
	if err != nil {
		return err
	}
	var caller dispatch.Caller = send
	if l.cfg.Wrap != nil {
		caller = l.cfg.Wrap(send)
	}
	r, err := newRunner(ctx, l.cfg.Options, parts{
		broker: link, caller: caller, transport: way, reg: reg, log: l.cfg.Log, replica: l.joined, fault: l.strategyFault,
		random: l.cfg.Random(), dial: l.cfg.DialRedis,
	})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	d := &Dispatcher{link: link, way: way, sender: send, cancel: cancel, done: make(chan error, 1)}
	go func() {
		err := r.run(running)
		if running.Err() == nil {
			l.fault(fmt.Errorf("a dispatcher ended by itself: %w", err))
		}
		d.done <- err
	}()
	l.replicas = append(l.replicas, d)
	l.joined++
	return nil
}

func (l *Local) fault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err.Error())
}

func (l *Local) strategyFault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults++; l.first == nil {
		l.first = err
	}
}

// Errors are of dispatchers that ended by themselves, and of their strategy.
func (l *Local) Errors() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := slices.Clone(l.errs)
	if l.faults > 0 {
		errs = append(errs, fmt.Sprintf(strategyFaults, "the dispatchers", l.faults, l.first))
	}
	return errs
}

// Dispatchers returns those that run, in the order in which they joined.
func (l *Local) Dispatchers() []*Dispatcher { return slices.Clone(l.replicas) }

// Owner returns the dispatcher that drains a single-active queue, nil without
// any. It needs a Network.
func (l *Local) Owner(name string) *Dispatcher {
	if l.net == nil {
		return nil
	}
	c := l.net.owner(name)
	for _, d := range l.replicas {
		if d.link == chaos.Link(c) {
			return d
		}
	}
	return nil
}

// Leave stops the second oldest dispatcher.
func (l *Local) Leave(context.Context) error { return l.leave(second) }

// Retire stops the oldest dispatcher.
func (l *Local) Retire(context.Context) error { return l.leave(oldest) }

func (l *Local) leave(place int) error {
	d, err := take(&l.replicas, place)
	if err != nil {
		return err
	}
	return d.stop()
}

// Remove stops these dispatchers together, cleanly.
func (l *Local) Remove(which ...*Dispatcher) error {
	for _, d := range which {
		d.cancel(nil)
	}
	var faults []error
	for _, d := range which {
		if i := slices.Index(l.replicas, d); i >= 0 {
			l.replicas = slices.Delete(l.replicas, i, i+1)
			faults = append(faults, d.stop())
		}
	}
	return errors.Join(faults...)
}

// stop ends the dispatcher cleanly.
func (d *Dispatcher) stop() error {
	d.cancel(nil)
	err := d.end()
	return errors.Join(err, d.link.Close())
}

// end waits until the dispatcher has ended.
func (d *Dispatcher) end() error {
	err := <-d.done
	d.sender.Close()
	return err
}

// Kill cuts the oldest dispatcher off the broker and the platform, and its
// strategy off whatever that talks to. It does not wait for the goroutines: what
// they still do has no effect, as of a process that is dead.
func (l *Local) Kill(context.Context) error {
	d, err := take(&l.replicas, oldest)
	if err != nil {
		return err
	}
	l.kill(d)
	return nil
}

// KillOwner kills the dispatcher that drains a single-active queue, and returns
// it. It needs a Network.
func (l *Local) KillOwner(name string) (*Dispatcher, error) {
	d := l.Owner(name)
	if d == nil {
		return nil, fmt.Errorf("kill the owner of %q: it has none", name)
	}
	l.replicas = slices.DeleteFunc(l.replicas, func(o *Dispatcher) bool { return o == d })
	l.kill(d)
	return d, nil
}

func (l *Local) kill(d *Dispatcher) {
	d.link.Cut()
	d.cancel(errKilled)
	l.killed = append(l.killed, d)
}

// Stop stops everything but the broker and the platform, and waits for what is
// left of the killed.
func (l *Local) Stop(context.Context) error {
	var faults []error
	if l.ingress != nil {
		faults = append(faults, l.ingress.stop())
		l.ingress = nil
	}
	faults = append(faults, l.Remove(l.Dispatchers()...)) // together: each waits for its calls in flight
	for _, d := range l.killed {
		if err := d.end(); err != nil {
			l.cfg.Log.Debug("killed dispatcher", "err", err)
		}
	}
	l.killed = nil
	return errors.Join(faults...)
}

// Ingress starts webhook and core.
func (l *Local) Ingress(ctx context.Context, f Ingress) (string, error) {
	ingress, err := startIngress(ctx, f, l.source, l.cfg.Log)
	if err != nil {
		return "", err
	}
	l.ingress = ingress
	return ingress.url, nil
}

// Broker is the one in memory, over the network if there is one.
func (l *Local) Broker() queue.Broker { return l.source }

// API is the fake.
func (l *Local) API() *fakeapi.API { return l.platform }

// Platform is the fake, without a socket.
func (l *Local) Platform() Platform {
	return Platform{URL: "http://fakeapi", Transport: l.platform.Transport()}
}

// Delayed is how many messages the broker keeps back for a time.
func (l *Local) Delayed() int { return l.broker.Delayed() }

// Queues lists the queues that there are: those of the topology and the lanes.
func (l *Local) Queues() []string { return l.broker.Queues() }

// Usage is of this whole process, but for the broker's operations. Memory is not
// known: most of the process's is the load generator's and the fake's, and what
// runs before this fleet did in the same process.
func (l *Local) Usage() (Usage, error) {
	u := Usage{Operations: new(l.broker.Operations()), Whole: true}
	cpu, err := machine.OwnCPU()
	if err != nil {
		return u, err
	}
	u.All, u.Machine = new(cpu), machine.Read(cpu)
	return u, nil
}

// Close ends everything.
func (l *Local) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := errors.Join(l.Stop(ctx), l.source.Close(), l.broker.Close())
	if l.net != nil {
		l.net.close()
		l.net = nil
	}
	return err
}
