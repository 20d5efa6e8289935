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
	"chatclub/internal/backoff"
	"chatclub/internal/chaos"
	"chatclub/internal/dispatch"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/networktest"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/sender"
	"chatclub/internal/service"
)

// Local is a fleet in this process: dispatchers as goroutines, the platform without a
// socket, and the broker in memory or a RabbitMQ, to which each dispatcher has a
// connection of its own. In memory it runs in a synctest bubble as well. NewLocal makes one.
type Local struct {
	crew[*Dispatcher]
	cfg      Config
	memory   *networktest.Broker // nil: on RabbitMQ
	broker   queue.Broker        // of the load generator, webhook and core
	platform *fakeapi.API
	ingress  func() error // stops webhook and core; nil: they do not run

	mu      sync.Mutex
	metrics []*prometheus.Registry // of each connection
	all     []*Dispatcher          // those that have ended, too
	faults  int64                  // of dispatchers and their strategy
	first   error                  // of them
}

// keptSeconds are those of each page that the platform's ledger keeps: an hour and
// more.
const keptSeconds = 4000

// Dispatcher is one of a Local.
type Dispatcher struct {
	link   *chaos.Link
	Way    *chaos.Way // to the platform
	sender *sender.Sender
	cancel context.CancelFunc
	done   chan error
}

// Stop ends the dispatcher cleanly.
func (d *Dispatcher) Stop() error {
	d.cancel()
	return d.end()
}

// end waits until the dispatcher has ended. It may be called again.
func (d *Dispatcher) end() error {
	err := <-d.done
	d.done <- nil
	d.sender.Close()
	return err
}

// Kill cuts the dispatcher off the broker and the platform. It does not wait for the
// goroutines: all that they still do has no effect, as of a process that is dead.
func (d *Dispatcher) Kill() error {
	d.link.Cut()
	d.cancel()
	return nil
}

// NewLocal makes a Local without dispatchers.
func NewLocal(ctx context.Context, cfg Config) (_ *Local, err error) {
	if cfg.Random == nil {
		cfg.Random = seeded(cfg.Seed)
	}
	cfg.Topology.WithShared = cfg.Options.shares()
	l := &Local{cfg: cfg}
	l.start = l.dispatcher
	if l.platform, err = fakeapi.New(fakeapi.Config{Seed: cfg.Seed, Settings: cfg.Fake, Seconds: keptSeconds}); err != nil {
		return nil, err
	}
	if cfg.AMQP == "" {
		l.memory, err = networktest.NewBroker(cfg.Topology, cfg.Memory)
		l.broker = l.memory
	} else if err = rabbit.Delete(ctx, cfg.AMQP, cfg.Topology); err == nil {
		l.broker, err = l.connect(prometheus.NewRegistry(), false)
	}
	if err != nil {
		return nil, err
	}
	err = await(ctx, l.broker.Ready)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the broker is not ready: %w", err), l.broker.Close())
	}
	return l, nil
}

// seeded makes a source for one dispatcher after another. Equal seeds make equal ones.
func seeded(seed uint64) func() func() float64 {
	n := uint64(0)
	return func() func() float64 {
		var mu sync.Mutex
		n++
		rng := rand.New(rand.NewPCG(seed, n))
		return func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return rng.Float64()
		}
	}
}

// connect opens a connection to the broker, which counts in reg. In memory there is
// one for all.
func (l *Local) connect(reg *prometheus.Registry, passive bool) (queue.Broker, error) {
	if l.memory != nil {
		return l.memory, nil
	}
	l.mu.Lock()
	l.metrics = append(l.metrics, reg)
	l.mu.Unlock()
	return rabbit.Open(rabbit.Config{
		URLs: []string{l.cfg.AMQP}, Topology: l.cfg.Topology, Passive: passive, Log: l.cfg.Log, Registerer: reg, Name: "loadtest",
	})
}

// disconnect closes a dispatcher's connection. The broker in memory stays.
func (l *Local) disconnect(b queue.Broker) error {
	if l.memory != nil {
		return nil
	}
	return b.Close()
}

// readyTimeout is the time limit of a part's start, on a busy machine.
const readyTimeout = 3 * time.Minute

// await waits until something is ready.
func await(ctx context.Context, ready func() error) error {
	for end := time.Now().Add(readyTimeout); ; {
		err := ready()
		if err == nil || time.Now().After(end) || !backoff.Sleep(ctx, 20*time.Millisecond) { // a poll of another program
			return err
		}
	}
}

