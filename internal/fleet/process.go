package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a child process.
type process struct {
	kind    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stderr  *tail
	address string // where it serves, as it said
	admin   string // where its metrics are; empty: it has none
	done    chan struct{}

	// Of processes that have ended; of others what was last asked.
	mu         sync.Mutex
	cpu        time.Duration
	peak       int64
	operations int64
}

const (
	startTimeout = 30 * time.Second
	stopTimeout  = shutdownTimeout + 10*time.Second
)

// spawn starts this program as a child of a kind and waits until it says where
// it listens.
func spawn(ctx context.Context, kind string, o order) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	p := &process{kind: kind, cmd: exec.Command(self, kind), stderr: &tail{}, done: make(chan struct{})} //nolint:noctx // this program; stop ends it
	// A Ctrl-C on the terminal is for the parent, which stops its children in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	said := make(chan string, 1)
	go func() {
		defer close(p.done)
		lines := bufio.NewReader(out)
		line, _ := lines.ReadString('\n') // empty: it has ended
		said <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, lines)
		_ = p.cmd.Wait() // how it ended is asked of the state
	}()
	if err := json.NewEncoder(p.stdin).Encode(o); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", kind, err), p.kill())
	}
	select {
	case line := <-said:
		p.address, p.admin, _ = strings.Cut(line, " ")
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), p.kill())
	case <-time.After(startTimeout):
	}
	if p.address == "" {
		return nil, errors.Join(fmt.Errorf("start %s: it did not begin to listen: %s", kind, p.stderr), p.kill())
	}
	return p, nil
}

// ready waits until the process says that it is.
func (p *process) ready(ctx context.Context) error {
	end := time.Now().Add(startTimeout)
	for {
		err := get(ctx, p.admin+"/readyz", nil)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if p.ended() || time.Now().After(end) {
			return fmt.Errorf("%s is not ready: %w: %s", p.kind, err, p.stderr)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop ends the process cleanly; what it has used is asked before.
func (p *process) stop(ctx context.Context) error {
	if p.ended() {
		return fmt.Errorf("%s ended by itself: %s", p.kind, p.stderr)
	}
	p.look(ctx)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.kind, err)
	}
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("%s did not stop within %v", p.kind, stopTimeout), p.kill())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with %d: %s", p.kind, code, p.stderr)
	}
	return nil
}

// kill ends it at once.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.kind, err)
	}
	<-p.done
	return nil
}

// look asks what the process has used so far. What cannot be had stays as it
// was.
func (p *process) look(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended() {
		if s := p.cmd.ProcessState; s != nil {
			p.cpu = max(p.cpu, s.UserTime()+s.SystemTime())
		}
		return
	}
	if cpu, err := cpuOf(p.cmd.Process.Pid); err == nil {
		p.cpu = cpu
	}
	if peak, err := peakOf(p.cmd.Process.Pid); err == nil {
		p.peak = peak
	}
	if p.admin == "" {
		return
	}
	var b bytes.Buffer
	if get(ctx, p.admin+"/metrics", &b) == nil {
		p.operations = operations(&b)
	}
}

// operations sums what our RabbitMQ client counts, out of the text form of the
// metrics.
func operations(r io.Reader) (n int64) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		name, _, _ = strings.Cut(name, "{")
		switch name {
		case "chatclub_broker_published_total", "chatclub_broker_deliveries_total", "chatclub_broker_settled_total":
			v, _ := strconv.ParseFloat(strings.TrimSpace(value[strings.LastIndexByte(value, ' ')+1:]), 64) // a line of ours
			n += int64(v)
		}
	}
	return n
}

// askTimeout bounds a question to a child.
const askTimeout = 5 * time.Second

// get asks a child's admin server.
func get(ctx context.Context, url string, to *bytes.Buffer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Close = true
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return fmt.Errorf("answer %d: %s", resp.StatusCode, bytes.TrimSpace(text))
	}
	if to != nil {
		_, err = to.ReadFrom(resp.Body)
	}
	return err
}

// tail keeps the end of what a child writes on standard error.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b) - tailBytes; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}
