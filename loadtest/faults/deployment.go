package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chatclub/internal/deadletter"
	"chatclub/internal/machine"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/rooms/roomstest"
	"chatclub/loadtest/cases"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/judge"
	"chatclub/loadtest/load"
	"chatclub/loadtest/proc"
	"chatclub/loadtest/trial"
	"chatclub/tools/stall"
)

// How many of each run. One dispatcher and one core more than needed, so that one
// may fail.
const (
	cores       = 2
	dispatchers = 3
	partitions  = 8 // few, because each is a queue of all nodes
)

// secret signs the users' events.
const secret = "faults"

// Options say what to run, and on what.
type Options struct {
	Nodes    int    // of a broker of the run's own; 0: Broker is used
	Broker   string // amqp://…, whose nodes cannot be made to fail
	Database string // postgres://…; empty: one that is found, as for tests
	Load     Load
	Seed     uint64
	Say      func(line string)
}

// Deployment is the whole system as processes. It is a System.
type Deployment struct {
	opts     Options
	group    *fleet.Group
	links    *links
	nodes    *nodes   // nil: the broker is not ours
	brokers  []string // URLs of its nodes
	database string   // URL
	cleanups []func(context.Context) error
	judge    *judge.Judge
	users    *trial.Users
	stop     context.CancelFunc // of the users
	loading  chan error         // when they have stopped
	prefix   string
	failed   bool
	cpu      map[int]time.Duration // of each process of the run so far
}

// Judge is the ledger's client.
func (d *Deployment) Judge() *judge.Judge { return d.judge }

// Broker names the broker, for the report.
func (d *Deployment) Broker() string {
	if d.nodes == nil {
		return "RabbitMQ that was given"
	}
	return fmt.Sprintf("%s, nodes: %d", d.nodes.version, len(d.brokers))
}

// Logs is the folder of all that the programs print, which stays after a run that
// failed.
func (d *Deployment) Logs() string { return d.group.Logs }

// Start starts everything, and returns when all users have joined and write. The caller
// ends it with Close, also after an error, unless it is nil.
func Start(ctx context.Context, opts Options) (d *Deployment, err error) {
	d = &Deployment{
		opts: opts, links: newLinks(), cpu: make(map[int]time.Duration), failed: true,
		prefix: "faults-" + strconv.FormatInt(time.Now().UnixNano(), 36), loading: make(chan error, 1), stop: func() {},
	}
	if d.group, err = fleet.NewGroup(); err != nil {
		return nil, err
	}
	for _, do := range []func(context.Context) error{d.startBroker, d.startDatabase, d.startPrograms, d.startUsers} {
		if err := do(ctx); err != nil {
			return d, err
		}
	}
	return d, nil
}

// startBroker starts the nodes, or takes the broker that was given.
func (d *Deployment) startBroker(ctx context.Context) (err error) {
	if d.opts.Nodes == 0 {
		d.brokers = []string{d.opts.Broker}
		d.cleanups = append(d.cleanups, func(ctx context.Context) error {
			_, err := rabbit.Delete(ctx, d.opts.Broker, d.topology())
			return err
		})
		return nil
	}
	d.opts.Say(fmt.Sprintf("starting RabbitMQ, nodes: %d", d.opts.Nodes))
	if d.nodes, err = startNodes(ctx, d.group, d.opts.Nodes); err != nil {
		return err
	}
	for _, n := range d.nodes.list {
		d.brokers = append(d.brokers, "amqp://guest:guest@"+addr(n.Port)+"/")
	}
	return nil
}

// startDatabase makes a schema on PostgreSQL.
func (d *Deployment) startDatabase(context.Context) error {
	return d.openDatabase() //nolint:contextcheck // each of its statements has a time-out
}

