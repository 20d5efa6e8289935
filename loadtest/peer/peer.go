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
	"strings"
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
		peers = append(peers, p)
	}
	return peers, nil
}

// read reads the peer.json of a folder.
func read(dir string) (p Peer, err error) {
	file := filepath.Join(dir, fileName)
	b, err := os.ReadFile(file)
	if err != nil {
		return Peer{}, fmt.Errorf("read peer: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err = d.Decode(&p)
	if err == nil && (p.Name == "" || p.Source == "" || len(p.Feed) == 0 || len(p.Work) == 0) {
		err = errors.New("name, source, feed and work must be there")
	}
	for _, s := range p.Needs {
		if s != Redis && s != PostgreSQL {
			err = fmt.Errorf("needs: %.40q is neither %s nor %s", s, Redis, PostgreSQL)
		}
	}
	if err != nil {
		return Peer{}, fmt.Errorf("read %s: %w", file, err)
	}
	p.Dir, err = filepath.Abs(dir)
	return p, err
}

// Prepare makes the peer's programs. The error says in a line why it cannot run.
func (p *Peer) Prepare(ctx context.Context) error {
	for _, program := range p.Programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("it needs %s, which is not on the PATH", program)
		}
	}
	if len(p.Build) == 0 {
		return nil
	}
	cmd := exec.CommandContext(ctx, p.Build[0], p.Build[1:]...) //nolint:gosec // to run it is what the user asks for
	cmd.Dir = p.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("it cannot be built: %s: %w: %.300s", strings.Join(p.Build, " "), err, bytes.TrimSpace(out))
	}
	return nil
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
