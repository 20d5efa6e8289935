package deployment

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
)

// guardScript ends what this program cannot end because it was itself killed: it
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
	if err != nil {
		return nil, fmt.Errorf("start the guard of processes: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guard of processes: %w", err)
	}
	return &guard{cmd: cmd, pipe: pipe}, nil
}

func (g *guard) began(pid int) { g.tell("began", pid) }
func (g *guard) ended(pid int) { g.tell("ended", pid) }

// tell fails only when the guard is gone; then nobody guards.
func (g *guard) tell(what string, pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = fmt.Fprintln(g.pipe, what, pid)
}

// close lets it kill what is left, and remove the folder.
func (g *guard) close() error {
	g.mu.Lock()
	err := g.pipe.Close()
	g.mu.Unlock()
	if err != nil {
		return fmt.Errorf("end the guard of processes: %w", err)
	}
	return g.cmd.Wait()
}