func (d *Deployment) openDatabase() error {
	base := d.opts.Database
	if base == "" {
		found, stop, err := roomstest.Find()
		if err != nil {
			return fmt.Errorf("find PostgreSQL: %w", err)
		}
		base = found
		d.cleanups = append(d.cleanups, func(context.Context) error { return stop() })
	}
	dsn, drop, err := roomstest.Schema(base)
	if err != nil {
		return err
	}
	d.cleanups = append(d.cleanups, func(context.Context) error { return drop() })
	u, err := url.Parse(dsn)
	if err != nil {
		return errors.New("the database's address is not a URL") // the error would quote its password
	}
	if d.database = dsn; roomstest.Socket(u) != "" { // a link needs TCP
		proxy, err := roomstest.NewProxy(dsn)
		if err != nil {
			return err
		}
		d.database = proxy.URL()
		d.cleanups = append(d.cleanups, func(context.Context) error { proxy.Close(); return nil })
	}
	return nil
}

// through returns an address whose host is the begin of a new way to it.
func (d *Deployment) through(name, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("an address is not a URL")
	}
	u.Host, err = d.links.open(name, proc.HostPort(u))
	return u.String(), err
}

// startPrograms starts the platform and the programs. Every program has a way of its
// own to each node of the broker, and prefers another one.
func (d *Deployment) startPrograms(ctx context.Context) error {
	var pages []string
	for _, p := range d.stream().Pages {
		pages = append(pages, p.ID)
	}
	api, _, err := d.group.Platform(ctx, d.opts.Seed, pages)
	if err != nil {
		return err
	}
	if d.judge, err = judge.New(api, nil); err != nil {
		return err
	}
	l := d.opts.Load
	if err := d.judge.Control(ctx, map[string]any{"text": map[string]any{"per_second": l.PageLimit()}}); err != nil {
		return err
	}
	hook, err := fleet.Addr()
	if err != nil {
		return err
	}
	started := 0
	add := func(kind string, n int, env map[string]string, variable, end, address, suffix string) error {
		for i := range n {
			name := fmt.Sprintf("%s-%d", kind, i+1)
			own := maps.Clone(env)
			var ways []string
			for k := range d.brokers {
				way, err := d.through(name+" broker", d.brokers[(started+k)%len(d.brokers)])
				if err != nil {
					return err
				}
				ways = append(ways, way)
			}
			own["AMQP_URL"], own["QUEUE_PREFIX"], own["PARTITIONS"] = strings.Join(ways, ","), d.prefix, strconv.Itoa(partitions)
			if end != "" {
				way, err := d.through(name+" "+end, address)
				if err != nil {
					return err
				}
				own[variable] = way + suffix
			}
			p, err := d.group.New(name, kind, own)
			if err != nil {
				return err
			}
			if err := p.Start(ctx); err != nil {
				return err
			}
			started++
		}
		return nil
	}
	if err := errors.Join(
		add(fleet.KindWebhook, 1, map[string]string{"HTTP_ADDR": hook, "APP_SECRET": secret, "VERIFY_TOKEN": "verify"}, "", "", "", ""),
		add(fleet.KindCore, cores, map[string]string{"ROOM_CAPACITY": strconv.Itoa(l.Members), "FLOOD_LIMIT": "0", "FLOOD_SHARE": "0"}, "DATABASE_URL", "database", d.database, ""),
		add(fleet.KindDispatcher, dispatchers, map[string]string{"PAGES_FILE": d.group.PagesFile(), "LIMIT_TEXT": strconv.Itoa(l.PageLimit())}, "GRAPH_URL", "api", api, "/v23.0"),
	); err != nil {
		return err
	}
	const patience = 5 * time.Minute // Messenger's is of hours
	d.users = trial.NewUsers("http://"+hook+"/webhook", secret, d.prefix, d.judge, patience)
	return nil
}

// stream is the demand: a room on each page.
func (d *Deployment) stream() cases.Stream {
	l := d.opts.Load
	s := cases.Stream{Group: "faults", Rate: l.Flow(), People: l.Members, Poisson: true}
	for i := range l.Pages {
		s.Pages = append(s.Pages, cases.Page{ID: strconv.Itoa(i + 1), Weight: 1})
	}
	return s
}

