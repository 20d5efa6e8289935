package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/internal/dispatch"
	"chatclub/internal/loadtest/proc"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/sender"
)

// Local is a fleet in this process: dispatchers as goroutines, the broker in
// memory, the platform without a socket. OpenLocal makes
// one.
type Local struct {
	cfg      Config
	broker   *memory.Broker
	platform *fakeapi.API
	front    *front
	replicas []*replica // that run, in the order they joined
	killed   []*replica // whose goroutines may still have to end
	joined   int

	mu     sync.Mutex
	errs   []string
	faults int64 // of the strategy
	first  error // of them
}

var _ Fleet = (*Local)(nil)

type replica struct {
	link   *link
	sender *sender.Sender
	cancel context.CancelCauseFunc
	done   chan error
}

// errKilled is why a killed dispatcher's context ends.
var errKilled = errors.New("killed")

// OpenLocal makes a Local without dispatchers. It is returned as a Fleet, because
// a nil *Local that a caller hands on as one would not be nil any more.
func OpenLocal(cfg Config) (Fleet, error) {
	broker, err := memory.New(cfg.Topology)
	if err != nil {
		return nil, err
	}
	platform, err := fakeapi.New(fakeapi.Config{Seed: cfg.Seed})
	if err != nil {
		return nil, err
	}
	return &Local{cfg: cfg, broker: broker, platform: platform}, nil
}

// Join starts a dispatcher. It takes messages at once.
func (l *Local) Join(ctx context.Context) error {
	link := &link{Broker: l.broker}
	reg := prometheus.NewRegistry()
	send, err := sender.New(sender.Config{
		BaseURL: "http://fakeapi/v23.0", Tokens: tokens{}, Transport: link.over(l.platform.Transport()),
		MaxInFlight: MaxInFlight, CallTimeout: callTimeout, Registerer: reg,
	})
	if err != nil {
		return err
	}
	var caller dispatch.Caller = send
	if l.cfg.Wrap != nil {
		caller = l.cfg.Wrap(send)
	}
	r, err := newRunner(ctx, l.cfg.Options, parts{broker: link, caller: caller, reg: reg, log: l.cfg.Log, replica: l.joined, fault: l.strategyFault})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	rep := &replica{link: link, sender: send, cancel: cancel, done: make(chan error, 1)}
	go func() {
		err := r.run(running)
		if running.Err() == nil {
			l.fault(fmt.Errorf("a dispatcher ended by itself: %w", err))
		}
		rep.done <- err
	}()
	l.replicas = append(l.replicas, rep)
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

// Leave stops the second oldest dispatcher.
func (l *Local) Leave(context.Context) error {
	r, err := take(&l.replicas, second)
	if err != nil {
		return err
	}
	r.cancel(nil)
	return r.end()
}

// end waits until the dispatcher has ended.
func (r *replica) end() error {
	err := <-r.done
	r.sender.Close()
	return err
}

// Kill cuts the oldest dispatcher off the broker and the platform, and its
// strategy off whatever that talks to. It does not wait for the goroutines: what
// they still do nobody sees, and nobody waits for a process that is dead.
func (l *Local) Kill(context.Context) error {
	r, err := take(&l.replicas, oldest)
	if err != nil {
		return err
	}
	r.link.cut()
	r.cancel(errKilled)
	l.killed = append(l.killed, r)
	return nil
}

// Stop stops everything but the broker and the platform, and waits for what is
// left of the killed.
func (l *Local) Stop(ctx context.Context) error {
	var faults []error
	if l.front != nil {
		faults = append(faults, l.front.stop())
		l.front = nil
	}
	for _, r := range l.replicas { // together: each waits for its calls in flight
		r.cancel(nil)
	}
	for len(l.replicas) > 0 {
		faults = append(faults, l.Leave(ctx))
	}
	for _, r := range l.killed {
		if err := r.end(); err != nil {
			l.cfg.Log.Debug("killed dispatcher", "err", err)
		}
	}
	l.killed = nil
	return errors.Join(faults...)
}

// Front starts webhook and core.
func (l *Local) Front(ctx context.Context, f Front) (string, error) {
	front, err := startFront(ctx, f, l.broker, l.cfg.Log)
	if err != nil {
		return "", err
	}
	l.front = front
	return front.url, nil
}

// Broker is the one in memory.
func (l *Local) Broker() queue.Broker { return l.broker }

// Platform is the fake, without a socket.
func (l *Local) Platform() Platform {
	return Platform{URL: "http://fakeapi", Transport: l.platform.Transport()}
}

// Usage is of this whole process, but for the broker's operations. Memory is not
// known: most of the process's is the load generator's and the fake's, and what
// runs before this fleet did in the same process.
func (l *Local) Usage() (Usage, error) {
	u := Usage{Operations: new(l.broker.Operations()), Whole: true}
	cpu, err := proc.Self()
	if err != nil {
		return u, err
	}
	u.All, u.Machine = new(cpu), proc.ReadMachine(cpu)
	return u, nil
}

// Close ends everything.
func (l *Local) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return errors.Join(l.Stop(ctx), l.broker.Close())
}
