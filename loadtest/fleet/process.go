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

	"chatclub/loadtest/proc"
)

// process is a child process.
type process struct {
	kind    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stderr  *tail
	address string // where it serves, as it said
	admin   string // where its metrics are; empty: it has none
	foreign bool   // it is a program of a peer
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
	p := &process{kind: kind, cmd: exec.Command(self, kind)} //nolint:noctx // this program; stop ends it
	said, err := p.launch(log, nil)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(p.stdin).Encode(o); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", kind, err), p.kill())
	}
	line, _, err := p.hear(ctx, said, startTimeout)
	if err != nil {
		return nil, err
	}
	p.address, p.admin, _ = strings.Cut(line, " ")
	if p.address == "" {
		return nil, errors.Join(fmt.Errorf("start %s: it did not begin to listen: %s", kind, p.stderr), p.kill())
	}
	return p, nil
}

// launch starts the process in a group of its own: a Ctrl-C on the terminal is
// for the parent, which stops its children in order. said has the first line that
// it writes, empty where it has ended before. rest gets what follows; nil: nobody
// reads it.
func (p *process) launch(log *slog.Logger, rest func(*bufio.Reader)) (said <-chan string, err error) {
	p.stderr, p.done = &tail{}, make(chan struct{})
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	told := &lines{log: log, kind: p.kind}
	p.cmd.Stderr = io.MultiWriter(p.stderr, told)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.kind, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.kind, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.kind, err)
	}
	first := make(chan string, 1)
	go func() {
		defer close(p.done)
		lines := bufio.NewReader(out)
		line, _ := lines.ReadString('\n') // empty: it has ended
		first <- strings.TrimSpace(line)
		if rest != nil {
			rest(lines)
		}
		_, _ = io.Copy(io.Discard, lines)
		_ = p.cmd.Wait() // how it ended is asked of the state
		told.end()
	}()
	return first, nil
}

// hear returns the first line that the process has said, empty where it has ended
// before; or that nothing was heard in time. When ctx ends before, the process is
// killed.
func (p *process) hear(ctx context.Context, said <-chan string, longest time.Duration) (line string, heard bool, err error) {
	select {
	case line := <-said:
		return line, true, nil
	case <-ctx.Done():
		return "", false, errors.Join(ctx.Err(), p.kill())
	case <-time.After(longest):
		return "", false, nil
	}
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
	if err := p.signal(syscall.SIGTERM); err != nil {
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
	if err := p.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", p.kind, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout): // a program of its own session holds its output open
		return fmt.Errorf("%s was killed, and what it started lives on", p.kind)
	}
}

// signal sends a signal to the process and to all that it has started: that a
// peer's worker is started by a script is no reason that a kill should spare it.
func (p *process) signal(s syscall.Signal) error {
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
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
	clock := proc.CPU
	if p.foreign {
		clock = proc.Tree
	}
	return p.lookBy(ctx, clock)
}

// lookBy is look with a way to read CPU times.
func (p *process) lookBy(ctx context.Context, clock func(pid int) (time.Duration, error)) used {
	var u used
	var b bytes.Buffer
	pid := p.cmd.Process.Pid
	if cpu, err := clock(pid); err == nil {
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
