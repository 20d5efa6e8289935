package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"chatclub/internal/queue"
	"chatclub/loadtest/peer"
	"chatclub/loadtest/proc"
)

// Outside is a system whose queues are its own, so that no broker of ours can be
// asked for them.
type Outside interface {
	// Publish puts messages on the system's queues. A message's body is what is to
	// be posted; see [BareBody].
	queue.Publisher
	// Left returns the ids of what the system has not sent, once it is stopped:
	// what it would send later, and what it has given up. An id is there as often
	// as the message is.
	Left(ctx context.Context) (waiting, dead []string, err error)
}

// Peers is a fleet of somebody else's programs: workers in place of dispatchers,
// and a feeder that puts messages into their queue. OpenPeers makes it.
type Peers struct {
	crew
	cfg      Config
	peer     peer.Peer
	servers  []*peer.Running
	dir      string // of the file with the pages
	platform *process
	feeder   *feeder
	patience time.Duration // how long a program may take to be ready
}

var (
	_ Fleet   = (*Peers)(nil)
	_ Outside = (*Peers)(nil)
)

// peerTimeout is how long a peer's program may take to be ready. One with a queue
// for each of a thousand pages takes minutes on a busy machine.
const peerTimeout = 5 * time.Minute

// leftTimeout is how long the feeder may take to list what is left.
const leftTimeout = 2 * time.Minute

// OpenPeers starts the servers, the platform and the feeder of a peer, which is
// prepared. There is no worker yet. The program must call Child when it is started
// with one of the kinds as its only argument.
func OpenPeers(ctx context.Context, cfg Config, p peer.Peer, a peer.Addresses) (_ *Peers, err error) {
	f := &Peers{cfg: cfg, peer: p, patience: peerTimeout}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(context.WithoutCancel(ctx)))
		}
	}()
	if f.servers, err = p.Start(ctx, a); err != nil {
		return nil, err
	}
	if f.dir, err = os.MkdirTemp("", "loadtest-"); err != nil {
		return nil, fmt.Errorf("make a folder for the pages: %w", err)
	}
	if err := os.WriteFile(f.pagesFile(), []byte(strings.Join(cfg.Pages, "\n")+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write the pages: %w", err)
	}
	if f.platform, err = spawn(ctx, cfg.Log, KindPlatform, childSpec{Seed: cfg.Seed}); err != nil {
		return nil, err
	}
	feed := newFeeder()
	if feed.process, err = f.start(ctx, p.Name+"'s feeder", p.Feeder(context.WithoutCancel(ctx)), feed.read); err != nil {
		return nil, err
	}
	f.feeder = feed
	return f, nil
}

func (f *Peers) pagesFile() string { return filepath.Join(f.dir, "pages") }

// readyLine is what a peer's program says once it can be used.
const readyLine = "ready"

// start starts one of the peer's programs and waits until it is ready. rest gets
// what it says after that; nil: nobody does.
func (f *Peers) start(ctx context.Context, kind string, cmd *exec.Cmd, rest func(*bufio.Reader)) (*process, error) {
	p := &process{kind: kind, cmd: cmd, foreign: true}
	cmd.Env = append(os.Environ(), f.environment()...)
	said, err := p.launch(f.cfg.Log, rest)
	if err != nil {
		return nil, err
	}
	line, heard, err := p.hear(ctx, said, f.patience)
	if err != nil {
		return nil, err
	}
	if line == readyLine {
		return p, nil
	}
	err = p.kill() // then all that it wrote is known
	did := fmt.Sprintf("it said %.40q and not %s", line, readyLine)
	switch {
	case !heard:
		did = fmt.Sprintf("it did not say %s within %v", readyLine, f.patience)
	case line == "":
		did = "it ended without saying " + readyLine
	}
	return nil, errors.Join(fmt.Errorf("start %s: %s: %s", kind, did, p.stderr), err)
}

