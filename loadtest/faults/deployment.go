package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/rooms/roomstest"
	"chatclub/loadtest/cases"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/judge"
	"chatclub/loadtest/load"
	"chatclub/loadtest/trial"
	"chatclub/tools/program"
	"chatclub/tools/stall"
	"chatclub/tools/wire"
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

// Options say what to run.
type Options struct {
	Seed uint64
	Say  func(line string)
}

// Deployment is the whole system as processes. It is a System.
type Deployment struct {
	opts     Options
	group    *fleet.Group
	links    map[string][]*wire.Wire // ways of each program to each end, by the names of both
	nodes    *nodes
	brokers  []string // URLs of its nodes
	database string   // URL
	cleanups []func() error
	Judge    *judge.Judge
	users    *trial.Users
	stop     context.CancelFunc // of the users
	loading  chan error         // when they have stopped
	prefix   string
}

// Broker names the broker, for the report.
func (d *Deployment) Broker() string { return fmt.Sprintf("%s, nodes: %d", d.nodes.version, nodeCount) }

// Logs is the folder of all that the programs print, which stays after a run that
// failed.
func (d *Deployment) Logs() string { return d.group.Logs }

// Start starts everything, and returns when all users have joined and write. The caller
// ends it with Close, also after an error, unless it is nil.
func Start(ctx context.Context, opts Options) (d *Deployment, err error) {
	d = &Deployment{
		opts: opts, links: make(map[string][]*wire.Wire),
		prefix: "faults-" + strconv.FormatInt(time.Now().UnixNano(), 36), loading: make(chan error, 1), stop: func() {},
	}
	if d.group, err = fleet.NewGroup(); err != nil {
		return nil, err
	}
	database := func(context.Context) error { return d.startDatabase() } //nolint:contextcheck // each of its statements has a time-out
	for _, do := range []func(context.Context) error{d.startBroker, database, d.startPrograms, d.startUsers} {
		if err := do(ctx); err != nil {
			return d, err
		}
	}
	return d, nil
}

// startBroker starts the nodes of a RabbitMQ.
func (d *Deployment) startBroker(ctx context.Context) (err error) {
	d.opts.Say(fmt.Sprintf("starting RabbitMQ, nodes: %d", nodeCount))
	if d.nodes, err = startNodes(ctx, d.group); err != nil {
		return err
	}
	for _, n := range d.nodes.list {
		d.brokers = append(d.brokers, "amqp://guest:guest@"+addr(n.Port)+"/")
	}
	return nil
}

// startDatabase makes a schema on PostgreSQL.
func (d *Deployment) startDatabase() error {
	base, stop, err := roomstest.Find()
	if err != nil {
		return fmt.Errorf("find PostgreSQL: %w", err)
	}
	d.cleanups = append(d.cleanups, stop)
	dsn, drop, err := roomstest.Schema(base)
	if err != nil {
		return err
	}
	d.cleanups = append(d.cleanups, drop)
	proxy, err := roomstest.NewProxy(dsn) // by TCP, also to a server at a socket
	if err != nil {
		return err
	}
	d.database = proxy.URL()
	d.cleanups = append(d.cleanups, func() error { proxy.Close(); return nil })
	return nil
}

// through returns an address whose host is the begin of a new way to it.
func (d *Deployment) through(name, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("an address is not a URL")
	}
	w, err := wire.New("127.0.0.1:0", "tcp", u.Host)
	if err != nil {
		return "", err
	}
	d.links[name] = append(d.links[name], w)
	u.Host = w.Addr
	return u.String(), nil
}