// dispatcher starts one, and returns when it takes messages.
func (l *Local) dispatcher(ctx context.Context, replica int) (*Dispatcher, error) {
	reg := prometheus.NewRegistry()
	broker, err := l.connect(reg, true)
	if err != nil {
		return nil, err
	}
	link := chaos.NewLink(broker)
	way := chaos.NewWay(link, l.platform.Transport())
	send, err := sender.New(sender.Config{
		BaseURL: "http://fakeapi" + graphVersion, Tokens: l.platform, Transport: way,
		MaxInFlight: MaxInFlight, CallTimeout: callTimeout, Registerer: reg,
	})
	if err != nil {
		return nil, err
	}
	var caller dispatch.Caller = send
	if l.cfg.Wrap != nil {
		caller = l.cfg.Wrap(send)
	}
	run, ready, err := l.runner(ctx, link, caller, reg, replica)
	if err != nil {
		return nil, errors.Join(err, l.disconnect(broker))
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d := &Dispatcher{link: link, Way: way, sender: send, cancel: cancel, done: make(chan error, 1)}
	go func() {
		err := run(running)
		if running.Err() == nil {
			l.fault(fmt.Errorf("a dispatcher ended by itself: %w", err))
		}
		d.done <- errors.Join(err, l.disconnect(broker))
	}()
	l.mu.Lock()
	l.all = append(l.all, d)
	l.mu.Unlock()
	if l.memory != nil {
		return d, nil // it takes messages at once
	}
	return d, await(ctx, func() error { return ready(ctx) })
}

// fault counts an error of a dispatcher or of its strategy.
func (l *Local) fault(err error) {
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
	if l.faults == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the dispatchers met %d errors, and the figures are those of dispatchers that met them: %v", l.faults, l.first)}
}

// Dispatchers returns those that run, in the order in which they joined.
func (l *Local) Dispatchers() []*Dispatcher { return l.live() }

// Remove stops these dispatchers together, cleanly.
func (l *Local) Remove(which ...*Dispatcher) error { return l.stop(which...) }

// Owner returns the dispatcher that drains a single-active queue, nil without any.
func (l *Local) Owner(name string) *Dispatcher {
	active := l.memory.Active(name)
	for _, d := range l.live() {
		if active != nil && d.link.Has(active) {
			return d
		}
	}
	return nil
}

// Crash kills a dispatcher.
func (l *Local) Crash(d *Dispatcher) error {
	l.take(d)
	return d.Kill()
}

// Stop stops everything but the broker and the platform, and waits for the rest of
// the killed, and for the messages that the broker keeps back.
func (l *Local) Stop() error {
	var err error
	if l.ingress != nil {
		err = l.ingress()
		l.ingress = nil
	}
	err = errors.Join(err, l.stop(l.live()...))
	for _, d := range l.all {
		if err := d.end(); err != nil {
			l.cfg.Log.Debug("killed dispatcher", "err", err)
		}
	}
	for end := time.Now().Add(slices.Max(queue.Delays()) + time.Second); l.memory != nil && l.memory.Delayed() > 0 && time.Now().Before(end); {
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

// Broker is the load generator's connection.
func (l *Local) Broker() queue.Broker { return l.broker }

// API is the fake.
func (l *Local) API() *fakeapi.API { return l.platform }

// Platform is the fake, without a socket.
func (l *Local) Platform() Platform {
	return Platform{URL: "http://fakeapi", Transport: l.platform.Transport()}
}

// Operations implements Fleet. On RabbitMQ each connection counts its own.
func (l *Local) Operations() (n int64, known bool) {
	if l.memory != nil {
		return l.memory.Operations(), true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, reg := range l.metrics {
		families, err := reg.Gather()
		if err != nil {
			return 0, false
		}
		for _, f := range families {
			switch f.GetName() {
			case "chatclub_broker_published_total", "chatclub_broker_deliveries_total", "chatclub_broker_settled_total":
				for _, m := range f.GetMetric() {
					n += int64(m.GetCounter().GetValue())
				}
			}
		}
	}
	return n, true
}

// Close ends everything, and deletes the queues on RabbitMQ.
func (l *Local) Close() error {
	err := errors.Join(l.Stop(), l.broker.Close())
	if l.cfg.AMQP != "" {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = errors.Join(err, rabbit.Delete(ctx, l.cfg.AMQP, l.cfg.Topology))
	}
	return err
}