// startUsers lets the users join, and write until Quiet.
func (d *Deployment) startUsers(ctx context.Context) error {
	d.opts.Say("the users join")
	if err := d.users.Join(ctx, []cases.Stream{d.stream()}, d.opts.Load.Members); err != nil {
		return errors.Join(append([]error{err}, d.failures()...)...)
	}
	const forever = 1000 * time.Hour
	writing := d.users.Stream(d.stream(), cases.Setting{Length: forever, Room: d.opts.Load.Members}, d.opts.Seed, 0)
	ctx, d.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { d.loading <- load.Run(ctx, time.Now(), new(load.Tally), writing) }()
	return nil
}

func (d *Deployment) failures() (list []error) {
	for _, text := range d.Failures() {
		list = append(list, errors.New(text))
	}
	return list
}

// programs are webhook, cores and dispatchers.
func (d *Deployment) programs() (list []*fleet.Process) {
	for _, p := range d.group.All() {
		if strings.Contains(p.Name, "-") {
			list = append(list, p)
		}
	}
	return list
}

// Begin implements System.
func (d *Deployment) Begin(ctx context.Context, s Step) (end func(context.Context) error, err error) {
	kind, other, isLink := strings.Cut(string(s.Fault.Part), "-")
	switch {
	case s.Fault.Part == Node && d.nodes == nil:
		return nil, errors.New("the broker is not the run's own")
	case s.Fault.Part == Node:
		return d.nodes.begin(ctx, s)
	case s.Fault.Part == Programs && s.Fault.Action == Late:
		return d.beginLinks(s, "", "broker")
	case isLink:
		return d.beginLinks(s, kind, other)
	case s.Fault.Part == Programs:
		return beginPrograms(ctx, s, d.programs())
	}
	return beginPrograms(ctx, s, d.group.Kind(kind))
}

// beginPrograms kills, stops or freezes programs.
func beginPrograms(ctx context.Context, s Step, list []*fleet.Process) (end func(context.Context) error, err error) {
	if !s.Fault.All {
		// The first of a kind is not ended, so that one of each is seen to live long.
		if s.Fault.Action != Freeze && len(list) > 1 {
			list = list[1:]
		}
		list = list[s.Pick%len(list):][:1]
	}
	send := func(sig syscall.Signal) func(*fleet.Process) error {
		return func(p *fleet.Process) error { return p.Signal(sig) }
	}
	start := func(ctx context.Context) error {
		return fleet.Each(list, func(p *fleet.Process) error { return p.Start(ctx) })
	}
	switch s.Fault.Action { //nolint:exhaustive // the others are not of programs
	case Kill:
		return start, fleet.Each(list, func(p *fleet.Process) error { return p.Kill(ctx) })
	case Stop:
		return start, fleet.Each(list, func(p *fleet.Process) error { return p.Stop(ctx) })
	case Freeze:
		return func(context.Context) error { return fleet.Each(list, send(syscall.SIGCONT)) }, fleet.Each(list, send(syscall.SIGSTOP))
	}
	return nil, fmt.Errorf("%s cannot be made to programs", s.Fault.Action)
}

// beginLinks makes the ways from one program of a kind, or from all, to an end fail.
func (d *Deployment) beginLinks(s Step, kind, other string) (end func(context.Context) error, err error) {
	var of [][]*link
	for _, p := range d.programs() {
		if strings.HasPrefix(p.Name, kind) {
			of = append(of, d.links.all[p.Name+" "+other])
		}
	}
	if !s.Fault.All {
		of = of[s.Pick%len(of):][:1]
	}
	var list []*link
	for _, ways := range of {
		list = append(list, ways...)
	}
	heal := func(context.Context) error { return fleet.Each(list, (*link).heal) }
	switch s.Fault.Action { //nolint:exhaustive // the others are not of links
	case Reset:
		return resetting(list, ResetEvery), nil
	case Cut:
		return heal, fleet.Each(list, (*link).cut)
	case HalfOpen:
		return heal, fleet.Each(list, (*link).halfOpen)
	case Slow:
		return heal, fleet.Each(list, (*link).slow)
	case Late:
		return heal, fleet.Each(list, (*link).delay)
	}
	return nil, fmt.Errorf("%s cannot be made to links", s.Fault.Action)
}

