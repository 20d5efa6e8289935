package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/backoff"
	"chatclub/internal/machine"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/loadtest/proc"
)

// processes is a fleet on RabbitMQ: each dispatcher is a process, and so are the
// platform, webhook and core. OpenProcesses makes it.
type processes struct {
	crew[*Process]
	cfg      Config
	amqpURL  string
	group    *Group
	broker   *rabbit.Broker
	reg      *prometheus.Registry
	platform *Process
	api      string // the platform's address
	ingress  []*Process
	failures []string // so far
}

// OpenProcesses makes a fleet without dispatchers, and returns the broker's name and
// version. The topology's queues are deleted before and after, with what is on them.
func OpenProcesses(ctx context.Context, cfg Config, amqpURL string) (_ Fleet, version string, err error) {
	cfg.Topology.WithShared = true
	p := &processes{cfg: cfg, amqpURL: amqpURL, reg: prometheus.NewRegistry()}
	p.start = p.dispatcher
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close(context.WithoutCancel(ctx)))
		}
	}()
	if version, err = rabbit.Delete(ctx, amqpURL, cfg.Topology); err != nil {
		return nil, version, err
	}
	if p.broker, err = rabbit.Open(rabbit.Config{URLs: []string{amqpURL}, Topology: cfg.Topology, Log: cfg.Log, Registerer: p.reg, Name: "loadtest"}); err != nil {
		return nil, version, err
	}
	if err := await(ctx, p.broker.Ready); err != nil {
		return nil, version, fmt.Errorf("the broker is not ready: %w", err)
	}
	if p.group, err = NewGroup(); err != nil {
		return nil, version, err
	}
	if p.api, p.platform, err = p.group.Platform(ctx, cfg.Seed, cfg.Pages); err != nil {
		return nil, version, err
	}
	return p, version, nil
}

// await waits until something is ready, as long as a program may take to start.
func await(ctx context.Context, ready func() error) error {
	for end := time.Now().Add(aliveTimeout); ; {
		err := ready()
		if err == nil || time.Now().After(end) || !backoff.Sleep(ctx, 20*time.Millisecond) { // a poll of another process
			return err
		}
	}
}

// Platform starts the fake as a process, and writes the tokens of pages into the file
// pages.json of the group's folder.
func (g *Group) Platform(ctx context.Context, seed uint64, pages []string) (url string, p *Process, err error) {
	known := make(map[string]string)
	for _, page := range pages {
		known[page], _ = tokens{}.Token(page)
	}
	b, err := json.Marshal(known)
	if err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(g.PagesFile(), b, 0o600); err != nil {
		return "", nil, fmt.Errorf("write the pages: %w", err)
	}
	addr, err := Addr()
	if err != nil {
		return "", nil, err
	}
	if p, err = g.New("fakeapi", KindPlatform, map[string]string{"HTTP_ADDR": addr, "SEED": strconv.FormatUint(seed, 10)}); err != nil {
		return "", nil, err
	}
	err = p.Start(ctx)
	return "http://" + addr, p, err
}

// PagesFile is the file with the pages' tokens.
func (g *Group) PagesFile() string { return filepath.Join(g.Dir, "pages.json") }

// environment is that of every program on the broker.
func (p *processes) environment(more map[string]string) map[string]string {
	env := map[string]string{"AMQP_URL": p.amqpURL, "QUEUE_PREFIX": p.cfg.Topology.Prefix, "PARTITIONS": strconv.Itoa(p.cfg.Topology.Partitions)}
	maps.Copy(env, more)
	return env
}

// dispatcher starts the program, or a strategy's worker.
func (p *processes) dispatcher(ctx context.Context, replica int) (*Process, error) {
	o := p.cfg.Options
	env := p.environment(o.environment())
	env["PAGES_FILE"], env["GRAPH_URL"] = p.group.PagesFile(), p.api+graphVersion
	kind := KindDispatcher
	if o.shares() {
		kind = KindWorker
		maps.Copy(env, map[string]string{
			strategyVariable: o.Strategy, replicasVariable: strconv.Itoa(o.Replicas), replicaVariable: strconv.Itoa(replica),
			redisVariable: o.RedisURL, keysVariable: o.KeyPrefix,
		})
	}
	d, err := p.group.New(fmt.Sprintf("dispatcher-%d", replica+1), kind, env)
	if err != nil {
		return nil, err
	}
	if err := d.Start(ctx); err != nil {
		return nil, err
	}
	return d, await(ctx, func() error { _, err := d.Get(ctx, "/readyz"); return err })
}

