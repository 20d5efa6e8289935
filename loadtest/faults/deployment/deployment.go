// Package deployment runs the whole system as processes, and makes it fail as
// package faults asks: the programs, their ways to broker, database and API, and
// the nodes of the broker. All that it starts ends with it, also when this program
// is killed.
package deployment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/backoff"
	"chatclub/internal/deadletter"
	"chatclub/internal/queue"
	"chatclub/internal/queue/leftover"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/tools/private"
	"chatclub/loadtest/faults"
	"chatclub/loadtest/faults/cluster"
	"chatclub/loadtest/faults/link"
	"chatclub/loadtest/judge"
	"chatclub/loadtest/proc"
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

// Config says what to run, and on what.
type Config struct {
	Bin      string // folder of the programs; empty: they are built
	RabbitMQ string // folder of rabbitmq-server and rabbitmqctl; empty: the one that is found
	Nodes    int    // of a broker of the run's own; 0: Broker is used
	Broker   string // amqp://…, whose nodes cannot be made to fail
	Database string // postgres://…; empty: one that is found, as for tests
	Logs     string // folder for what the programs print; empty: it is removed
	Load     faults.Load
	Say      func(line string)
}

// Deployment is the system that runs. It is a faults.System.
type Deployment struct {
	cfg     Config
	dir     string
	guard   *guard
	proxies *link.Proxies
	cluster *cluster.Cluster // nil: the broker is not ours
	broker  []string         // addresses of its nodes
	amqp    *url.URL
	db      *database

	platform  *program
	api       string // the platform's address
	programs  []*program
	links     map[string][]*link.Link // of each program, by its name and the other end's
	prefix    string
	pagesFile string
	judge     *judge.Judge
	cpu       map[int]time.Duration // of each process of the run so far
}

// Judge is the ledger's client.
func (d *Deployment) Judge() *judge.Judge { return d.judge }

// Broker names the broker, for the report.
func (d *Deployment) Broker() string {
	if d.cluster == nil {
		return "a RabbitMQ that was given"
	}
	return fmt.Sprintf("RabbitMQ %s, nodes: %d", d.cluster.Version(), len(d.broker))
}

// Start starts everything, and returns when all users have joined. The caller ends
// it with Close, also after an error, unless it is nil.
func Start(ctx context.Context, cfg Config) (d *Deployment, err error) {
	dir, err := os.MkdirTemp("", "chatclub-faults-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the run: %w", err)
	}
	d = &Deployment{
		cfg: cfg, dir: dir, proxies: link.NewProxies(), links: make(map[string][]*link.Link), cpu: make(map[int]time.Duration),
		prefix: "faults-" + strconv.FormatInt(time.Now().UnixNano(), 36), pagesFile: filepath.Join(dir, "pages.json"),
	}
	if d.guard, err = newGuard(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if d.cfg.Logs == "" {
		d.cfg.Logs = dir
	} else if err := os.MkdirAll(d.cfg.Logs, 0o755); err != nil { //nolint:gosec // for all to read
		return d, fmt.Errorf("make the folder of logs: %w", err)
	}
	for _, do := range []func(context.Context) error{d.build, d.startBroker, d.startDatabase, d.startPrograms, d.awaitUsers} {
		if err := do(ctx); err != nil {
			return d, err
		}
	}
	return d, nil
}

// build builds the programs, unless they are there.
func (d *Deployment) build(ctx context.Context) error {
	if d.cfg.Bin != "" {
		return nil
	}
	d.cfg.Say("building the programs")
	d.cfg.Bin = filepath.Join(d.dir, "bin") + string(filepath.Separator)
	args := []string{"build", "-o", d.cfg.Bin}
	for _, name := range []string{"webhook", "core", "dispatcher", "fakeapi"} {
		args = append(args, "chatclub/cmd/"+name)
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w: %s", err, out)
	}
	return nil
}

// startBroker starts the nodes, or takes the broker that was given.
func (d *Deployment) startBroker(ctx context.Context) (err error) {
	if d.cfg.Nodes == 0 {
		if d.amqp, err = url.Parse(d.cfg.Broker); err != nil || d.amqp.Scheme != "amqp" || d.amqp.Host == "" {
			return errors.New("the broker's address is none such as amqp://guest:guest@127.0.0.1:5672/")
		}
		d.broker = []string{proc.HostPort(d.amqp)}
		return nil
	}
	d.cfg.Say(fmt.Sprintf("starting RabbitMQ, nodes: %d", d.cfg.Nodes))
	d.cluster, err = cluster.Start(ctx, cluster.Config{
		Dir: d.dir, Bin: d.cfg.RabbitMQ, Nodes: d.cfg.Nodes, Proxies: d.proxies, Started: d.guard.began, Ended: d.guard.ended,
	})
	d.broker, d.amqp = d.cluster.Addrs(), &url.URL{Scheme: "amqp", User: url.UserPassword("guest", "guest"), Path: "/"}
	return err
}