// Ready implements System. A program that has ended by itself, which is a failure, is
// started again.
func (d *Deployment) Ready(ctx context.Context) error {
	for _, p := range d.programs() {
		if p.HasEnded() {
			if err := p.Start(ctx); err != nil {
				return err
			}
		}
		if _, err := p.Get(ctx, "/readyz"); err != nil {
			return err
		}
	}
	return nil
}

// Usage implements System.
func (d *Deployment) Usage(ctx context.Context) (list []Usage) {
	for _, p := range d.programs() {
		if u := p.Used(ctx); u.Metrics != nil {
			list = append(list, Usage{p.Name, u.PID, u.Metrics["process_resident_memory_bytes"], u.Metrics["go_goroutines"], u.Metrics["process_open_fds"]})
		}
	}
	return list
}

// Meter implements System.
func (d *Deployment) Meter() func() string {
	meter := stall.Start()
	before := d.machine()
	return func() string {
		meter.Stop()
		after := d.machine()
		switch {
		case before == nil || after == nil:
			return "the machine does not say how busy it is"
		case after.OthersSince(*before) > machine.MostOthers:
			return fmt.Sprintf("other programs had %.0f %% of the processors", 100*after.OthersSince(*before))
		case meter.Starved():
			return meter.String()
		}
		return ""
	}
}

// machine reads what others had, beside this run's processes. Of a process that has
// ended it is the last that was known.
func (d *Deployment) machine() *machine.Use {
	own, err := machine.OwnCPU()
	if err != nil {
		return nil
	}
	for _, p := range d.group.All() {
		if u := p.Used(context.Background()); u.CPU != nil {
			d.cpu[u.PID] = *u.CPU
		}
	}
	for _, cpu := range d.cpu {
		own += cpu
	}
	return machine.Read(own)
}

// Failures implements System.
func (d *Deployment) Failures() (list []string) {
	for _, p := range d.group.All() {
		list = append(list, p.Failures()...)
	}
	return list
}

// Quiet implements System.
func (d *Deployment) Quiet(context.Context) (undelivered int64, err error) {
	d.stop()
	err = <-d.loading
	d.users.Wait()
	return d.users.Undelivered(), err
}

// Dead implements System.
func (d *Deployment) Dead(ctx context.Context) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	b, err := rabbit.Open(rabbit.Config{URLs: d.brokers, Topology: d.topology(), Passive: true, Name: "faults"})
	if err != nil {
		return nil, fmt.Errorf("look at the dead letters: %w", err)
	}
	letters := deadletter.Queue{Broker: b, Now: time.Now}
	found, err := letters.List(ctx, deadletter.Filter{}, func(deadletter.Letter) error { return nil })
	if err := errors.Join(err, b.Close()); err != nil {
		return nil, fmt.Errorf("look at the dead letters: %w", err)
	}
	counts := make(map[string]int)
	for reason, n := range found {
		counts[string(reason)] = n
	}
	return counts, nil
}

func (d *Deployment) topology() queue.Topology {
	return queue.Topology{Prefix: d.prefix, Partitions: partitions}
}

// Close ends everything. Of a run that passed nothing is left behind; of another the
// logs are.
func (d *Deployment) Close(ctx context.Context, passed bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d.stop()
	faults := []error{fleet.Each(d.programs(), func(p *fleet.Process) error { return p.Kill(ctx) })}
	for _, cleanup := range slices.Backward(d.cleanups) {
		faults = append(faults, cleanup(ctx))
	}
	return errors.Join(append(faults, d.links.close(), d.group.Close(ctx, !passed))...) //nolint:contextcheck // toxiproxy's context ends nothing
}