// Ingress starts webhook and core.
func (p *processes) Ingress(ctx context.Context, f Ingress) (string, error) {
	addr, err := Addr()
	if err != nil {
		return "", err
	}
	env := p.environment(f.environment(p.group.Dir))
	env["HTTP_ADDR"] = addr
	if f.Shared {
		env[sharedVariable] = "yes"
	}
	for _, kind := range []string{KindWebhook, KindCore} {
		c, err := p.group.New(kind, kind, env)
		if err != nil {
			return "", err
		}
		p.ingress = append(p.ingress, c)
		if err := c.Start(ctx); err != nil {
			return "", err
		}
		if err := await(ctx, func() error { _, err := c.Get(ctx, "/readyz"); return err }); err != nil {
			return "", err
		}
	}
	return "http://" + addr + "/webhook", nil
}

// Stop implements Fleet.
func (p *processes) Stop(ctx context.Context) error {
	err := Each(p.ingress, func(c *Process) error { return c.Stop(ctx) })
	return errors.Join(err, p.stop(ctx, p.live()...))
}

// Broker is the load generator's connection.
func (p *processes) Broker() queue.Broker { return p.broker }

// Platform is the fake's process.
func (p *processes) Platform() Platform { return Platform{URL: p.api} }

// Errors are of processes that ended by themselves, and of the strategy.
func (p *processes) Errors() []string {
	faults, said := 0., ""
	for _, c := range p.group.All() {
		p.failures = append(p.failures, c.Failures()...)
		if n := c.faults(); n > 0 {
			faults, said = faults+n, c.LastWords()
		}
	}
	if faults > 0 {
		return append(slices.Clone(p.failures), fmt.Sprintf(strategyFaults, int(faults), said))
	}
	return p.failures
}

// Usage is of the dispatchers, those that have ended included, of webhook and
// core, of the fake, and of the broker where it is on this machine.
func (p *processes) Usage() (Usage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	families, err := p.reg.Gather()
	if err != nil {
		return Usage{}, fmt.Errorf("read own metrics: %w", err)
	}
	own := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			own[f.GetName()] += m.GetCounter().GetValue()
		}
	}
	var broker *time.Duration
	if pid := proc.Listener(p.amqpURL); pid != 0 {
		cpu, err := proc.Tree(pid)
		if err != nil {
			return Usage{}, fmt.Errorf("the broker's process: %w", err)
		}
		broker = &cpu
	}
	return usage(ctx, p.all(), append(slices.Clone(p.ingress), p.platform), operations(own), broker), nil
}

// usage adds up the use of dispatchers, of those beside them, and of servers; own are
// the operations of this process.
func usage(ctx context.Context, dispatchers, beside []*Process, own int64, servers *time.Duration) (u Usage) {
	all := slices.Concat(dispatchers, beside)
	used := make([]Used, len(all))
	var asking sync.WaitGroup // side by side, so that one that hangs takes nothing from the others
	for i, p := range all {
		asking.Go(func() { used[i] = p.Used(ctx) })
	}
	asking.Wait()
	counts, times := []*int64{&own}, []*time.Duration(nil)
	for i, x := range used {
		times = append(times, x.CPU)
		if x.Metrics != nil {
			counts = append(counts, new(operations(x.Metrics)))
		} else if i < len(dispatchers) {
			counts = append(counts, nil)
		}
		// Not the sum of the peaks: those of dispatchers that never ran at the same
		// time would be added up, and no memory is sampled.
		if i < len(dispatchers) && x.Peak != nil && (u.Memory == nil || *x.Peak > *u.Memory) {
			u.Memory = x.Peak
		}
	}
	u.Operations, u.Dispatchers, u.All = sum(counts...), sum(times[:len(dispatchers)]...), sum(append(times, servers)...)
	if self, err := machine.OwnCPU(); err == nil && u.All != nil {
		u.Machine = machine.Read(*u.All + self)
	}
	return u
}

// sum is nil when one of them is: it would be too low.
func sum[N cmp.Ordered](list ...*N) *N {
	var n N
	for _, x := range list {
		if x == nil {
			return nil
		}
		n += *x
	}
	return &n
}

// Close ends everything and deletes the queues.
func (p *processes) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var faults []error
	if p.group != nil {
		faults = append(faults, p.Stop(ctx))
		failed := p.platform == nil || len(p.Errors()) > 0
		if failed {
			p.cfg.Log.Warn("programs failed", "logs", p.group.Logs)
		}
		faults = append(faults, p.group.Close(ctx, failed))
	}
	if p.broker != nil {
		faults = append(faults, p.broker.Close())
		_, err := rabbit.Delete(ctx, p.amqpURL, p.cfg.Topology)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