// environment is what every program of the peer is told.
func (f *Peers) environment() []string {
	o := f.cfg.Options
	list := []string{
		"GRAPH_URL=" + f.platform.address + graphVersion,
		"LIMIT=" + strconv.FormatFloat(o.Limit, 'f', -1, 64),
		"REPLICAS=" + strconv.Itoa(o.Replicas),
		"REPLICA=" + strconv.Itoa(f.joined()),
		"PAGES_FILE=" + f.pagesFile(),
		"NAMESPACE=" + strings.NewReplacer(":", "_", "-", "_").Replace(o.KeyPrefix), // good for a schema's name
	}
	for _, s := range f.servers {
		list = append(list, s.Kind.Variable()+"="+s.URL)
	}
	return list
}

// Join starts a worker.
func (f *Peers) Join(ctx context.Context) error {
	p, err := f.start(ctx, f.peer.Name+"'s worker", f.peer.Worker(context.WithoutCancel(ctx)), nil)
	if err != nil {
		return err
	}
	f.add(p)
	return nil
}

// Stop stops the workers. The feeder stays, to be asked what is left.
func (f *Peers) Stop(ctx context.Context) error { return f.stop(ctx) }

// Ingress cannot be had: webhook and core know only our queues.
func (*Peers) Ingress(context.Context, Ingress) (string, error) {
	return "", errors.New("not via webhook: a peer's only entry is its feeder")
}

// Broker is nil: a peer's queues are its own.
func (*Peers) Broker() queue.Broker { return nil }

// Publish implements Outside.
func (f *Peers) Publish(ctx context.Context, msgs ...queue.Message) error {
	list := make([]fed, len(msgs))
	for i, m := range msgs {
		page, _, _ := strings.Cut(m.ID, "/")
		list[i] = fed{ID: m.ID, Page: page, Body: string(m.Body)}
	}
	return f.feeder.put(ctx, list)
}

// Left implements Outside.
func (f *Peers) Left(ctx context.Context) (waiting, dead []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, leftTimeout)
	defer cancel()
	l, err := f.feeder.left(ctx)
	return l.Waiting, l.Dead, err
}

// Platform is the fake's process.
func (f *Peers) Platform() Platform { return Platform{URL: f.platform.address} }

// Delayed is 0: the feeder tells of what is kept back too.
func (*Peers) Delayed() int { return 0 }

// Errors are of programs that ended by themselves.
func (f *Peers) Errors() (list []string) {
	for _, p := range append(f.all(), f.feeder.process, f.platform) {
		list = append(list, p.faults()...)
	}
	return list
}

// Usage is of the workers, those that have ended included, of the servers that the
// peer needs, and of the fake. The feeder is a part of the load generator. What the
// servers are asked for is not counted.
func (f *Peers) Usage() (Usage, error) {
	table, err := proc.ReadTable()
	if err != nil {
		return Usage{}, err
	}
	ctx := context.Background() // nothing is asked of anybody
	var workers []used
	for _, p := range f.all() {
		workers = append(workers, p.lookBy(ctx, table.Tree))
	}
	u := usage(workers, nil, 0)
	u.Operations, u.Fake = nil, f.platform.look(ctx).cpu
	servers := time.Duration(0)
	for _, s := range f.servers {
		used, ok, err := s.CPU(table)
		if err != nil {
			return u, fmt.Errorf("%s's process: %w", s.Kind, err)
		}
		if !ok {
			return u, nil // a sum without it would look better than it is
		}
		servers += used
	}
	u.Broker = &servers
	u.All = sum(u.Dispatchers, u.Broker, u.Fake)
	if fed := f.feeder.lookBy(ctx, table.Tree).cpu; fed != nil {
		u.machine(*fed)
	}
	return u, nil
}

// Close ends everything and removes what the run has made.
func (f *Peers) Close(ctx context.Context) error {
	faults := []error{f.Stop(ctx)}
	if f.feeder != nil {
		faults = append(faults, f.feeder.end(ctx))
	}
	if f.platform != nil {
		faults = append(faults, f.platform.stop(ctx))
	}
	for _, s := range slices.Backward(f.servers) {
		faults = append(faults, s.Stop())
	}
	if f.dir != "" {
		faults = append(faults, os.RemoveAll(f.dir))
	}
	return errors.Join(faults...)
}
