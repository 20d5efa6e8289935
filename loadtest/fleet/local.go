package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/internal/app"
	"chatclub/internal/chaos"
	"chatclub/internal/dispatch"
	"chatclub/internal/machine"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/sender"
	"chatclub/internal/service"
)

// Local is a fleet in this process: dispatchers as goroutines, the broker in
// memory, the platform without a socket. It runs in a synctest bubble as well.
// OpenLocal and NewLocal make one.
type Local struct {
	crew[*Dispatcher]
	cfg      LocalConfig
	broker   *memory.Broker
	platform *fakeapi.API
	ingress  func() error // stops webhook and core; nil: they do not run

	mu     sync.Mutex
	errs   []string
	faults int64 // of the strategy
	first  error // of them
}

// LocalConfig is a Config with what only a Local can do.
type LocalConfig struct {
	Config
	Broker   memory.Options    // makes the broker slow
	Platform *fakeapi.Settings // nil: the fake's defaults

	// Random returns a dispatcher's source of random numbers in [0, 1), which
	// must be safe for concurrent use. nil: math/rand.
	Random func() func() float64
}

// keptSeconds are those of each page that the platform's ledger keeps: an hour and
// more.
const keptSeconds = 4000

// Dispatcher is one of a Local.
type Dispatcher struct {
	link   *link
	way    *chaos.Way
	sender *sender.Sender
	cancel context.CancelCauseFunc
	done   chan error
}

// SetHealth changes the state of the dispatcher's way to the platform.
func (d *Dispatcher) SetHealth(h chaos.Health) { d.way.SetHealth(h) }

// InFlight returns how many calls the platform has taken and not answered.
func (d *Dispatcher) InFlight() int { return d.way.InFlight() }

// Stop ends the dispatcher cleanly.
func (d *Dispatcher) Stop(context.Context) error {
	d.cancel(nil)
	err := d.end()
	return errors.Join(err, d.link.Close())
}

// end waits until the dispatcher has ended. It may be called again.
func (d *Dispatcher) end() error {
	err := <-d.done
	d.done <- nil
	d.sender.Close()
	return err
}

// errKilled is why a killed dispatcher's context ends.
var errKilled = errors.New("killed")

// Kill cuts the dispatcher off the broker and the platform, and its strategy off
// its Redis. It does not wait for the goroutines: all that they still do has no effect,
// as of a process that is dead.
func (d *Dispatcher) Kill(context.Context) error {
	d.link.Cut()
	d.cancel(errKilled)
	return nil
}

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
	cfg.Topology.WithShared = cfg.Options.shares()
	broker, err := memory.NewSlow(cfg.Topology, cfg.Broker)
	if err != nil {
		return nil, err
	}
	platform, err := fakeapi.New(fakeapi.Config{Seed: cfg.Seed, Settings: cfg.Platform, Seconds: keptSeconds})
	if err != nil {
		return nil, err
	}
	if cfg.Random == nil {
		cfg.Random = func() func() float64 { return rand.Float64 }
	}
	l := &Local{cfg: cfg, broker: broker, platform: platform}
	l.start = l.dispatcher
	return l, nil
}

// link is a dispatcher's connection, which knows its subscriptions.
type link struct {
	*chaos.Link
	mu   sync.Mutex
	subs []queue.Subscription
}

// Consume implements queue.Broker.
func (l *link) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
	s, err := l.Link.Consume(name, opts)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subs = append(l.subs, s)
	return s, err
}

func (l *link) has(s queue.Subscription) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.subs, s)
}

// dispatcher starts one. It takes messages at once.
func (l *Local) dispatcher(ctx context.Context, replica int) (*Dispatcher, error) {
	link := &link{Link: chaos.NewLink(l.broker)}
	way := chaos.NewWay(link.Link, l.platform.Transport())
	reg := prometheus.NewRegistry()
	send, err := sender.New(sender.Config{
		BaseURL: "http://fakeapi" + graphVersion, Tokens: tokens{}, Transport: way,
		MaxInFlight: MaxInFlight, CallTimeout: callTimeout, Registerer: reg,
	})
	if err != nil {
		return nil, err
	}
	var caller dispatch.Caller = send
	if l.cfg.Wrap != nil {
		caller = l.cfg.Wrap(send)
	}
	r, err := newRunner(ctx, l.cfg.Options, parts{
		broker: link, caller: caller, reg: reg, log: l.cfg.Log, replica: replica, fault: l.strategyFault,
		random: l.cfg.Random(),
	})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	d := &Dispatcher{link: link, way: way, sender: send, cancel: cancel, done: make(chan error, 1)}
	go func() {
		err := r.run(running)
		if running.Err() == nil {
			l.mu.Lock()
			l.errs = append(l.errs, fmt.Sprintf("a dispatcher ended by itself: %v", err))
			l.mu.Unlock()
		}
		d.done <- err
	}()
	return d, nil
}

