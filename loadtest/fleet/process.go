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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"chatclub/internal/backoff"
	"chatclub/loadtest/proc"
)

// Process is one program of a system. It may end and be started again, with the same
// environment, ports and log. Group.New makes one. Safe for concurrent use.
type Process struct {
	Name  string                          // such as core-2
	Alive func(ctx context.Context) error // nil when it serves
	Admin string                          // address of its admin port; empty: it has none

	command func() *exec.Cmd // of a new life
	log     string           // file of all that it prints
	guard   *guard
	lines   func(line []byte) // gets its output after the line "ready"; nil: that is in the log

	mu       sync.Mutex
	cmd      *exec.Cmd // nil: it was never started
	stdin    io.WriteCloser
	done     chan struct{} // closed when the process has ended
	ready    chan struct{} // closed with the line "ready"
	expected bool          // its end is our doing
	failures []string      // all that went wrong since it was last asked
	last     Used
}

// Used is a process's use of the machine so far. What is not known is nil or absent.
type Used struct {
	PID     int
	CPU     *time.Duration // with all that descend from it
	Peak    *int64         // of its memory, in bytes
	Metrics map[string]float64
}

const (
	aliveTimeout = 3 * time.Minute // for a start, on a busy machine
	stopTimeout  = 40 * time.Second
	askTimeout   = 5 * time.Second
)

// Start starts it and returns when it is alive. The process has a group of its own: a
// Ctrl-C on the terminal is for the load test, which ends it in order.
func (p *Process) Start(ctx context.Context) error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer func() { _ = out.Close() }() // the program has one of its own
	cmd := p.command()
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := p.launch(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	return p.await(ctx)
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
	p.cmd, p.done, p.ready, p.expected = cmd, make(chan struct{}), make(chan struct{}), false
	go p.wait(cmd, printed, p.done, p.ready)
	return nil
}

// wait reads the process's output, and notes how it ended.
func (p *Process) wait(cmd *exec.Cmd, printed io.Reader, done, ready chan struct{}) {
	if printed != nil {
		said := false
		for lines := bufio.NewReader(printed); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			if !said && string(bytes.TrimSpace(line)) == "ready" {
				close(ready)
				said = true
			} else {
				p.lines(line)
			}
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

// await waits until the process is alive.
func (p *Process) await(ctx context.Context) error {
	var err error
	_, done := p.life()
	for end := time.Now().Add(aliveTimeout); time.Now().Before(end); {
		if err = p.Alive(ctx); err == nil {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("%s ended at its start: %s", p.Name, p.LastWords())
		default:
		}
		if !backoff.Sleep(ctx, 20*time.Millisecond) { // a poll of another process
			return errors.Join(ctx.Err(), p.Kill(ctx))
		}
	}
	return errors.Join(fmt.Errorf("%s did not answer within %v: %w: %s", p.Name, aliveTimeout, err, p.LastWords()), p.Kill(ctx))
}

// saidReady is Alive of a program that says so.
func (p *Process) saidReady(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ready:
		return nil
	default:
		return errors.New("it has not said ready")
	}
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

// expect says that the end that follows is our doing, and asks the last time for
// the use of the machine. One that has ended before has done so by itself.
func (p *Process) expect(ctx context.Context) {
	p.Used(context.WithoutCancel(ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

// Kill ends it at once.
func (p *Process) Kill(ctx context.Context) error {
	_, done := p.life()
	p.expect(ctx)
	err := p.Signal(syscall.SIGKILL)
	<-done
	return err
}

// Stop ends it in order. Another exit code than 0, and an end that does not come,
// are failures of the program.
func (p *Process) Stop(ctx context.Context) error { return p.StopWithin(ctx, stopTimeout) }

// StopWithin is Stop with a time of its own.

func (p *Process) StopWithin(ctx context.Context, longest time.Duration) error {
	cmd, done := p.life()
	if cmd == nil || p.HasEnded() {
		return nil
	}
	p.expect(ctx)
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-done:
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			p.fail(fmt.Sprintf("%s ended with %d after SIGTERM: %s", p.Name, code, p.LastWords()))
		}
		return p.Signal(syscall.SIGKILL) // what is left of its group
	case <-time.After(longest):
		p.fail(fmt.Sprintf("%s did not end within %v after SIGTERM", p.Name, longest))
		return p.Kill(ctx)
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

// Used asks for its use of the machine. Of one that has ended it is the last that was
// known, but for the CPU time, which is final.
func (p *Process) Used(ctx context.Context) Used {
	cmd, _ := p.life()
	if cmd == nil {
		return Used{}
	}
	u := Used{PID: cmd.Process.Pid}
	if !p.HasEnded() {
		if cpu, err := proc.Tree(u.PID); err == nil {
			u.CPU = &cpu
		}
		if peak, err := proc.Peak(u.PID); err == nil {
			u.Peak = &peak
		}
		if p.Admin != "" {
			if body, err := p.Get(ctx, "/metrics"); err == nil {
				u.Metrics = metrics(body)
			}
		}
	}
	ended := p.HasEnded()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ended {
		p.last = u
	} else if !p.expected {
		p.last.Metrics = nil // how far it came since it was last asked is not known
	}
	if ended && cmd.ProcessState != nil { // which is written before the end is told
		p.last.CPU = new(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	}
	return p.last
}

// faults are the errors of a strategy that it has told.
func (p *Process) faults() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.Metrics[faultsMetric]
}

// metrics reads Prometheus' text form: of each name the sum of its series.
func metrics(text []byte) map[string]float64 {
	all := make(map[string]float64)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line[:i], "{")
		if v, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
			all[name] += v
		}
	}
	return all
}

// operations are those of the broker that our RabbitMQ client has counted.
func operations(metrics map[string]float64) int64 {
	return int64(metrics["chatclub_broker_published_total"] + metrics["chatclub_broker_deliveries_total"] + metrics["chatclub_broker_settled_total"])
}
