package program

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience bounds every wait for something that must happen. All takes seconds;
// the rest is for a machine that stands still for a while.
const Patience = 2 * time.Minute

// Process is a program that runs. Safe for concurrent use.
type Process struct {
	Name string

	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of its end; read after ended

	mu  sync.Mutex
	log bytes.Buffer
}

// Start starts a program, which is killed when the test ends.
func Start(t testing.TB, c Command) *Process {
	t.Helper()
	p := &Process{Name: filepath.Base(c.Path), ended: make(chan struct{})}
	p.cmd = exec.Command(c.Path, c.Args...) //nolint:noctx // it ends with the test
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdin, p.cmd.SysProcAttr = c.Dir, c.Env, c.Stdin, c.Attr
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", p.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("last lines of %s (pid %d):\n%s", p.Name, p.cmd.Process.Pid, p.Tail())
		}
	})
	return p
}

// Write adds the program's output to the log. It is for the program alone.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// Log returns all that the program has printed.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Tail returns the last lines of the log.
func (p *Process) Tail() string {
	lines := strings.Split(strings.TrimSpace(p.Log()), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

// Await waits until the log has a match of the pattern, and returns its groups.
func (p *Process) Await(t testing.TB, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	Eventually(t, p.Name+" prints "+pattern, func() error {
		ended := p.HasEnded()
		if found = re.FindStringSubmatch(p.Log()); found == nil && ended {
			t.Fatalf("%s ended before it printed %s: %v\n%s", p.Name, pattern, p.err, p.Tail())
		}
		if found == nil {
			return fmt.Errorf("it has printed %s", p.Tail())
		}
		return nil
	})
	return found
}

// HasEnded reports whether the program has ended.
func (p *Process) HasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Kill ends the program as kill -9 does, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// Ask sends SIGTERM.
func (p *Process) Ask() { _ = p.cmd.Process.Signal(syscall.SIGTERM) } // it may have ended

// Wait waits for the program's end. It returns nil for the exit code 0.
func (p *Process) Wait() error {
	<-p.ended
	return p.err
}

// Stop asks the program to end, and fails t unless it does so in order within a limit.
func (p *Process) Stop(t testing.TB, limit time.Duration) {
	t.Helper()
	p.Ask()
	p.WantEnd(t, limit)
}

// WantEnd fails t unless the program, which was asked to, ends in order within a limit.
func (p *Process) WantEnd(t testing.TB, limit time.Duration) {
	t.Helper()
	select {
	case <-p.ended:
		if p.err != nil {
			t.Errorf("%s after SIGTERM: %v, want exit code 0", p.Name, p.err)
		}
	case <-time.After(limit):
		t.Errorf("%s still runs %v after SIGTERM", p.Name, limit)
		p.Kill()
	}
}

// Eventually waits until check returns nil.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	const pause = 50 * time.Millisecond
	var err error
	var late time.Duration // by which this test itself was run too late, at worst
	for end := time.Now().Add(Patience); time.Now().Before(end); {
		if err = check(); err == nil {
			return
		}
		slept := time.Now()
		time.Sleep(pause) // a poll of another process
		late = max(late, time.Since(slept)-pause)
	}
	starved := "the machine is not starved"
	if late >= time.Second {
		starved = "STARVED MACHINE, this says nothing about the programs"
	}
	t.Fatalf("not within %v: %s: %v (%s: the test itself waited up to %v for a processor)", Patience, what, err, starved, late.Round(time.Millisecond))
}