// startPrograms starts the platform and the programs. Every program has a way of its
// own to each node of the broker, and prefers another one.
func (d *Deployment) startPrograms(ctx context.Context) error {
	tokens := make(map[string]string)
	for _, p := range d.stream().Pages {
		tokens[p.ID] = "token-" + p.ID
	}
	b, err := json.Marshal(tokens)
	file := filepath.Join(d.group.Dir, "pages.json")
	if err := errors.Join(err, os.WriteFile(file, b, 0o600)); err != nil {
		return fmt.Errorf("write the pages: %w", err)
	}
	api, stop, err := fleet.Serve(ctx, d.opts.Seed)
	if err != nil {
		return err
	}
	d.cleanups = append(d.cleanups, stop)
	if d.Judge, err = judge.New(api.URL, api.Transport); err != nil {
		return err
	}
	l := UsualLoad
	if err := d.Judge.Control(ctx, map[string]any{"text": map[string]any{"per_second": l.PageLimit()}}); err != nil {
		return err
	}
	hook, err := fleet.Addr()
	if err != nil {
		return err
	}
	bin, err := program.Build("chatclub/cmd/webhook", "chatclub/cmd/core", "chatclub/cmd/dispatcher") //nolint:contextcheck // the go command ends by itself
	if err != nil {
		return err
	}
	d.cleanups = append(d.cleanups, func() error { return os.RemoveAll(bin) })
	started := 0
	// add starts programs of a kind, whose variable has the address of the other end that
	// they have a way to beside the broker.
	add := func(kind Part, n int, env map[string]string, variable, end, address string) error {
		for i := range n {
			name := fmt.Sprintf("%s-%d", kind, i+1)
			own := maps.Clone(env)
			var ways []string
			for k := range d.brokers {
				way, err := d.through(name+" broker", d.brokers[(started+k)%len(d.brokers)]) //nolint:contextcheck // it carries on until it is closed
				if err != nil {
					return err
				}
				ways = append(ways, way)
			}
			own["AMQP_URL"], own["QUEUE_PREFIX"], own["PARTITIONS"] = strings.Join(ways, ","), d.prefix, strconv.Itoa(partitions)
			if end != "" {
				if own[variable], err = d.through(name+" "+end, address); err != nil { //nolint:contextcheck // the same
					return err
				}
			}
			p, err := d.group.Program(name, filepath.Join(bin, string(kind)), own)
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
		add(Webhook, 1, map[string]string{"HTTP_ADDR": hook, "APP_SECRET": secret, "VERIFY_TOKEN": "verify"}, "", "", ""),
		add(Core, cores, map[string]string{"ROOM_CAPACITY": strconv.Itoa(l.Members), "FLOOD_LIMIT": "0", "FLOOD_SHARE": "0"}, "DATABASE_URL", "database", d.database),
		add(Dispatcher, dispatchers, map[string]string{"PAGES_FILE": file, "LIMIT_TEXT": strconv.Itoa(l.PageLimit())}, "GRAPH_URL", "api", api.URL+"/v23.0"),
	); err != nil {
		return err
	}
	const patience = 5 * time.Minute // Messenger's is of hours
	d.users, err = trial.NewUsers("http://"+hook+"/webhook", secret, d.prefix, d.Judge, patience)
	return err
}

// stream is the demand: a room on each page.
func (d *Deployment) stream() cases.Stream {
	l := UsualLoad
	s := cases.Stream{Group: "faults", Rate: l.Flow(), People: l.Members, Poisson: true}
	for i := range l.Pages {
		s.Pages = append(s.Pages, cases.Page{ID: strconv.Itoa(i + 1), Weight: 1})
	}
	return s
}

// startUsers lets the users join, and write until Quiet.
func (d *Deployment) startUsers(ctx context.Context) error {
	d.opts.Say("the users join")
	if err := d.users.Join(ctx, []cases.Stream{d.stream()}, UsualLoad.Members); err != nil {
		return fmt.Errorf("%w %s", err, strings.Join(d.Failures(), "; "))
	}
	const forever = 1000 * time.Hour
	writing := d.users.Stream(d.stream(), cases.Setting{Length: forever, Room: UsualLoad.Members}, d.opts.Seed, 0)
	ctx, d.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { d.loading <- load.Run(ctx, time.Now(), new(load.Tally), writing) }()
	return nil
}

// programs are those of a kind; empty: webhook, cores and dispatchers.
func (d *Deployment) programs(kind string) (list []*fleet.Process) {
	for _, p := range d.group.All() {
		if strings.HasPrefix(p.Name, kind) && strings.Contains(p.Name, "-") {
			list = append(list, p)
		}
	}
	return list
}

// Begin implements System.
func (d *Deployment) Begin(ctx context.Context, s Step) (end func(context.Context) error, err error) {
	kind, other, isLink := strings.Cut(string(s.Fault.Part), "-")
	switch {
	case s.Fault.Part == Node:
		return d.nodes.begin(ctx, s)
	case s.Fault.Part == Programs && s.Fault.Action == Late:
		return d.beginLinks(ctx, s, "", "broker")
	case isLink:
		return d.beginLinks(ctx, s, kind, other)
	case s.Fault.Part == Programs:
		return beginPrograms(ctx, s, d.programs(""))
	}
	return beginPrograms(ctx, s, d.programs(kind))
}

// beginPrograms kills, stops, restarts or freezes programs.
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
		return start, fleet.Each(list, (*fleet.Process).Kill)
	case Stop:
		return start, fleet.Each(list, (*fleet.Process).Stop)
	case Restart:
		return restarting(ctx, list), nil
	case Unread:
		again := func(ctx context.Context) error { return restart(ctx, list, (*fleet.Process).Start) }
		return again, restart(ctx, list, (*fleet.Process).StartUnread)
	case Freeze:
		return func(context.Context) error { return fleet.Each(list, send(syscall.SIGCONT)) }, fleet.Each(list, send(syscall.SIGSTOP))
	}
	return nil, fmt.Errorf("%s cannot be made to programs", s.Fault.Action)
}

