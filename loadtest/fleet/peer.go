package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/loadtest/peer"
	"chatclub/tools/private"
)

// PeerBody returns the body that lies on a peer's queue in place of a message: the
// one that package sender would post.
func PeerBody(m message.Outbound) ([]byte, error) {
	return json.Marshal(map[string]any{
		"recipient": map[string]string{"id": m.To}, "messaging_type": "UPDATE", "message": map[string]string{"text": m.Text, "metadata": m.ID},
	})
}

// peers is a fleet of somebody else's programs: workers in place of dispatchers,
// and a feeder that puts messages into their queue. OpenPeer makes it.
type peers struct {
	crew[*Process]
	cfg      Config
	peer     peer.Peer
	group    *Group
	servers  []*Process
	urls     []string // of servers, as variables
	platform *Process
	api      string
	feeder   *feeder
}

// leftTimeout is how long the feeder may take to list the rest, and to remove all that
// the run has made.
const leftTimeout = 2 * time.Minute

// OpenPeer starts the servers, the platform and the feeder of a peer, which is
// prepared. There is no worker yet.
func OpenPeer(ctx context.Context, cfg Config, p peer.Peer) (_ Fleet, err error) {
	f := &peers{cfg: cfg, peer: p}
	f.start = func(ctx context.Context, replica int) (*Process, error) {
		w := f.program(fmt.Sprintf("worker-%d", replica+1), p.Work, replica, func([]byte) {})
		err := w.Start(ctx)
		return w, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(context.WithoutCancel(ctx)))
		}
	}()
	if f.group, err = NewGroup(); err != nil {
		return nil, err
	}
	for _, kind := range p.Needs {
		if err := f.serve(ctx, kind); err != nil {
			return nil, fmt.Errorf("start %s: %w", kind, err)
		}
	}
	if err := os.WriteFile(f.pagesFile(), []byte(strings.Join(cfg.Pages, "\n")+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write the pages: %w", err)
	}
	if f.api, f.platform, err = f.group.Platform(ctx, cfg.Seed, cfg.Pages); err != nil {
		return nil, err
	}
	feed := &feeder{waiting: make(map[int]chan answer)}
	feed.Process = f.program("feeder", p.Feed, 0, feed.read)
	if err := feed.Start(ctx); err != nil {
		return nil, err
	}
	f.feeder = feed
	return f, nil
}

// serve starts a server that the peer needs, in a folder that an unprivileged one may
// enter.
func (f *peers) serve(ctx context.Context, kind peer.Server) error {
	dir := filepath.Join(f.group.Dir, string(kind))
	err := errors.Join(os.Chmod(f.group.Dir, 0o711), os.Mkdir(dir, 0o700)) //nolint:gosec // to pass through
	ports, err2 := private.Ports(1)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	url, command, err := kind.Command(ctx, dir, ports[0])
	if err != nil {
		return err
	}
	p := f.group.Command(string(kind), command)
	p.Alive = func(context.Context) error {
		if !strings.Contains(strings.ToLower(p.LastWords()), peer.Listening) {
			return errors.New("it does not listen yet")
		}
		return nil
	}
	f.servers, f.urls = append(f.servers, p), append(f.urls, kind.Variable()+"="+url)
	return p.Start(ctx)
}

func (f *peers) pagesFile() string { return filepath.Join(f.group.Dir, "pages") }

// program is one of the peer's.
func (f *peers) program(name string, words []string, replica int, lines func([]byte)) *Process {
	o := f.cfg.Options
	env := append(os.Environ(),
		"GRAPH_URL="+f.api+graphVersion,
		"LIMIT="+strconv.FormatFloat(o.Limit, 'f', -1, 64),
		"REPLICAS="+strconv.Itoa(o.Replicas),
		"REPLICA="+strconv.Itoa(replica),
		"PAGES_FILE="+f.pagesFile(),
		"NAMESPACE="+strings.NewReplacer(":", "_", "-", "_").Replace(o.KeyPrefix)) // good for a schema's name
	env = append(env, f.urls...)
	p := f.group.Command(name, func() *exec.Cmd {
		cmd := exec.Command(words[0], words[1:]...) //nolint:gosec,noctx // to run it is what the user asks for
		cmd.Dir, cmd.Env = f.peer.Dir, env
		return cmd
	})
	p.lines = lines
	return p
}

// Stop stops the workers. The feeder stays, to be asked for the rest.
func (f *peers) Stop(ctx context.Context) error { return f.stop(ctx, f.live()...) }

// Ingress cannot be started: webhook and core know only our queues.
func (*peers) Ingress(context.Context, Ingress) (string, error) {
	return "", errors.New("a peer's only entry is its feeder, and this case goes through webhook")
}

// Broker is nil: a peer's queues are its own.
func (*peers) Broker() queue.Broker { return nil }

