package roomstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chatclub/tools/private"
	"chatclub/tools/program"
)

const (
	// startLimit bounds the start of a server, which takes 0.2 s, and some seconds
	// on a loaded machine.
	startLimit = 60 * time.Second
	// startPoll is the time between two questions whether the server answers.
	startPoll = 50 * time.Millisecond
)

// programs returns the folder of initdb and postgres. It installs them if they
// are missing and it can.
func programs() (string, error) {
	if bin := Installed(); bin != "" {
		return bin, nil
	}
	const advice = "start one and set " + URLVariable + ", or install it (Debian: apt-get install postgresql)"
	if _, err := program.Find("apt-get"); err != nil || os.Geteuid() != 0 {
		return "", errors.New("no server answers on 127.0.0.1:5432 and none is installed: " + advice)
	}
	fmt.Fprintln(os.Stderr, "roomstest: no PostgreSQL is installed: running apt-get install postgresql")
	for _, args := range [][]string{{"update"}, {"install", "-y", "--no-install-recommends", "postgresql"}} {
		if err := private.Apt(context.Background(), args...); err != nil { // half an installation is worse than waiting for it
			return "", fmt.Errorf("apt-get %w; %s", err, advice)
		}
	}
	if bin := Installed(); bin != "" {
		return bin, nil
	}
	return "", errors.New("apt-get installed no initdb: " + advice)
}

// Installed returns the newest folder with initdb and postgres, or "".
func Installed() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is well formed
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	if path, err := program.Find("initdb"); err == nil {
		found = append(found, path)
	}
	for _, path := range found {
		bin := filepath.Dir(path)
		if _, err := os.Stat(filepath.Join(bin, "postgres")); err == nil {
			return bin
		}
	}
	return ""
}

// version returns 15 for /usr/lib/postgresql/15/bin/initdb.
func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb)))) // 0 if it is no number
	return n
}

// start creates a database cluster in a temporary folder and serves it on a Unix
// socket there. The server does not sync, since no data outlives the process.
func start(bin string) (server, error) {
	dir, err := os.MkdirTemp("", "chatclub-pg-")
	if err != nil {
		return server{}, err
	}
	attr, err := Initialize(context.Background(), bin, dir)
	if err != nil {
		return server{}, err
	}
	_, stop, err := private.Guard(dir, attr, filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-k", dir,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "jit=off", "-c", "max_connections=200")
	if err != nil {
		return server{}, err
	}
	base := (&url.URL{
		Scheme: "postgres", User: url.User("postgres"), Path: "/postgres",
		RawQuery: url.Values{"host": {dir}}.Encode(),
	}).String()
	for begin := time.Now(); ; time.Sleep(startPoll) {
		if err = execute(base, "SELECT 1"); err == nil {
			return server{base: base, guard: stop}, nil
		}
		if time.Since(begin) > startLimit {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			return server{}, fmt.Errorf("no answer after %v: %w: %s", startLimit, err, lastLine(log))
		}
	}
}

// Initialize makes a database cluster in the folder data of a folder, by the initdb in
// bin, and returns the attributes to start its server with. env is added to the
// environment. Only the server need sync its writes.
func Initialize(ctx context.Context, bin, dir string, env ...string) (*syscall.SysProcAttr, error) {
	attr, err := unprivileged(dir)
	if err != nil {
		return nil, err
	}
	_, err = program.Run(ctx, program.Command{
		Path: filepath.Join(bin, "initdb"), Args: []string{"-D", filepath.Join(dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"},
		Dir: dir, Env: append(os.Environ(), env...), Attr: attr,
	})
	return attr, err
}

// unprivileged returns the attributes to start PostgreSQL with. It refuses to run
// as root, so if this process is root, an ordinary user gets dir and the process.
// The process gets a group of its own, so that Ctrl-C ends the tests first.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() != 0 {
		return attr, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, err
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return attr, os.Chown(dir, int(uid), int(gid))
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

func lastLine(out []byte) string {
	lines := strings.Split(string(bytes.TrimSpace(out)), "\n")
	return lines[len(lines)-1]
}
