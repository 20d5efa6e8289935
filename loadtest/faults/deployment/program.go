package deployment

import (
	"bufio"
	"bytes"
	"context"
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

	"chatclub/internal/backoff"
	"chatclub/internal/replicas"
	"chatclub/loadtest/faults"
)

// program is one of the deployment's, which is started again and again.
type program struct {
	name  string // such as core-2
	path  string
	admin string // address of its admin port, the same in each life
	log   string // file of all that it prints
	env   []string
	guard *guard

	mu       sync.Mutex
	cmd      *exec.Cmd
	done     chan struct{}
	expected bool     // its end is our doing
	failures []string // ends that were not, and others than they should be
}

const (
	aliveTimeout = 2 * time.Minute // for a start, on a busy machine
	stopTimeout  = 40 * time.Second
	askTimeout   = 3 * time.Second
)

// start starts it and returns when it is alive.
func (p *program) start(ctx context.Context) error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer func() { _ = out.Close() }() // the program has one of its own
	cmd := exec.Command(p.path)        //nolint:gosec,noctx // built by us; it outlives ctx
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.guard.began(cmd.Process.Pid)
	done := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.done, p.expected = cmd, done, false
	p.mu.Unlock()
	go p.wait(cmd, done)
	return p.await(ctx)
}

// wait notes how the program ended.
func (p *program) wait(cmd *exec.Cmd, done chan struct{}) {
	err := cmd.Wait()
	p.guard.ended(cmd.Process.Pid)
	p.mu.Lock()
	if !p.expected {
		p.failures = append(p.failures, fmt.Sprintf("%s ended by itself (%v): %s", p.name, err, p.lastWords()))
	}
	p.mu.Unlock()
	close(done)
}

// lastWords is the last line that it printed.
func (p *program) lastWords() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	line := b[bytes.LastIndexByte(b, '\n')+1:]
	return string(line[:min(len(line), 300)])
}

// life returns the process of now, and a channel that is closed when it has ended.
func (p *program) life() (*exec.Cmd, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.done
}

func (p *program) hasEnded() bool {
	_, done := p.life()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// await waits until it is alive.
func (p *program) await(ctx context.Context) error {
	var err error
	for end := time.Now().Add(aliveTimeout); time.Now().Before(end); {
		if _, err = p.ask(ctx, "/healthz"); err == nil {
			return nil
		}
		if p.hasEnded() {
			return fmt.Errorf("%s ended at its start: %s", p.name, p.lastWords())
		}
		if !backoff.Sleep(ctx, 50*time.Millisecond) { // a poll of another process
			return ctx.Err()
		}
	}
	return fmt.Errorf("no answer within %v: %w", aliveTimeout, err)
}

// ask gets a path of the admin port.
func (p *program) ask(ctx context.Context, path string) (body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client := replicas.Client{HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	err = client.Read(ctx, "http://"+p.admin+path, func(r io.Reader) (err error) {
		body, err = io.ReadAll(r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return body, nil
}

// signal sends one to it. One that has ended is no error.
func (p *program) signal(s syscall.Signal) error {
	cmd, _ := p.life()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// expectEnd says that the end that follows is our doing. One that has ended before
// has done so by itself.
func (p *program) expectEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

// kill ends it at once.
func (p *program) kill() error {
	cmd, done := p.life()
	if cmd == nil {
		return nil
	}
	p.expectEnd()
	err := p.signal(syscall.SIGKILL)
	<-done
	return err
}

// stop ends it in order. Another exit code than 0, and an end that does not come,
// are failures of the program.
func (p *program) stop() error {
	cmd, done := p.life()
	if cmd == nil || p.hasEnded() {
		return nil
	}
	p.expectEnd()
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-done:
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			p.fail(fmt.Sprintf("%s ended with %d after SIGTERM: %s", p.name, code, p.lastWords()))
		}
		return nil
	case <-time.After(stopTimeout):
		p.fail(fmt.Sprintf("%s did not end within %v after SIGTERM", p.name, stopTimeout))
		return p.kill()
	}
}

func (p *program) fail(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, what)
}

// takeFailures returns those since it was last asked.
func (p *program) takeFailures() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.failures
	p.failures = nil
	return list
}

// usage asks what it has; nil while it does not answer.
func (p *program) usage(ctx context.Context) *faults.Usage {
	cmd, _ := p.life()
	body, err := p.ask(ctx, "/metrics")
	if err != nil {
		return nil
	}
	u := parseUsage(body)
	u.Process, u.PID = p.name, cmd.Process.Pid
	return &u
}

// parseUsage reads Prometheus' text form.
func parseUsage(metrics []byte) (u faults.Usage) {
	for lines := bufio.NewScanner(bytes.NewReader(metrics)); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		switch name {
		case "go_goroutines":
			u.Goroutines = value
		case "process_open_fds":
			u.Files = int(value)
		case "process_resident_memory_bytes":
			u.Memory = int64(value)
		}
	}
	return u
}