// Publish implements Outside.
func (f *peers) Publish(ctx context.Context, msgs ...queue.Message) error {
	list := make([]map[string]string, len(msgs))
	for i, m := range msgs {
		page, _, _ := strings.Cut(m.ID, "/")
		list[i] = map[string]string{"id": m.ID, "page": page, "body": string(m.Body)}
	}
	a, err := f.feeder.ask(ctx, map[string]any{"put": list})
	if err == nil && a.Put != len(list) {
		err = fmt.Errorf("the feeder says that it put %d of %d", a.Put, len(list))
	}
	if err != nil {
		return fmt.Errorf("put messages into the peer's queue: %w", err)
	}
	return nil
}

// Left implements Outside.
func (f *peers) Left(ctx context.Context) (waiting, dead []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, leftTimeout)
	defer cancel()
	a, err := f.feeder.ask(ctx, map[string]any{"left": true})
	if err == nil && a.Left == nil {
		err = errors.New("the answer has no field left")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("ask the feeder for the rest: %w", err)
	}
	return a.Left.Waiting, a.Left.Dead, nil
}

// Platform is the fake's process.
func (f *peers) Platform() Platform { return Platform{URL: f.api} }

// Errors are of programs that ended by themselves.
func (f *peers) Errors() (list []string) {
	for _, p := range f.group.All() {
		list = append(list, p.Failures()...)
	}
	return list
}

// Usage is of the workers, those that have ended included, of the servers that the
// peer needs, and of the fake. The feeder is a part of the load generator.
func (f *peers) Usage() (Usage, error) {
	u := usage(context.Background(), f.all(), append(slices.Clone(f.servers), f.platform), 0, new(time.Duration(0)))
	u.Operations = nil // what the servers are asked for is not counted
	return u, nil
}

// Close ends everything and removes all that the run has made.
func (f *peers) Close(ctx context.Context) error {
	var faults []error
	if f.group == nil {
		return nil
	}
	faults = append(faults, f.Stop(ctx))
	if f.feeder != nil {
		faults = append(faults, f.feeder.end(ctx))
	}
	return errors.Join(append(faults, f.group.Close(ctx, false))...)
}

// feeder is the program that puts messages into a peer's queue. Its commands and
// answers are JSON objects, one a line. Several commands may be under way, and
// their answers come in any order: a batch of one page must not keep those of
// others waiting. Safe for concurrent use.
type feeder struct {
	*Process
	writing sync.Mutex // of one command at a time

	mu      sync.Mutex
	last    int                 // number of the last command
	waiting map[int]chan answer // for answers, by the commands' numbers; nil: no answer can be believed any more
}

// answer is a feeder's to one command.
type answer struct {
	N    int `json:"n"`   // the command's number
	Put  int `json:"put"` // how many messages the queue has taken
	Left *struct {
		Waiting []string `json:"waiting"` // would be sent if the workers ran on
		Dead    []string `json:"dead"`    // given up
	} `json:"left"`
	Error string `json:"error"`
}

// read hands on an answer. After a line that is none no other is believed.
func (f *feeder) read(line []byte) {
	var a answer
	err := json.Unmarshal(line, &a)
	f.mu.Lock()
	defer f.mu.Unlock()
	if to, asked := f.waiting[a.N]; err == nil && asked {
		delete(f.waiting, a.N)
		to <- a
		return
	}
	f.fail(fmt.Sprintf("the feeder said something that is no answer to a question: %.80q", bytes.TrimSpace(line)))
	for _, to := range f.waiting {
		to <- answer{Error: "an earlier line was no answer"}
	}
	f.waiting = nil
}

// ask waits for the answer to a command.
func (f *feeder) ask(ctx context.Context, command map[string]any) (a answer, err error) {
	to := make(chan answer, 1)
	f.mu.Lock()
	f.last++
	n := f.last
	if f.waiting == nil {
		to <- answer{Error: "an earlier line was no answer"}
	} else {
		f.waiting[n] = to
	}
	f.mu.Unlock()
	command["n"] = n
	b, err := json.Marshal(command)
	if err != nil {
		return a, err
	}
	// A feeder that reads nothing blocks the write, which is not waited for.
	go func() {
		f.writing.Lock()
		defer f.writing.Unlock()
		_, _ = f.stdin.Write(append(b, '\n')) // an error is of one that has ended
	}()
	_, done := f.life()
	select {
	case a = <-to:
	case <-done:
		return a, fmt.Errorf("the feeder ended: %s", f.LastWords())
	case <-ctx.Done():
		f.mu.Lock()
		delete(f.waiting, n)
		f.mu.Unlock()
		return a, fmt.Errorf("the feeder did not answer: %w", ctx.Err())
	}
	if a.Error != "" {
		return a, fmt.Errorf("the feeder says: %.300s", a.Error)
	}
	return a, nil
}

// end lets the feeder remove all that it has made.
func (f *feeder) end(ctx context.Context) error {
	cmd, done := f.life()
	f.expect(ctx)
	_ = f.stdin.Close() // an error is of one that has ended just now
	select {
	case <-done:
	case <-time.After(leftTimeout):
		return errors.Join(fmt.Errorf("the feeder did not end within %v", leftTimeout), f.Kill(ctx))
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the feeder ended with %d: %s", code, f.LastWords())
	}
	return nil
}
