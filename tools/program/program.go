// Package program runs programs for tests and tools: ours, which Build builds once for
// the tests of a package, and those of the machine. A program that Start started has
// ended when its test has.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Command is a program with all that it is given.
type Command struct {
	Path  string // of a file, or a name to be found on PATH
	Args  []string
	Dir   string   // empty: this process's
	Env   []string // nil: this process's
	Stdin io.Reader
	Attr  *syscall.SysProcAttr
}

// Environ returns an environment that has PATH and the given variables, and nothing else of
// this process's.
func Environ(given map[string]string) []string {
	env := []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range given {
		env = append(env, name+"="+value)
	}
	return env
}

// Find returns the path of the first of these programs that is on PATH. The error
// names the last one.
func Find(names ...string) (path string, err error) {
	for _, name := range names {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// Browser returns the path of a Chromium: the program in CHROMIUM, or one on PATH. The
// headless shell, which has no window around the page, needs a third of the processor time.
// On a busy machine the others once drew no page for minutes.
func Browser() (path string, err error) {
	if path = os.Getenv("CHROMIUM"); path != "" {
		return path, nil
	}
	if path, err = Find("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"); err != nil {
		return "", errors.New("there is no Chromium: install the package chromium-headless-shell, or name the program in CHROMIUM")
	}
	return path, nil
}

// Result is a program's output and exit code: -1 if a signal ended it, or it did not
// start.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Run runs a program to its end, which ctx brings about. The error is not nil unless
// the exit code is 0, and ends with the last of the program's output.
func Run(ctx context.Context, c Command) (Result, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.SysProcAttr = c.Dir, c.Env, c.Stdin, c.Attr
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: -1}
	if cmd.ProcessState != nil {
		r.Code = cmd.ProcessState.ExitCode()
	}
	if err != nil {
		printed := bytes.TrimSpace(append(stdout.Bytes(), stderr.Bytes()...))
		err = fmt.Errorf("%s: %w: %s", filepath.Base(c.Path), err, printed[max(0, len(printed)-500):])
	}
	return r, err
}

// kept is the folder of the module in which Build leaves the programs, because the go
// command links one only if it is out of date there. Git ignores it.
const kept = "bin/test"

// Build builds packages of ours, and returns a folder of its own that has the programs.
// The caller removes that.
func Build(packages ...string) (dir string, err error) {
	ctx := context.Background()
	module, err := Run(ctx, Command{Path: "go", Args: []string{"list", "-m", "-f", "{{.Dir}}", "chatclub"}})
	if err != nil {
		return "", err
	}
	all := filepath.Join(strings.TrimSpace(module.Stdout), filepath.FromSlash(kept))
	if err := os.MkdirAll(all, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for the programs: %w", err)
	}
	// The tests of two packages may build at a time.
	lock, err := os.OpenFile(filepath.Join(all, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("lock the programs: %w", err)
	}
	defer func() { _ = lock.Close() }() // which frees it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the programs: %w", err)
	}
	build := append([]string{"build", "-ldflags=-s -w", "-o", all + string(filepath.Separator)}, packages...)
	if _, err := Run(ctx, Command{Path: "go", Args: build}); err != nil {
		return "", fmt.Errorf("build %v: %w", packages, err)
	}
	if dir, err = os.MkdirTemp(all, "run-"); err != nil {
		return "", fmt.Errorf("make a folder for the programs: %w", err)
	}
	return dir, linkAll(all, dir)
}

// linkAll gives every program of a folder a name in another one, under which it stays
// when the first is replaced.
func linkAll(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			err = errors.Join(err, os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
		}
	}
	return err
}
