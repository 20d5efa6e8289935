package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chatclub/internal/tools/private"
)

// node is one server of the cluster.
type node struct {
	private.Node
	bin     string // folder of rabbitmq-server and rabbitmqctl
	mapper  *mapper
	started func(pid int) // tells the guard
	ended   func(pid int)

	cmd  *exec.Cmd // nil while it does not run
	done chan struct{}
}

// bootTimeout bounds a server's start: 4 to 10 s alone, more on a busy machine.
const bootTimeout = 3 * time.Minute

// write writes the node's settings. peers are the nodes that are in the cluster once
// this one has joined, itself included.
func (n *node) write(cookie string, peers []string, tick time.Duration) error {
	var conf strings.Builder
	fmt.Fprintf(&conf, "listeners.tcp.1 = 127.0.0.1:%d\ncluster_partition_handling = pause_minority\n", n.Port)
	if len(peers) > 1 {
		conf.WriteString("cluster_formation.peer_discovery_backend = classic_config\n")
		for i, p := range peers {
			fmt.Fprintf(&conf, "cluster_formation.classic_config.nodes.%d = %s\n", i+1, p)
		}
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"rabbitmq.conf": conf.String(), "enabled_plugins": "[].\n", ".erlang.cookie": cookie,
		"advanced.config": fmt.Sprintf("[{kernel, [{net_ticktime, %d}]}].\n", int(tick.Seconds())),
	} {
		mode := os.FileMode(0o600)
		if name == ".erlang.cookie" {
			mode = 0o400 // Erlang refuses a cookie that others may read
		}
		if err := os.WriteFile(filepath.Join(n.Dir, name), []byte(text), mode); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) env() []string {
	return append(n.Env(), "RABBITMQ_ADVANCED_CONFIG_FILE="+filepath.Join(n.Dir, "advanced.config"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}")
}

func (n *node) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.Port)) }

// start starts the server and returns when it answers. It may have all the files
// that this machine allows: a quorum queue takes three.
func (n *node) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	out, err := os.OpenFile(filepath.Join(n.Dir, "server.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", n.Name, err)
	}
	defer func() { _ = out.Close() }() // the server has one of its own
	server := filepath.Join(n.bin, "rabbitmq-server")
	cmd := exec.Command("/bin/sh", "-c", `ulimit -n "$(ulimit -Hn)" 2>/dev/null; exec "$0"`, server) //nolint:noctx // it outlives ctx
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = n.env(), n.Dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.Name, err)
	}
	n.started(cmd.Process.Pid)
	n.cmd, n.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		_ = cmd.Wait() // how it ended does not matter: we end it
		n.ended(cmd.Process.Pid)
		close(done)
	}(n.done)
	for {
		_, err := hello(ctx, n.addr())
		if err == nil {
			return nil
		}
		select {
		case <-n.done:
			return fmt.Errorf("%s ended at its start: %s", n.Name, n.LastWords())
		case <-ctx.Done():
			return fmt.Errorf("%s did not answer in time (%w): %s", n.Name, err, n.LastWords())
		case <-time.After(200 * time.Millisecond): // a poll of another process
		}
	}
}

// stopTimeout bounds an orderly stop, which hands leaders over.
const stopTimeout = 90 * time.Second

// stop ends the server in order: its script passes SIGTERM on.
func (n *node) stop(ctx context.Context) error {
	if n.cmd == nil {
		return nil
	}
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", n.Name, err)
	}
	var err error
	select {
	case <-n.done:
	case <-ctx.Done():
	case <-time.After(stopTimeout):
		err = fmt.Errorf("%s did not stop within %v", n.Name, stopTimeout)
	}
	return errors.Join(err, n.kill()) // what is left of its group
}

// signal sends one to all of the server's processes.
func (n *node) signal(s syscall.Signal) error {
	if n.cmd == nil {
		return fmt.Errorf("signal %s: it does not run", n.Name)
	}
	if err := syscall.Kill(-n.cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s: %w", n.Name, err)
	}
	return nil
}

// kill ends it at once. That it does not run is no error.
func (n *node) kill() error {
	if n.cmd == nil {
		return nil
	}
	err := n.signal(syscall.SIGKILL)
	<-n.done
	n.cmd = nil
	return err
}

// ctl runs rabbitmqctl on the node.
func (n *node) ctl(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(n.bin, "rabbitmqctl"), append([]string{"-q"}, args...)...) //nolint:gosec // our own words
	cmd.Env, cmd.Dir = n.env(), n.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("rabbitmqctl %s on %s: %w: %s", args[0], n.Name, err, bytes.TrimSpace(out))
	}
	return nil
}

// hello opens a connection as AMQP 0-9-1 begins, and returns the version that the
// server tells in its first frame.
func hello(ctx context.Context, addr string) (version string, err error) {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "AMQP\x00\x00\x09\x01"); err != nil {
		return "", err
	}
	var head [7]byte // type, channel, size
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return "", err
	}
	const most = 1 << 16
	frame := make([]byte, min(binary.BigEndian.Uint32(head[3:]), most))
	if _, err := io.ReadFull(c, frame); err != nil {
		return "", err
	}
	_, value, ok := bytes.Cut(frame, []byte("\x07versionS")) // a field of the table: its name, then a long string
	if !ok || len(value) < 4 {
		return "", errors.New("the server does not tell its version")
	}
	size := binary.BigEndian.Uint32(value)
	if int(size) > len(value)-4 {
		return "", errors.New("the server does not tell its version")
	}
	return string(value[4 : 4+size]), nil
}
