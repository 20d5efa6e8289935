// Package peer is a system of somebody else's as the load test knows it: the
// programs that a file named peer.json names, and the servers that they need.
// The folder peers has some; its README.md describes the interface. What runs the
// programs is package fleet.
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
	"strings"
)

// Peer is what a peer.json says.
type Peer struct {
	Name     string   `json:"name"`             // lower case, as in "bullmq"
	Source   string   `json:"source"`           // what it is and how it is configured, in a line
	Caveat   string   `json:"caveat,omitempty"` // which of its figures are not to be compared, in a sentence; empty: all are
	Needs    []Server `json:"needs"`            // servers
	Programs []string `json:"programs"`         // that must be on the PATH
	Build    []string `json:"build,omitempty"`  // command that makes the programs; empty: nothing need be made
	Feed     []string `json:"feed"`             // command of the feeder
	Work     []string `json:"work"`             // command of a worker

	Dir string `json:"-"` // where the commands run: the folder of peer.json
}

// fileName is the file's name in a peer's folder.
const fileName = "peer.json"

// Everyone is the word for all peers of the folder peers.
const Everyone = "all"

// folder is where the peers of this project are, seen from the module's folder.
const folder = "peers"

// Find returns the peers of a list such as "bullmq,../my/queue": names of folders
// in peers, or paths of folders. Everyone is all in peers, ordered by name.
func Find(list string) (peers []Peer, err error) {
	if list == Everyone {
		files, err := filepath.Glob(filepath.Join(folder, "*", fileName))
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("there is no %s: run it in the folder loadtest", filepath.Join(folder, "*", fileName))
		}
		for _, file := range files {
			p, err := Read(filepath.Dir(file))
			if err != nil {
				return nil, err
			}
			peers = append(peers, p)
		}
		return peers, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		dir := strings.TrimSpace(name)
		if filepath.Base(dir) == dir {
			dir = filepath.Join(folder, dir)
		}
		p, err := Read(dir)
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

// Read reads the peer.json of a folder. The error names every field that is wrong.
func Read(dir string) (p Peer, err error) {
	file := filepath.Join(dir, fileName)
	b, err := os.ReadFile(file)
	if err != nil {
		return Peer{}, fmt.Errorf("read peer: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Peer{}, fmt.Errorf("read %s: %w", file, err)
	}
	if p.Dir, err = filepath.Abs(dir); err != nil {
		return Peer{}, fmt.Errorf("read peer: %w", err)
	}
	if err := p.validate(); err != nil {
		return Peer{}, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

var goodName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

func (p *Peer) validate() error {
	var faults []error
	if !goodName.MatchString(p.Name) {
		faults = append(faults, fmt.Errorf("name: %.40q must be lower-case letters, digits and -", p.Name))
	}
	if p.Source == "" || strings.Contains(p.Source, "\n") {
		faults = append(faults, errors.New("source: one line must say what it is and how it is configured"))
	}
	for _, s := range p.Needs {
		if !slices.Contains([]Server{Redis, PostgreSQL, RabbitMQ}, s) {
			faults = append(faults, fmt.Errorf("needs: %.40q is none of %s, %s, %s", s, Redis, PostgreSQL, RabbitMQ))
		}
	}
	for name, command := range map[string][]string{"feed": p.Feed, "work": p.Work} {
		if len(command) == 0 {
			faults = append(faults, fmt.Errorf("%s: a command must be there", name))
		}
	}
	return errors.Join(faults...)
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
	cmd := p.command(ctx, p.Build)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("it cannot be built: %s: %w%s", strings.Join(p.Build, " "), err, complaint(out))
	}
	return nil
}

// Feeder is the command of the feeder.
func (p *Peer) Feeder(ctx context.Context) *exec.Cmd { return p.command(ctx, p.Feed) }

// Worker is the command of one worker.
func (p *Peer) Worker(ctx context.Context) *exec.Cmd { return p.command(ctx, p.Work) }

// command is one of the peer's, in its folder.
func (p *Peer) command(ctx context.Context, words []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // to run it is what the user asks for
	cmd.Dir = p.Dir
	return cmd
}

// complaint returns, behind a colon, the first lines that speak of an error, the
// last where none does; nothing of no output.
func complaint(out []byte) string {
	const most = 3
	var list []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(strings.ToLower(line), "error") && len(list) < most {
			list = append(list, strings.TrimSpace(line))
		}
	}
	if list == nil {
		list = []string{lastLine(out)}
	}
	return strings.TrimSuffix(": "+strings.Join(list, "; "), ": ")
}

// lastLine returns the last line that says something.
func lastLine(out []byte) string {
	lines := strings.Split(string(bytes.TrimSpace(out)), "\n")
	return lines[len(lines)-1]
}
