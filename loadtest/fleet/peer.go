package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/loadtest/peer"
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
	servers  []string // their addresses, as variables
	group    *Group
	pages    string // file of their ids
	platform Platform
	stop     func() error // of the platform
	feeder   *feeder
}

// leftTimeout is the time limit of the feeder to list the rest, and to remove all that
// the run has made.
const leftTimeout = 2 * time.Minute

// OpenPeer starts the platform and the feeder of a peer, which is prepared. There is no
// worker yet. servers are those that it needs.
func OpenPeer(ctx context.Context, cfg Config, p peer.Peer, servers []string) (_ Fleet, err error) {
	f := &peers{cfg: cfg, peer: p, servers: servers}
	f.start = func(ctx context.Context, replica int) (*Process, error) {
		w := f.program(fmt.Sprintf("worker-%d", replica+1), p.Work, replica, func([]byte) {})
		err := w.Start(ctx)
		return w, err
	}
	if f.group, err = NewGroup(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	f.pages = filepath.Join(f.group.Dir, "pages")
	if err := os.WriteFile(f.pages, []byte(strings.Join(cfg.Pages, "\n")+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write the pages: %w", err)
	}
	if f.platform, f.stop, err = Serve(ctx, cfg.Seed); err != nil {
		return nil, err
	}
	feed := &feeder{answers: make(chan []byte, 1)}
	feed.Process = f.program("feeder", p.Feed, 0, func(line []byte) {
		select {
		case feed.answers <- line:
		default: // nobody has asked
		}
	})
	if err := feed.Start(ctx); err != nil {
		return nil, err
	}
	f.feeder = feed
	return f, nil
}

// program is one of the peer's.
func (f *peers) program(name string, words []string, replica int, lines func([]byte)) *Process {
	o := f.cfg.Options
	env := append(os.Environ(),
		"GRAPH_URL="+f.platform.URL+graphVersion,
		"LIMIT="+strconv.FormatFloat(o.Limit, 'f', -1, 64),
		"REPLICAS="+strconv.Itoa(o.Replicas),
		"REPLICA="+strconv.Itoa(replica),
		"PAGES_FILE="+f.pages,
		"NAMESPACE="+strings.NewReplacer(":", "_", "-", "_").Replace(o.KeyPrefix)) // good for a schema's name
	env = append(env, f.servers...)
	p := f.group.Command(name, func() *exec.Cmd {
		cmd := exec.Command(words[0], words[1:]...) //nolint:gosec,noctx // to run it is what the user asks for
		cmd.Dir, cmd.Env = f.peer.Dir, env
		return cmd
	})
	var ready atomic.Bool
	p.lines = func(line []byte) {
		if string(line) == "ready" {
			ready.Store(true)
		} else {
			lines(line)
		}
	}
	p.Alive = func(context.Context) error {
		if !ready.Load() {
			return errors.New("it has not said ready")
		}
		return nil
	}
	return p
}

// Stop stops the workers. The feeder stays, to be asked for the rest.
func (f *peers) Stop() error { return f.crew.stop(f.live()...) }

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

// Platform is the fake, which serves the workers over HTTP.
func (f *peers) Platform() Platform { return f.platform }

// Operations are not known: the peer's queues are its own.
func (*peers) Operations() (n int64, known bool) { return 0, false }

// Errors are of programs that ended by themselves.
func (f *peers) Errors() (list []string) {
	for _, p := range f.group.All() {
		list = append(list, p.Failures()...)
	}
	return list
}

// Close ends everything and removes all that the run has made.
func (f *peers) Close() error {
	faults := []error{f.Stop()}
	if f.feeder != nil {
		faults = append(faults, f.feeder.end())
	}
	faults = append(faults, f.group.Close(false))
	if f.stop != nil {
		faults = append(faults, f.stop())
	}
	return errors.Join(faults...)
}

// feeder is the program that puts messages into a peer's queue. Its commands and
// answers are JSON objects, one a line, each command after the answer to the one
// before. Safe for concurrent use.
type feeder struct {
	*Process
	answers chan []byte // lines
	turn    sync.Mutex  // of one command
	failure error       // after which no answer is believed
}

// answer is a feeder's to one command.
type answer struct {
	Put  int `json:"put"` // how many messages the queue has taken
	Left *struct {
		Waiting []string `json:"waiting"` // would be sent if the workers ran on
		Dead    []string `json:"dead"`    // given up
	} `json:"left"`
	Error string `json:"error"`
}

// ask waits for the answer to a command.
func (f *feeder) ask(ctx context.Context, command map[string]any) (a answer, err error) {
	b, err := json.Marshal(command)
	if err != nil {
		return a, err
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	if f.failure != nil {
		return a, f.failure
	}
	go func() { _, _ = f.stdin.Write(append(b, '\n')) }() // a feeder that reads nothing blocks it; an error is of one that has ended
	_, done := f.life()
	select {
	case line := <-f.answers:
		if err := json.Unmarshal(line, &a); err != nil {
			f.failure = fmt.Errorf("the feeder said something that is no answer: %.80q", line)
		} else if a.Error != "" {
			return a, fmt.Errorf("the feeder says: %.300s", a.Error)
		}
	case <-done:
		f.failure = fmt.Errorf("the feeder ended: %s", f.LastWords())
	case <-ctx.Done():
		f.failure = fmt.Errorf("the feeder did not answer: %w", ctx.Err())
	}
	return a, f.failure
}

// end lets the feeder remove all that it has made.
func (f *feeder) end() error {
	cmd, done := f.life()
	f.expect()
	_ = f.stdin.Close() // an error is of one that has ended just now
	select {
	case <-done:
	case <-time.After(leftTimeout):
		return errors.Join(fmt.Errorf("the feeder did not end within %v", leftTimeout), f.Kill())
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the feeder ended with %d: %s", code, f.LastWords())
	}
	return nil
}