func (d *Deployment) startDatabase(context.Context) (err error) {
	d.db, err = openDatabase(d.cfg.Database) //nolint:contextcheck // each of its statements has a time-out
	return err
}

// startPrograms starts the platform, whose users begin to join, and the programs.
func (d *Deployment) startPrograms(ctx context.Context) error {
	const each = 1 + cores + dispatchers
	addrs, err := freeAddrs(each + 3)
	if err != nil {
		return err
	}
	admins, hook, api := addrs[3:], addrs[0], addrs[1]
	d.api = api
	if d.judge, err = judge.New("http://"+api, nil); err != nil {
		return err
	}
	l := d.cfg.Load
	d.platform = d.program("fakeapi", faults.PlatformProcess, addrs[2], map[string]string{
		"HTTP_ADDR": api, "APP_SECRET": secret, "WEBHOOK_URL": "http://" + hook + "/webhook",
		"PAGES": strconv.Itoa(l.Pages), "USERS": strconv.Itoa(l.Members), "JOIN_PARALLEL": "4",
		"EVENTS_PER_SECOND": fmt.Sprint(l.Events), "LIMIT_TEXT": strconv.Itoa(l.PageLimit()),
		"PAGES_FILE_OUT": d.pagesFile, "REPORT_EVERY": "0s", "SETTLE_TIMEOUT": settleTimeout.String(),
	})
	if err := d.platform.start(ctx); err != nil {
		return err
	}
	add := func(kind string, n int, more func(name string) (map[string]string, error)) error {
		for i := range n {
			name := fmt.Sprintf("%s-%d", kind, i+1)
			env, err := more(name)
			if err != nil {
				return err
			}
			if env["AMQP_URL"], err = d.brokerURL(name, len(d.programs)); err != nil {
				return err
			}
			env["QUEUE_PREFIX"], env["PARTITIONS"] = d.prefix, strconv.Itoa(partitions)
			p := d.program(kind, name, admins[len(d.programs)], env)
			d.programs = append(d.programs, p)
			if err := p.start(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.Join(
		add("webhook", 1, func(string) (map[string]string, error) {
			return map[string]string{"HTTP_ADDR": hook, "APP_SECRET": secret, "VERIFY_TOKEN": "verify"}, nil
		}),
		add("core", cores, func(name string) (map[string]string, error) {
			way, err := d.way(name+" database", d.db.addr)
			return map[string]string{"DATABASE_URL": d.db.through(way), "ROOM_CAPACITY": strconv.Itoa(l.Members)}, err
		}),
		add("dispatcher", dispatchers, func(name string) (map[string]string, error) {
			way, err := d.way(name+" api", api)
			return map[string]string{"PAGES_FILE": d.pagesFile, "GRAPH_URL": "http://" + way + "/v23.0", "LIMIT_TEXT": strconv.Itoa(l.PageLimit())}, err
		}),
	)
}

// program is one with an environment and nothing else of ours.
func (d *Deployment) program(kind, name, admin string, env map[string]string) *program {
	p := &program{
		name: name, path: filepath.Join(d.cfg.Bin, kind), admin: admin, guard: d.guard,
		log: filepath.Join(d.cfg.Logs, name+".log"),
		env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir, "ADMIN_ADDR=" + admin},
	}
	for k, v := range env {
		p.env = append(p.env, k+"="+v)
	}
	return p
}

// way opens a link and returns where it begins.
func (d *Deployment) way(name, to string) (string, error) {
	l, err := d.proxies.New(name, to)
	if err != nil {
		return "", err
	}
	d.links[name] = append(d.links[name], l)
	return l.Addr(), nil
}

// brokerURL is the broker's address for a program: all nodes, each behind a link of
// the program's own. Every program prefers another node.
func (d *Deployment) brokerURL(name string, number int) (string, error) {
	var urls []string
	for i := range d.broker {
		way, err := d.way(name+" broker", d.broker[(number+i)%len(d.broker)])
		if err != nil {
			return "", err
		}
		u := *d.amqp
		u.Host = way
		urls = append(urls, u.String())
	}
	return strings.Join(urls, ","), nil
}

// joinTimeout bounds the joining of all users, one after another on each page.
const joinTimeout = 5 * time.Minute

// awaitUsers waits until all users have joined and write.
func (d *Deployment) awaitUsers(ctx context.Context) error {
	l := d.cfg.Load
	want := int64(l.Pages*l.Members) + 1
	d.cfg.Say("the users join")
	for end := time.Now().Add(joinTimeout); time.Now().Before(end); {
		r, err := d.judge.Pages(ctx, 0)
		if err == nil && r.Totals.Events >= want {
			return nil
		}
		if list := d.Failures(); len(list) > 0 {
			return errors.New(strings.Join(list, "; "))
		}
		if !backoff.Sleep(ctx, 200*time.Millisecond) { // a poll of another process
			return ctx.Err()
		}
	}
	return fmt.Errorf("not all users have joined within %v", joinTimeout)
}

// all are the programs, the platform included.
func (d *Deployment) all() []*program {
	if d.platform == nil {
		return d.programs
	}
	return append([]*program{d.platform}, d.programs...)
}

// Ready implements faults.System. A program that has ended by itself, which is a
// failure, is started again.
func (d *Deployment) Ready(ctx context.Context) error {
	for _, p := range d.programs {
		if p.hasEnded() {
			if err := p.start(ctx); err != nil {
				return err
			}
		}
		if _, err := p.ask(ctx, "/readyz"); err != nil {
			return err
		}
	}
	return nil
}

// Usage implements faults.System.
func (d *Deployment) Usage(ctx context.Context) (list []faults.Usage) {
	all := d.all()
	got := make([]*faults.Usage, len(all))
	var asking sync.WaitGroup // side by side: one that is frozen takes nothing from the others
	for i, p := range all {
		asking.Go(func() { got[i] = p.usage(ctx) })
	}
	var nodes []*faults.Usage
	for i, pid := range d.nodePIDs() {
		if pid != 0 {
			nodes = append(nodes, procUsage(fmt.Sprintf("rabbit%d", i+1), pid))
		}
	}
	asking.Wait()
	for _, u := range slices.Concat(got, nodes) {
		if u != nil {
			list = append(list, *u)
		}
	}
	return list
}

// Failures implements faults.System.
func (d *Deployment) Failures() (list []string) {
	for _, p := range d.all() {
		list = append(list, p.takeFailures()...)
	}
	return list
}

// settleTimeout is how long no copy may come at the end before the rest is lost.
const settleTimeout = 90 * time.Second

// Quiet implements faults.System. The platform serves until what is awaited has
// come, or nothing has for settleTimeout; then it prints the balance and ends.
func (d *Deployment) Quiet(ctx context.Context) (ledger.Counts, error) {
	before, err := d.judge.Pages(ctx, 0)
	if err != nil {
		return before.Totals, err
	}
	d.platform.expectEnd()
	_, done := d.platform.life()
	if err := d.platform.signal(stopSignal); err != nil {
		return before.Totals, err
	}
	select {
	case <-done:
	case <-ctx.Done():
		return before.Totals, nil
	}
	return parseBalance(before.Totals, d.platform.lastBalance())
}

// Dead implements faults.System.
func (d *Deployment) Dead(ctx context.Context) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	b, err := rabbit.Open(rabbit.Config{URLs: d.brokerURLs(), Topology: d.topology(), Passive: true, Name: "faults"})
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

// brokerURLs are the nodes' addresses, past the links.
func (d *Deployment) brokerURLs() (urls []string) {
	for _, addr := range d.broker {
		u := *d.amqp
		u.Host = addr
		urls = append(urls, u.String())
	}
	return urls
}

// Close ends everything and leaves nothing behind. A broker that is not ours loses
// the run's queues.
func (d *Deployment) Close() error {
	var faults []error
	for _, p := range slices.Backward(d.all()) {
		faults = append(faults, p.kill())
	}
	if d.cluster == nil && d.amqp != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := leftover.Delete(ctx, d.brokerURLs()[0], d.topology())
		faults = append(faults, err)
	}
	if d.cluster != nil {
		faults = append(faults, d.cluster.Close())
	}
	for _, ways := range d.links {
		for _, l := range ways {
			faults = append(faults, l.Close())
		}
	}
	if d.db != nil {
		faults = append(faults, d.db.close())
	}
	return errors.Join(append(faults, d.guard.close())...)
}

// freeAddrs returns addresses on this machine that are free now, at ports below
// those that are given to whoever asks for any: programs leave them when they are
// killed, and come back to them.
func freeAddrs(n int) ([]string, error) {
	ports, err := private.Ports(n)
	var addrs []string
	for _, p := range ports {
		addrs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
	}
	return addrs, err
}