// restart stops programs in order and starts them, one right after another.
func restart(ctx context.Context, list []*fleet.Process, start func(*fleet.Process, context.Context) error) (err error) {
	for _, p := range list {
		err = errors.Join(err, p.Stop(), start(p, ctx))
	}
	return err
}

// restarting restarts programs again and again, until the function that it returns is
// called. The round that is under way then is the last.
func restarting(ctx context.Context, list []*fleet.Process) (end func(context.Context) error) {
	stopping, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil && stopping.Err() == nil {
			err = restart(context.WithoutCancel(ctx), list, (*fleet.Process).Start)
		}
		done <- err
	}()
	return func(context.Context) error {
		stop()
		return <-done
	}
}

// beginLinks makes the ways from one program of a kind, or from all, to an end fail.
func (d *Deployment) beginLinks(ctx context.Context, s Step, kind, other string) (end func(context.Context) error, err error) {
	var of [][]*wire.Wire
	for _, p := range d.programs(kind) {
		of = append(of, d.links[p.Name+" "+other])
	}
	if !s.Fault.All {
		of = of[s.Pick%len(of):][:1]
	}
	list := slices.Concat(of...)
	var do func(w *wire.Wire)
	switch s.Fault.Action { //nolint:exhaustive // the others are not of links
	case Reset:
		return resetting(ctx, list, ResetEvery), nil
	case Cut:
		do = (*wire.Wire).Down
	case HalfOpen:
		do = func(w *wire.Wire) { w.SetDeaf(true) }
	case Slow:
		do = func(w *wire.Wire) { w.SetRate(SlowRate) }
	case Late:
		do = func(w *wire.Wire) { w.SetDelay(LateBy) }
	default:
		return nil, fmt.Errorf("%s cannot be made to links", s.Fault.Action)
	}
	for _, w := range list {
		do(w)
	}
	return func(context.Context) error { return fleet.Each(list, (*wire.Wire).Heal) }, nil
}

// resetting ends the connections of links again and again, until the function that it
// returns is called.
func resetting(ctx context.Context, list []*wire.Wire, every time.Duration) (end func(context.Context) error) {
	stopping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() {
		for again := true; again; again = backoff.Sleep(stopping, every) {
			for _, w := range list {
				w.Cut()
			}
		}
	})
	return func(context.Context) error {
		stop()
		work.Wait()
		return nil
	}
}

// Ready implements System. A program that has ended by itself, which is a failure, is
// started again.
func (d *Deployment) Ready(ctx context.Context) error {
	for _, p := range d.programs("") {
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

// Meter implements System.
func (d *Deployment) Meter() func() string {
	meter := stall.Start()
	return func() string {
		if meter.Stop(); meter.Starved() {
			return meter.String()
		}
		return ""
	}
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
	b, err := rabbit.Open(rabbit.Config{URLs: d.brokers, Topology: queue.Topology{Prefix: d.prefix, Partitions: partitions}, Passive: true, Name: "faults"})
	if err != nil {
		return nil, fmt.Errorf("look at the dead letters: %w", err)
	}
	found, err := trial.Dead(ctx, b)
	if err := errors.Join(err, b.Close()); err != nil {
		return nil, fmt.Errorf("look at the dead letters: %w", err)
	}
	counts := make(map[string]int)
	for reason, ids := range found {
		counts[string(reason)] = len(ids)
	}
	return counts, nil
}

// Close ends everything. Of a run that passed nothing is left behind; of another the
// logs are.
func (d *Deployment) Close(passed bool) error {
	d.stop()
	faults := []error{fleet.Each(d.programs(""), (*fleet.Process).Kill)}
	for _, cleanup := range slices.Backward(d.cleanups) {
		faults = append(faults, cleanup())
	}
	for _, ways := range d.links {
		for _, w := range ways {
			w.Close()
		}
	}
	return errors.Join(append(faults, d.group.Close(!passed))...)
}
