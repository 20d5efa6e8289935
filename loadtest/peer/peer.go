// Package peer is a system of somebody else's as the load test knows it: the
// programs that a file named peer.json names, and the servers that they need.
// The folder peers has some; its README.md describes the interface. Package fleet runs
// the programs.
package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"chatclub/internal/rooms/roomstest"
)

// Peer is the content of a peer.json.
type Peer struct {
	Name     string   `json:"name"`            // lower case, as in "bullmq"
	Source   string   `json:"source"`          // the system and its configuration, in a line
	Needs    []Server `json:"needs"`           // servers
	Programs []string `json:"programs"`        // that must be on the PATH
	Build    []string `json:"build,omitempty"` // command that makes the programs; empty: nothing need be made
	Feed     []string `json:"feed"`            // command of the feeder
	Work     []string `json:"work"`            // command of a worker

	Dir string `json:"-"` // where the commands run: the folder of peer.json
}

const (
	fileName = "peer.json"
	folder   = "peers" // where the peers of this project are, seen from the module's folder
	everyone = "all"   // the word for all peers there
)

// Find returns the peers of a list such as "bullmq,../my/queue": names of folders
// in peers, or paths of folders. "all" is all in peers, ordered by name.
func Find(list string) (peers []Peer, err error) {
	dirs := strings.Split(list, ",")
	if list == everyone {
		files, err := filepath.Glob(filepath.Join(folder, "*", fileName))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("there is no %s: run it in the folder loadtest", filepath.Join(folder, "*", fileName))
		}
		dirs = nil
		for _, file := range files {
			dirs = append(dirs, filepath.Dir(file))
		}
	}
	for _, dir := range dirs {
		if dir = strings.TrimSpace(dir); filepath.Base(dir) == dir {
			dir = filepath.Join(folder, dir)
		}
		p, err := read(dir)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(peers, func(other Peer) bool { return other.Name == p.Name }) {
			return nil, fmt.Errorf("%s is there twice", p.Name)
		}
		peers = append(peers, p)
	}
	return peers, nil
}

// read reads the peer.json of a folder. The error names every field that is wrong.
func read(dir string) (p Peer, err error) {
	file := filepath.Join(dir, fileName)
	b, err := os.ReadFile(file)
	if err != nil {
		return Peer{}, fmt.Errorf("read peer: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err = d.Decode(&p)
	if err == nil {
		err = p.validate()
	}
	if err != nil {
		return Peer{}, fmt.Errorf("read %s: %w", file, err)
	}
	p.Dir, err = filepath.Abs(dir)
	return p, err
}

var goodName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

func (p *Peer) validate() error {
	var faults []error
	check := func(ok bool, text string) {
		if !ok {
			faults = append(faults, errors.New(text))
		}
	}
	check(goodName.MatchString(p.Name), "name: it must be lower-case letters, digits and -")
	check(p.Source != "" && !strings.Contains(p.Source, "\n"), "source: one line must say what it is and how it is configured")
	for _, s := range p.Needs {
		check(s == Redis || s == PostgreSQL, fmt.Sprintf("needs: %.40q is neither %s nor %s", s, Redis, PostgreSQL))
	}
	check(len(p.Feed) > 0, "feed: a command must be there")
	check(len(p.Work) > 0, "work: a command must be there")
	return errors.Join(faults...)
}

// Prepare makes the peer's programs, and returns on which servers it will run, in a
// line. The error says in a line why it cannot run.
func (p *Peer) Prepare(ctx context.Context) (on string, err error) {
	var servers []string
	for _, kind := range p.Needs {
		path, name := kind.program()
		if path == "" {
			return "", fmt.Errorf("it needs %s, which is not installed", name)
		}
		out, _ := exec.CommandContext(ctx, path, "--version").Output() // without a version it runs too
		version := regexp.MustCompile(`[0-9]+(\.[0-9]+)+`).FindString(string(out))
		servers = append(servers, strings.TrimSpace("a private "+name+" "+version))
	}
	for _, program := range p.Programs {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("it needs %s, which is not on the PATH", program)
		}
	}
	if len(p.Build) > 0 {
		cmd := exec.CommandContext(ctx, p.Build[0], p.Build[1:]...) //nolint:gosec // to run it is what the user asks for
		cmd.Dir = p.Dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("it cannot be built: %s: %w: %.300s", strings.Join(p.Build, " "), err, bytes.TrimSpace(out))
		}
	}
	return strings.Join(servers, " and "), nil
}

// Server is a kind of server that a peer may need.
type Server string

// The kinds.
const (
	Redis      Server = "redis"
	PostgreSQL Server = "postgres"
)

// Variable is the environment variable by which programs are told of it.
func (s Server) Variable() string {
	if s == Redis {
		return "REDIS_URL"
	}
	return "DATABASE_URL"
}

// program is the one that is started, empty where it is not installed, and its name.
func (s Server) program() (path, name string) {
	if s == Redis {
		path, _ = exec.LookPath("redis-server") // empty: there is none
		return path, "Redis"
	}
	if bin := roomstest.Installed(); bin != "" {
		path = filepath.Join(bin, "postgres")
	}
	return path, "PostgreSQL"
}

// Listening is the text that both servers log when they can be used, in lower case. They
// accept connections before that, and refuse all that is asked on them.
const Listening = "ready to accept connections"

// Command prepares a private server at a port, with its data in a folder, and returns its
// address and its command. PostgreSQL has its defaults, by which it loses nothing that it
// has confirmed, and Redis the settings that the makers of queues advise.
func (s Server) Command(ctx context.Context, dir string, port int) (url string, command func() *exec.Cmd, err error) {
	path, _ := s.program()
	args, attr, number := []string(nil), &syscall.SysProcAttr{}, strconv.Itoa(port)
	switch s {
	case Redis:
		url = "redis://127.0.0.1:" + number + "/0"
		args = []string{"--bind", "127.0.0.1", "--port", number, "--dir", dir, "--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction"}
	case PostgreSQL:
		url = "postgres://postgres@127.0.0.1:" + number + "/postgres?sslmode=disable"
		args = []string{
			"-D", filepath.Join(dir, "data"), "-p", number,
			"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=500", // workers may be many
		}
		if attr, err = roomstest.Initialize(ctx, filepath.Dir(path), dir, "LC_ALL=C"); err != nil { // its log is read
			return "", nil, err
		}
	}
	return url, func() *exec.Cmd {
		cmd := exec.Command(path, args...) //nolint:noctx // a server that was found; it outlives the call
		cmd.Dir, cmd.SysProcAttr = dir, attr
		return cmd
	}, nil
}
