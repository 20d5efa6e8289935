package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// fakePeer is the first argument by which this program is started as a program of
// a peer. The second says how it behaves, the third which program it is.
const fakePeer = "fake-peer"

// Ways in which the programs of a peer behave.
const (
	honest = "honest" // does as it should
	cheats = "cheats" // of ten messages a worker drops one, sends one twice, and gives up one
	dies   = "dies"   // the first worker ends by itself after ten messages
	mute   = "mute"   // a worker never says that it is ready
	absent = "absent" // a worker ends at once
	chatty = "chatty" // a worker says something else than that it is ready
	deaf   = "deaf"   // the feeder answers nothing
	short  = "short"  // the feeder answers that it has put less
	babble = "babble" // the feeder answers no JSON
	extra  = "extra"  // the feeder answers twice
	gone   = "gone"   // the feeder ends at the first message
)

// runFakePeer is a peer whose queue is a folder: a message is a file, and the
// folder that it is in says whether it waits, is in hand, or is given up.
func runFakePeer(mode, program string) int {
	q := folderQueue{root: os.Getenv("NAMESPACE"), mode: mode} // in the peer's folder
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	if program == "feed" {
		err = q.feed(os.Stdin)
	} else {
		err = q.work(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// say writes a line for the load test.
func say(line string) { fmt.Fprintln(os.Stdout, line) }

type folderQueue struct{ root, mode string }

func (q folderQueue) dir(state string) string { return filepath.Join(q.root, state) }

// list returns the names in a folder, in order.
func (q folderQueue) list(state string) []string {
	entries, err := os.ReadDir(q.dir(state))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

func (q folderQueue) read(state, name string) (m fed, err error) {
	b, err := os.ReadFile(filepath.Join(q.dir(state), name))
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(b, &m)
}

// move returns false where somebody else was faster.
func (q folderQueue) move(name, from, to string) bool {
	return os.Rename(filepath.Join(q.dir(from), name), filepath.Join(q.dir(to), name)) == nil
}

func (q folderQueue) feed(in io.Reader) error {
	for _, state := range []string{"new", "waiting", "active", "dead"} {
		if err := os.MkdirAll(q.dir(state), 0o700); err != nil {
			return err
		}
	}
	say(readyLine)
	n := 0
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return os.RemoveAll(q.root)
		}
		var c command
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		var a any
		switch {
		case q.mode == deaf:
			continue
		case q.mode == gone:
			return errors.New("I had enough")
		case q.mode == babble:
			say("done!")
			continue
		case q.mode == short:
			a = answer{N: c.N, Put: len(c.Put) - 1}
		case c.Left:
			a, err = q.left(c.N)
		default:
			a, err = q.put(c, &n)
		}
		if err != nil {
			return err
		}
		b, err := json.Marshal(a)
		if err != nil {
			return err
		}
		if say(string(b)); q.mode == extra {
			say(string(b))
		}
	}
}

func (q folderQueue) put(c command, n *int) (any, error) {
	for _, m := range c.Put {
		b, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		*n++
		name := fmt.Sprintf("%08d", *n)
		if err := os.WriteFile(filepath.Join(q.dir("new"), name), b, 0o600); err != nil {
			return nil, err
		}
		q.move(name, "new", "waiting") // whole, whenever a worker looks
	}
	return map[string]any{"n": c.N, "put": len(c.Put)}, nil
}

func (q folderQueue) left(n int) (any, error) {
	found := map[string][]string{"waiting": {}, "dead": {}}
	for state, to := range map[string]string{"waiting": "waiting", "active": "waiting", "dead": "dead"} {
		for _, name := range q.list(state) {
			m, err := q.read(state, name)
			if err != nil {
				return nil, err
			}
			found[to] = append(found[to], m.ID)
		}
	}
	return map[string]any{"n": n, "left": found}, nil
}

// work sends one message after another.
func (q folderQueue) work(ctx context.Context) error {
	switch q.mode {
	case mute:
		<-ctx.Done()
		return nil
	case absent:
		return errors.New("no time")
	case chatty:
		say("hello")
		<-ctx.Done()
		return nil
	}
	say(readyLine)
	for n := 0; ctx.Err() == nil; {
		waiting := q.list("waiting")
		if len(waiting) == 0 {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		for _, name := range waiting[:min(len(waiting), 10)] { // others take some too
			if ctx.Err() != nil || !q.move(name, "waiting", "active") {
				continue
			}
			n++
			if q.mode == dies && n > 10 && os.Getenv("REPLICA") == "0" {
				return errors.New("I had enough")
			}
			if err := q.handle(name, n%10); err != nil {
				return err
			}
		}
	}
	return nil
}

// handle sends a message, the n-th of ten, or cheats.
func (q folderQueue) handle(name string, n int) error {
	m, err := q.read("active", name)
	if err != nil {
		return err
	}
	calls := 1
	if q.mode == cheats {
		switch n {
		case 2:
			calls = 0
		case 4:
			calls = 2
		case 6:
			q.move(name, "active", "dead")
			return nil
		}
	}
	for call := range calls {
		status, err := post(m)
		if err != nil {
			return err
		}
		if status != http.StatusOK && call == 0 { // what was sent once does not come back, where it might be given up
			time.Sleep(20 * time.Millisecond)
			q.move(name, "active", "waiting")
			return nil
		}
	}
	return os.Remove(filepath.Join(q.dir("active"), name))
}

func post(m fed) (status int, err error) {
	req, err := http.NewRequest(http.MethodPost, os.Getenv("GRAPH_URL")+"/"+m.Page+"/messages", strings.NewReader(m.Body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer token-"+m.Page)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Timeout: callTimeout}).Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}
