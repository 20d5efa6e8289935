package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chatclub/internal/rooms/roomstest"
	"chatclub/internal/tools/private"
	"chatclub/loadtest/proc"
)

// Server is a kind of server that a peer may need.
type Server string

// The kinds.
const (
	Redis      Server = "redis"
	PostgreSQL Server = "postgres"
	RabbitMQ   Server = "rabbitmq"
)

// Addresses are of servers that run already.
type Addresses struct {
	Redis      string // used where none can be started
	PostgreSQL string // the same
	RabbitMQ   string // always used, because chatclub's dispatchers use it too
}

// of returns the address of a kind.
func (a Addresses) of(kind Server) string {
	switch kind {
	case Redis:
		return a.Redis
	case PostgreSQL:
		return a.PostgreSQL
	case RabbitMQ:
		return a.RabbitMQ
	}
	return ""
}

// Variable is the environment variable by which programs are told of it.
func (s Server) Variable() string {
	switch s {
	case Redis:
		return "REDIS_URL"
	case PostgreSQL:
		return "DATABASE_URL"
	case RabbitMQ:
		return "AMQP_URL"
	}
	return ""
}

// programs are those of which each kind is started, and what to call it.
func (s Server) program() (path, name string) {
	switch s {
	case Redis:
		path, _ = exec.LookPath("redis-server") // empty: there is none
		return path, "Redis"
	case PostgreSQL:
		if bin := roomstest.Installed(); bin != "" {
			path = filepath.Join(bin, "postgres")
		}
		return path, "PostgreSQL"
	case RabbitMQ:
		return "", "RabbitMQ"
	}
	return "", ""
}

// Have says on which servers the peer will run, in a line; or, as an error, which
// one is missing.
func (p *Peer) Have(ctx context.Context, a Addresses) (string, error) {
	var on []string
	for _, kind := range p.Needs {
		path, name := kind.program()
		address := a.of(kind)
		switch {
		case path != "":
			on = append(on, "a private "+version(ctx, path, name))
		case address == "" && kind == RabbitMQ:
			return "", errors.New("it needs RabbitMQ (-broker amqp://…)")
		case address == "":
			return "", fmt.Errorf("it needs %s: install the server, or give its address (-%s ADDRESS)", name, kind)
		default:
			if err := answers(ctx, address); err != nil {
				return "", fmt.Errorf("it needs %s: none is installed, and none answers: %w", name, err)
			}
			on = append(on, name)
		}
	}
	return strings.Join(on, " and "), nil
}

// version returns a server's name and version.
func version(ctx context.Context, path, name string) string {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return name
	}
	for word := range strings.FieldsSeq(string(out)) {
		word = strings.TrimPrefix(word, "v=") // Redis
		if word[0] >= '0' && word[0] <= '9' {
			return name + " " + word
		}
	}
	return name
}

// answers asks whether something listens at an address.
func answers(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return errors.New("its address cannot be read") // err repeats it, with the password
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", proc.HostPort(u))
	if err != nil {
		return err
	}
	return conn.Close()
}

// Running is a server that serves one run.
type Running struct {
	Kind Server
	URL  string
	pid  int       // 0: not known
	stop io.Closer // nil: it is not ours
	dir  string    // of a private one
	done chan struct{}
}

// CPU is the server's CPU time so far; ok is false where it is not on this machine.
func (r *Running) CPU(t *proc.Table) (used time.Duration, ok bool, err error) {
	if r.pid == 0 {
		return 0, false, nil
	}
	used, err = t.Tree(r.pid)
	return used, true, err
}

// Stop ends a private server and removes its data.
func (r *Running) Stop() error {
	if r.stop == nil {
		return nil
	}
	err := r.stop.Close()
	select {
	case <-r.done:
	case <-time.After(startTimeout):
		err = errors.Join(err, fmt.Errorf("%s did not stop within %v", r.Kind, startTimeout))
	}
	return err
}

// Start starts the servers that the peer needs, or takes those at the addresses.
func (p *Peer) Start(ctx context.Context, a Addresses) (all []*Running, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, r := range all {
			err = errors.Join(err, r.Stop())
		}
	}()
	for _, kind := range p.Needs {
		path, _ := kind.program()
		if path == "" {
			all = append(all, &Running{Kind: kind, URL: a.of(kind), pid: proc.Listener(a.of(kind))})
			continue
		}
		r, err := start(ctx, kind, path)
		if err != nil {
			return all, fmt.Errorf("start %s: %w", kind, err)
		}
		all = append(all, r)
	}
	return all, nil
}

const (
	startTimeout = 60 * time.Second
	startPoll    = 50 * time.Millisecond
)

// start starts a private server in a temporary folder. PostgreSQL has its defaults,
// by which it loses nothing that it has confirmed, and Redis what the makers of
// queues advise.
func start(ctx context.Context, kind Server, path string) (*Running, error) {
	dir, err := os.MkdirTemp("", "loadtest-"+string(kind)+"-")
	if err != nil {
		return nil, err
	}
	r := &Running{Kind: kind, dir: dir, done: make(chan struct{})}
	ports, err := private.Ports(1)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	port := ports[0]
	attr := &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C ends the load test first
	args := []string{path}
	if kind == Redis {
		r.URL = fmt.Sprintf("redis://127.0.0.1:%d/0", port)
		args = append(args, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
			"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction")
	} else {
		r.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
		if attr, err = roomstest.Initialize(ctx, filepath.Dir(path), dir, "LC_ALL=C"); err != nil { // its log is read
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		args = append(args, "-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(port),
			"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=500") // workers may be many
	}
	if err := r.guard(attr, args...); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := r.await(ctx); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

// listening is what both servers log when they can be used. They accept
// connections before that, and refuse what is asked on them.
const listening = "ready to accept connections"

// guard starts the server, which ends with the load test.
func (r *Running) guard(attr *syscall.SysProcAttr, args ...string) error {
	cmd, stop, err := private.Guard(r.dir, attr, args...)
	if err != nil {
		return err
	}
	r.pid, r.stop = cmd.Process.Pid, stop // and with the pid its only child, the server
	go func() {
		defer close(r.done)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return nil
}

// await returns when the server can be used.
func (r *Running) await(ctx context.Context) error {
	for end := time.Now().Add(startTimeout); ; time.Sleep(startPoll) {
		log, err := os.ReadFile(filepath.Join(r.dir, "log"))
		if strings.Contains(strings.ToLower(string(log)), listening) {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("it is not ready after %v: %s%w", startTimeout, lastLine(log), errors.Join(ctx.Err(), err))
		}
	}
}