func (l *Local) strategyFault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults++; l.first == nil {
		l.first = err
	}
}

// strategyFaults is how Errors says that the strategy's figures are not its best:
// how many errors, and one of them.
const strategyFaults = "the strategy met %d errors, and its figures are those of a strategy that met them: %v"

// Errors are of dispatchers that ended by themselves, and of their strategy.
func (l *Local) Errors() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := slices.Clone(l.errs)
	if l.faults > 0 {
		errs = append(errs, fmt.Sprintf(strategyFaults, l.faults, l.first))
	}
	return errs
}

// Dispatchers returns those that run, in the order in which they joined.
func (l *Local) Dispatchers() []*Dispatcher { return l.live() }

// Remove stops these dispatchers together, cleanly.
func (l *Local) Remove(which ...*Dispatcher) error { return l.stop(context.Background(), which...) }

// Owner returns the dispatcher that drains a single-active queue, nil without any.
func (l *Local) Owner(name string) *Dispatcher {
	active := l.broker.Active(name)
	for _, d := range l.live() {
		if active != nil && d.link.has(active) {
			return d
		}
	}
	return nil
}

// KillOwner kills the dispatcher that drains a single-active queue, and returns
// it.
func (l *Local) KillOwner(name string) (*Dispatcher, error) {
	d := l.Owner(name)
	if d == nil {
		return nil, fmt.Errorf("kill the owner of %q: it has none", name)
	}
	l.take(d)
	err := d.Kill(context.Background())
	return d, err
}

// Stop stops everything but the broker and the platform, and waits for the rest of
// the killed, and for the messages that the broker keeps back.
func (l *Local) Stop(ctx context.Context) error {
	var err error
	if l.ingress != nil {
		err = l.ingress()
		l.ingress = nil
	}
	err = errors.Join(err, l.stop(ctx, l.live()...))
	for _, d := range l.all() {
		if err := d.end(); err != nil {
			l.cfg.Log.Debug("killed dispatcher", "err", err)
		}
	}
	for end := time.Now().Add(slices.Max(queue.Delays()) + time.Second); l.broker.Delayed() > 0 && time.Now().Before(end); {
		time.Sleep(300 * time.Millisecond)
	}
	return err
}

// Ingress starts webhook and core with a database in a folder of their own.
func (l *Local) Ingress(ctx context.Context, f Ingress) (url string, err error) {
	dir, err := os.MkdirTemp("", "loadtest-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the database: %w", err)
	}
	environ := f.environment(dir)
	environ["HTTP_ADDR"], environ["AMQP_URL"] = "127.0.0.1:0", "amqp://memory/" // it is given
	hookSettings, err := service.Load[app.WebhookSettings](nil, environ, io.Discard)
	coreSettings, err2 := service.Load[app.CoreSettings](nil, environ, io.Discard)
	if err := errors.Join(err, err2); err != nil {
		return "", err
	}
	hookSettings.Admin.Addr, coreSettings.Admin.Addr = "", ""
	options := app.Options{Broker: l.broker, Registry: prometheus.NewRegistry(), Log: l.cfg.Log, Name: "webhook"}
	if f.Shared {
		options.Broker = shared{l.broker}
	}
	hook, err := app.NewWebhook(ctx, app.WebhookConfig{Settings: hookSettings, Options: options})
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	options.Name = "core"
	core, err := app.NewCore(ctx, app.CoreConfig{Settings: coreSettings, Options: options})
	if err != nil {
		return "", errors.Join(err, hook.Close(), os.RemoveAll(dir))
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		done <- service.Run(running, l.cfg.Log, service.Actor{Name: "webhook", Run: hook.Run}, service.Actor{Name: "core", Run: core.Run})
	}()
	l.ingress = func() error { cancel(); return errors.Join(<-done, hook.Close(), os.RemoveAll(dir)) }
	return "http://" + hook.HTTPAddr() + "/webhook", nil
}

// Broker is the one in memory.
func (l *Local) Broker() queue.Broker { return l.broker }

// API is the fake.
func (l *Local) API() *fakeapi.API { return l.platform }

// Platform is the fake, without a socket.
func (l *Local) Platform() Platform {
	return Platform{URL: "http://fakeapi", Transport: l.platform.Transport()}
}

// Queues lists the queues that there are: those of the topology and the lanes.
func (l *Local) Queues() []string { return l.broker.Queues() }

// Usage is of this whole process, but for the broker's operations. Memory is not
// known: most of the process's is the load generator's and the fake's.
func (l *Local) Usage() (Usage, error) {
	u := Usage{Operations: new(l.broker.Operations())}
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
	return errors.Join(l.Stop(ctx), l.broker.Close())
}
