package rabbittest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"chatclub/tools/private"
)

// supervise starts epmd and the server and holds them together. A server that finds no
// epmd starts one of its own, which nobody would end. Its standard
// input is a pipe from the test process: a line on it asks for an orderly
// stop, its end says that the test process is gone. Either way the whole
// process group ends with it.
const supervise = `
"$EPMD" -port "$ERL_EPMD_PORT" -address 127.0.0.1 >>"$DIR/epmd.log" 2>&1 </dev/null &
epmd=$!
while kill -0 $epmd && ! "$EPMD" -names; do sleep 0.1; done >>"$DIR/epmd.log" 2>&1
(
	trap 'kill -TERM $server' TERM
	"$SERVER" >>"$DIR/server.log" 2>&1 </dev/null &
	server=$!
	wait $server
	wait $server
	echo ended >"$DIR/ended"
) &
watcher=$!
if read -r _; then
	kill -TERM $watcher
	wait $watcher
	wait $watcher
else
	rm -rf "$DIR"
fi
kill -KILL 0
`

// local is a private server on this machine.
type local struct {
	private.Node
	bin string // folder of rabbitmq-server and rabbitmqctl
	env []string

	process *exec.Cmd // nil while it does not run
	pipe    io.WriteCloser
}

// startLocal starts a private server, once it is found, installed or unpacked. A port
// that was free can be taken before the server has it: it tries three times.
func startLocal(ctx context.Context, log io.Writer) (instance, error) {
	bin, err := private.RabbitMQ(ctx, log)
	if err != nil {
		return nil, err
	}
	epmd, err := exec.LookPath(filepath.Join(bin, "epmd"))
	if err != nil {
		epmd, err = exec.LookPath("epmd")
	}
	if err != nil {
		return nil, errors.New("rabbitmq-server is installed but Erlang's epmd is not on PATH")
	}
	for range 3 {
		var l *local
		if l, err = newLocal(bin, epmd); err != nil {
			break
		}
		_, _ = fmt.Fprintf(log, "rabbittest: starting a private RabbitMQ on port %d\n", l.Port)
		if err = l.start(ctx); err == nil {
			return l, nil
		}
		removeQuietly(l) //nolint:contextcheck // also when ctx has ended
	}
	return nil, fmt.Errorf("private server: %w", err)
}

// newLocal makes the folder and the settings of a server.
func newLocal(bin, epmd string) (*local, error) {
	ports, err := private.Ports(3)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rabbittest")
	if err != nil {
		return nil, err
	}
	l := &local{bin: bin, Node: private.Node{
		Name: fmt.Sprintf("t%d", ports[0]), Dir: dir, Port: ports[0], EPMD: ports[1], Dist: ports[2],
	}}
	// Tests declare and delete thousands of queues, of which the log would tell each.
	conf := fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%d\nlog.file.level = warning\n", l.Port)
	for name, text := range map[string]string{"rabbitmq.conf": conf, "enabled_plugins": "[].\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	l.env = append(l.Env(), "DIR="+dir, "EPMD="+epmd, "SERVER="+filepath.Join(bin, "rabbitmq-server"),
		// Erlang's threads spin before they sleep. The tests need the processors.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none")
	return l, nil
}

func (l *local) url() string { return fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", l.Port) }

// start starts the processes and returns when the server answers.
func (l *local) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	if err := os.RemoveAll(filepath.Join(l.Dir, "ended")); err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", supervise) //nolint:noctx // it outlives ctx
	cmd.Env, cmd.Dir = l.env, l.Dir                 // a crash dump goes where it is removed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	l.process, l.pipe = cmd, pipe
	for {
		err := ping(l.url())
		if err == nil {
			return nil
		}
		if _, ended := os.Stat(filepath.Join(l.Dir, "ended")); ended == nil {
			return fmt.Errorf("rabbitmq-server ended: %s", l.LastWords())
		}
		select {
		case <-time.After(100 * time.Millisecond): // a poll of another process
		case <-ctx.Done():
			return fmt.Errorf("rabbitmq-server did not answer in time (%w): %s", err, l.LastWords())
		}
	}
}

func (l *local) stop(ctx context.Context) error {
	if l.process == nil {
		return errNotRunning
	}
	stop := context.AfterFunc(ctx, l.killGroup)
	defer stop()
	_, _ = io.WriteString(l.pipe, "stop\n") // fails only when it has ended
	return l.ended()
}

func (l *local) kill(context.Context) error {
	if l.process == nil {
		return errNotRunning
	}
	l.killGroup()
	return l.ended()
}

func (l *local) killGroup() { _ = syscall.Kill(-l.process.Process.Pid, syscall.SIGKILL) }

// ended waits for the supervisor, which ends by killing its own group.
func (l *local) ended() error {
	err := l.process.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	l.process = nil
	return err
}

// remove ends the server without ceremony: its data goes too.
func (l *local) remove(ctx context.Context) error {
	err := l.kill(ctx)
	if errors.Is(err, errNotRunning) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(l.Dir))
}

func (l *local) ctl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, "rabbitmqctl"), args...) //nolint:gosec // the tests' own words
	cmd.Env, cmd.Dir = l.env, l.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return string(out), nil
}
