package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"chatclub/internal/loadtest/proc"
)

// process is a side, or the judge, in a process of its own. It prints its
// address or "ready", and then, for each line that it reads, what it has used so
// far. It ends with its input.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
	hello string // its first line
}

func start(ctx context.Context, amqpURL, name string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	p := &process{name: name, cmd: exec.CommandContext(ctx, self, append([]string{"-serve", name}, args...)...)}
	p.cmd.Stderr = os.Stderr
	p.cmd.Env = append(os.Environ(), urlVariable+"="+amqpURL)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.lines = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if p.hello, err = p.line(); err != nil {
		_ = p.stop() // it said why
		return nil, err
	}
	return p, nil
}

// stop ends the process, which lets it settle what it holds, and waits for it.
func (p *process) stop() error {
	_ = p.stdin.Close()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	return nil
}

func (p *process) line() (string, error) {
	line, err := p.lines.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("hear from %s: %w", p.name, err)
	}
	return strings.TrimSpace(line), nil
}

// usage is what a process has used so far, or in some time.
type usage struct {
	cpu      int64 // µs
	requests int64
}

// used asks the process.
func (p *process) used() (u usage, err error) {
	if _, err := io.WriteString(p.stdin, "\n"); err != nil {
		return u, fmt.Errorf("ask %s: %w", p.name, err)
	}
	line, err := p.line()
	if err != nil {
		return u, err
	}
	if _, err := fmt.Sscan(line, &u.cpu, &u.requests); err != nil {
		return u, fmt.Errorf("read %q of %s: %w", line, p.name, err)
	}
	return u, nil
}

// answerLines is the other end: it answers each line of stdin.
func answerLines(stdin io.Reader, stdout io.Writer, requests func() int64) error {
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		cpu, err := proc.Self()
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, cpu.Microseconds(), requests())
	}
	return lines.Err()
}
