package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"chatclub/fakeapi"
	"chatclub/internal/service"
	"chatclub/tools/private"
)

// Group are processes with a folder. All that it starts ends with it, also when this
// program is killed. NewGroup makes one.
type Group struct {
	Dir   string // for data and settings; it is removed in the end
	Logs  string // for all that the programs print; it stays where something went wrong
	guard *guard

	mu  sync.Mutex
	all []*Process
}

// NewGroup makes a group without processes.
func NewGroup() (*Group, error) {
	dir, err := os.MkdirTemp("", "chatclub-loadtest-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the run: %w", err)
	}
	logs, err := os.MkdirTemp("", "chatclub-logs-")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	g, err := newGuard(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir), os.RemoveAll(logs))
	}
	return &Group{Dir: dir, Logs: logs, guard: g}, nil
}

// Command makes a process of a command, which is called for each of its lives.
func (g *Group) Command(name string, command func() *exec.Cmd) *Process {
	p := &Process{Name: name, command: command, log: filepath.Join(g.Logs, name+".log"), guard: g.guard}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, p)
	return p
}

// Program makes a process of one of our programs, with an environment and nothing else of
// ours.
func (g *Group) Program(name, path string, env map[string]string) (*Process, error) {
	admin, err := Addr()
	if err != nil {
		return nil, err
	}
	list := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.Dir, "ADMIN_ADDR=" + admin, "LOG_LEVEL=warn"}
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	p := g.Command(name, func() *exec.Cmd {
		cmd := exec.Command(path) //nolint:noctx // our own; it outlives the call
		cmd.Env = list
		return cmd
	})
	p.Admin = admin
	p.Alive = func(ctx context.Context) error { _, err := p.Get(ctx, "/healthz"); return err }
	return p, nil
}

// All are the group's processes, in the order in which they were made.
func (g *Group) All() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.all)
}

// Close kills all that runs, and removes the folder. The logs go too if nothing is
// to be learned from them.
func (g *Group) Close(keepLogs bool) error {
	err := Each(g.All(), (*Process).Kill)
	if !keepLogs {
		err = errors.Join(err, os.RemoveAll(g.Logs))
	}
	return errors.Join(err, g.guard.close())
}

// Serve serves a fake platform until the returned function is called.
func Serve(ctx context.Context, seed uint64) (p Platform, stop func() error, err error) {
	api, err := fakeapi.New(fakeapi.Config{Seed: seed, Seconds: keptSeconds})
	if err != nil {
		return p, nil, err
	}
	ln, err := service.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return p, nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- api.Serve(ctx, ln) }()
	return Platform{URL: "http://" + ln.Addr().String(), Transport: api.Transport()}, func() error { cancel(); return <-ended }, nil
}

// Addr returns an address on this machine that is free now, at a port below
// those that are given to whoever asks for any: programs leave it when they are
// killed, and come back to it.
func Addr() (string, error) {
	ports, err := private.Ports(1)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), nil
}

// guardScript ends all that this program cannot end because it was itself killed: it
// reads which process groups begin and end, and kills those that are left when its
// input ends. Then it removes the folder.
const guardScript = `
groups=
while read -r what group; do
	rest=
	for g in $groups; do [ "$g" = "$group" ] || rest="$rest $g"; done
	groups=$rest
	[ "$what" = began ] && groups="$groups $group"
done
for g in $groups; do kill -KILL "-$g" 2>/dev/null; done
sleep 1
rm -rf "$0"
`

// guard is the process that runs it.
type guard struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	pipe io.WriteCloser
}

// newGuard starts one that removes a folder in the end.
func newGuard(dir string) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, dir) //nolint:noctx // it outlives this program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}  // Ctrl-C is not for it
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the guard of processes: %w", err)
	}
	return &guard{cmd: cmd, pipe: pipe}, nil
}

// tell fails only when the guard is gone; then nobody guards.
func (g *guard) tell(what string, pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = fmt.Fprintln(g.pipe, what, pid)
}

// close lets it kill the rest, and remove the folder.
func (g *guard) close() error {
	g.mu.Lock()
	err := g.pipe.Close()
	g.mu.Unlock()
	if err != nil {
		return fmt.Errorf("end the guard of processes: %w", err)
	}
	return g.cmd.Wait()
}
