package fleet

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
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is one program of a system. It may end and be started again, with the same
// environment, ports and log. Group makes one. Safe for concurrent use.
type Process struct {
	Name  string                          // such as core-2
	Alive func(ctx context.Context) error // nil when it serves
	Admin string                          // address of its admin port; empty: it has none

	command func() *exec.Cmd // of a new life
	log     string           // file of all that it prints
	guard   *guard
	lines   func(line []byte) // gets its standard output; nil: that is in the log

	mu       sync.Mutex
	cmd      *exec.Cmd // nil: it was never started
	stdin    io.WriteCloser
	done     chan struct{} // closed when the process has ended
	expected bool          // its end is our doing
	failures []string      // all that went wrong since it was last asked
}

const (
	stopTimeout = 90 * time.Second // a node of RabbitMQ hands its leaders over
	askTimeout  = 5 * time.Second
)

// Start starts it and returns when it is alive. The process has a group of its own: a
// Ctrl-C on the terminal is for the load test, which ends it in order.
func (p *Process) Start(ctx context.Context) error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer func() { _ = out.Close() }() // the program has one of its own
	return p.start(ctx, p.command(), out)
}

// fillTime is enough to fill a pipe.
const fillTime = 100 * time.Millisecond

// StartUnread starts it as Start does, but its log is a full pipe that nobody reads, and it
// logs every message.
func (p *Process) StartUnread(ctx context.Context) error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer func() { _, _ = read.Close(), write.Close() }() // the program has both ends of its own
	if err := write.SetWriteDeadline(time.Now().Add(fillTime)); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	const more = 1 << 20 // than any pipe takes
	if _, err := write.Write(make([]byte, more)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("start %s: its pipe is not full: %w", p.Name, err)
	}
	cmd := p.command()
	cmd.Env, cmd.ExtraFiles = append(cmd.Environ(), "LOG_LEVEL=debug"), []*os.File{read}
	return p.start(ctx, cmd, write)
}

// start starts a life whose output goes to out.
func (p *Process) start(ctx context.Context, cmd *exec.Cmd, out *os.File) error {
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.launch(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	_, done := p.life()
	err := await(ctx, func() error {
		if p.HasEnded() {
			return nil
		}
		return p.Alive(ctx)
	})
	select {
	case <-done:
		return fmt.Errorf("%s ended at its start: %s", p.Name, p.LastWords())
	default:
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s does not answer: %w: %s", p.Name, err, p.LastWords()), p.Kill())
	}
	return nil
}

// launch begins a life.
func (p *Process) launch(cmd *exec.Cmd) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var printed io.Reader
	if p.lines != nil {
		cmd.Stdout = nil
		if printed, err = cmd.StdoutPipe(); err != nil {
			return err
		}
		if p.stdin, err = cmd.StdinPipe(); err != nil {
			return err
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.guard.tell("began", cmd.Process.Pid)
	p.cmd, p.done, p.expected = cmd, make(chan struct{}), false
	go p.wait(cmd, printed, p.done)
	return nil
}

// wait reads the process's output, and notes how it ended.
func (p *Process) wait(cmd *exec.Cmd, printed io.Reader, done chan struct{}) {
	if printed != nil {
		for lines := bufio.NewReader(printed); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			p.lines(bytes.TrimSpace(line))
		}
	}
	err := cmd.Wait()
	p.guard.tell("ended", cmd.Process.Pid)
	p.mu.Lock()
	if !p.expected {
		p.failures = append(p.failures, fmt.Sprintf("%s ended by itself (%v): %s", p.Name, err, p.LastWords()))
	}
	p.mu.Unlock()
	close(done)
}

// LastWords are the last lines that it printed.
func (p *Process) LastWords() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	return strings.ReplaceAll(string(b[max(0, len(b)-300):]), "\n", "; ")
}

// life returns the process of now, and a channel that is closed when it has ended.
// Without a process it is closed.
func (p *Process) life() (*exec.Cmd, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		ended := make(chan struct{})
		close(ended)
		return nil, ended
	}
	return p.cmd, p.done
}

// HasEnded reports whether it does not run.
func (p *Process) HasEnded() bool {
	_, done := p.life()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Signal sends a signal to the process and to all that it has started. One that has
// ended is no error.
func (p *Process) Signal(s syscall.Signal) error {
	cmd, _ := p.life()
	if cmd == nil || p.HasEnded() && s != syscall.SIGKILL {
		return nil
	}
	if err := syscall.Kill(-cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// expect says that the end that follows is our doing.
func (p *Process) expect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

// Kill ends it at once.
func (p *Process) Kill() error {
	_, done := p.life()
	p.expect()
	err := p.Signal(syscall.SIGKILL)
	<-done
	return err
}

// Stop ends it in order. Another exit code than 0, and an end that does not come,
// are failures of the program.
func (p *Process) Stop() error {
	cmd, done := p.life()
	if cmd == nil || p.HasEnded() {
		return nil
	}
	p.expect()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-done:
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			p.fail(fmt.Sprintf("%s ended with %d after SIGTERM: %s", p.Name, code, p.LastWords()))
		}
		return p.Signal(syscall.SIGKILL) // what is left of its group
	case <-time.After(stopTimeout):
		p.fail(fmt.Sprintf("%s did not end within %v after SIGTERM", p.Name, stopTimeout))
		return p.Kill()
	}
}

func (p *Process) fail(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, text)
}

// Failures returns all that went wrong since it was last asked.
func (p *Process) Failures() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.failures
	p.failures = nil
	return list
}

// Get asks its admin port for a path.
func (p *Process) Get(ctx context.Context, path string) (body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err = io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: answer %d: %.300s", p.Name, resp.StatusCode, bytes.TrimSpace(body))
	}
	return body, err
}
