package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"chatclub/internal/loadtest/proc"
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

	mu      sync.Mutex
	last    used  // what was last asked
	over    bool  // it was asked to end, or is being killed: nothing more is asked
	crashed bool  // it had ended before that
	blind   error // the first reason for which its operations were not known
}

const (
	startTimeout = 30 * time.Second
	stopTimeout  = shutdownTimeout + 10*time.Second
)

// spawn starts this program as a child of a kind and waits until it says where
// it listens.
func spawn(ctx context.Context, log *slog.Logger, kind string, o childSpec) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	p := &process{kind: kind, cmd: exec.Command(self, kind), stderr: &tail{}, done: make(chan struct{})} //nolint:noctx // this program; stop ends it
	// A Ctrl-C on the terminal is for the parent, which stops its children in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	told := &lines{log: log, kind: kind}
	p.cmd.Stderr = io.MultiWriter(p.stderr, told)
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
		told.end()
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

// stop ends the process cleanly; what it has used is asked before. That it ended
// by itself before is no error of stop's: faults tells.
func (p *process) stop(ctx context.Context) error {
	if !p.close(ctx) {
		return nil
	}
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

// close asks the last time what the process has used, and reports whether it still
// ran. What becomes of it from now on is our doing.
func (p *process) close(ctx context.Context) bool {
	p.look(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over, p.crashed = true, p.crashed || !p.over && p.ended()
	return !p.ended()
}

// look asks what the process has used so far. Of one that is being stopped, or
// was, it is what close has asked, but for the CPU time, which is final once the
// process has ended.
func (p *process) look(ctx context.Context) used {
	var u used
	var b bytes.Buffer
	pid := p.cmd.Process.Pid
	if cpu, err := proc.CPU(pid); err == nil {
		u.cpu = &cpu
	}
	if peak, err := proc.Peak(pid); err == nil {
		u.peak = &peak
	}
	var blind error
	if p.admin != "" && !p.ended() {
		if blind = get(ctx, p.admin+"/metrics", &b); blind == nil {
			operations, faults := counts(&b)
			u.operations, u.faults = &operations, faults
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
	case p.ended(): // by itself: how far it came since it was last asked is not known
		p.last.operations = nil
	default:
		u.faults = max(u.faults, p.last.faults)
		p.last = u
		if p.blind == nil {
			p.blind = blind
		}
	}
	if p.ended() {
		if s := p.cmd.ProcessState; s != nil {
			p.last.cpu = new(s.UserTime() + s.SystemTime())
		}
	}
	return p.last
}

// faults are what went wrong with the process, for people.
func (p *process) faults() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.crashed || !p.over && p.ended() {
		list = append(list, fmt.Sprintf("%s ended by itself: %s", p.kind, p.stderr))
	}
	if p.blind != nil {
		list = append(list, fmt.Sprintf("%s did not tell its operations: %v", p.kind, p.blind))
	}
	if p.last.faults > 0 {
		said := p.stderr.String()
		list = append(list, fmt.Sprintf(strategyFaults, "a "+p.kind, p.last.faults, said[strings.LastIndexByte(said, '\n')+1:]))
	}
	return list
}
