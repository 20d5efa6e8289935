package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/internal/dispatch"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/sender"
)

// Local is a fleet in this process: dispatchers as goroutines, the broker in
// memory, the platform without a socket. Open makes one.
type Local struct {
	cfg      Config
	broker   *memory.Broker
	platform *fakeapi.API
	front    *front
	replicas []*replica // that run, in the order they joined
	joined   int

	mu   sync.Mutex
	errs []string
}

var _ Fleet = (*Local)(nil)

type replica struct {
	link   *link
	sender *sender.Sender
	cancel context.CancelFunc
	done   chan error
}

// OpenLocal makes a fleet without dispatchers.
func OpenLocal(cfg Config) (*Local, error) {
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
	r, err := newRunner(l.cfg.Options, parts{broker: link, caller: caller, reg: reg, log: l.cfg.Log, replica: l.joined})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
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

// Errors are of dispatchers that ended by themselves.
func (l *Local) Errors() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.errs...)
}

func (l *Local) pop() (*replica, error) {
	if len(l.replicas) == 0 {
		return nil, errors.New("no dispatcher is running")
	}
	last := l.replicas[len(l.replicas)-1]
	l.replicas = l.replicas[:len(l.replicas)-1]
	return last, nil
}

// Leave stops the latest dispatcher.
func (l *Local) Leave(context.Context) error {
	r, err := l.pop()
	if err != nil {
		return err
	}
	r.cancel()
	err = <-r.done
	r.sender.Close()
	return err
}

// Kill cuts the latest dispatcher off the broker and the platform. What its
// goroutines say while they end concerns nobody.
func (l *Local) Kill(context.Context) error {
	r, err := l.pop()
	if err != nil {
		return err
	}
	r.link.cut()
	r.cancel()
	if err := <-r.done; err != nil {
		l.cfg.Log.Debug("killed dispatcher", "err", err)
	}
	r.sender.Close()
	return nil
}

// Stop stops everything but the broker and the platform.
func (l *Local) Stop(ctx context.Context) error {
	var faults []error
	if l.front != nil {
		faults = append(faults, l.front.stop())
		l.front = nil
	}
	for _, r := range l.replicas { // together: each waits for its calls in flight
		r.cancel()
	}
	for len(l.replicas) > 0 {
		faults = append(faults, l.Leave(ctx))
	}
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

// Usage is of this whole process, but for the broker's operations.
func (l *Local) Usage() (Usage, error) {
	u := Usage{Operations: new(l.broker.Operations()), Whole: true}
	cpu, memory, err := own()
	if err != nil {
		return u, err
	}
	u.All = new(cpu)
	if memory > 0 {
		u.Memory = new(memory)
	}
	u.Machine = machine(cpu)
	return u, nil
}

// Close ends everything.
func (l *Local) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return errors.Join(l.Stop(ctx), l.broker.Close())
}
