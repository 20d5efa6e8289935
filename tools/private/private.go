// Package private starts servers of one's own beside others of this machine: it finds
// ports for them, ends them with the process that started them, and keeps the
// machine's settings from RabbitMQ's. It is for tests and load tests.
package private

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
)

// next is what the next port is reckoned from.
var next = func() *atomic.Uint32 {
	n := new(atomic.Uint32)
	n.Store(rand.Uint32())
	return n
}()

// Ports returns ports that are free now. They lie below those that systems give to a
// program that asks for any port (from 32768 on Linux): a server takes seconds until it
// listens, and restarts, while others open ports. They come in turn, so that none is
// given again meanwhile, from a part for each process, of which there are twelve.
func Ports(n int) ([]int, error) {
	const parts, size = 12, 1000
	lowest := 20000 + os.Getpid()%parts*size
	var ports []int
	for range size {
		port := lowest + int(next.Add(1)%size)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // returns at once
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() //nolint:gocritic // all together, so that they differ
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("found no %d free ports from %d to %d", n, lowest, lowest+size)
}

// guardian runs a server until its standard input ends, and then removes the folder.
// The input ends when the process at its other end does, in whatever way.
const guardian = `
dir=$1; shift
"$@" >"$dir/log" 2>&1 </dev/null &
server=$!
cat >/dev/null
kill -INT $server
wait $server
rm -rf "$dir"`

// Guard starts a server, whose command args are, in a folder of its own, to which it
// logs in the file log. The server is the only child of the process returned. It ends
// when stop is closed, or collected as garbage, and takes the folder with it.
func Guard(dir string, attr *syscall.SysProcAttr, args ...string) (cmd *exec.Cmd, stop io.Closer, err error) {
	cmd = exec.Command("/bin/sh", append([]string{"-c", guardian, "guardian", dir}, args...)...) //nolint:noctx // a constant script; it ends when its stdin does
	cmd.Dir, cmd.SysProcAttr = dir, attr
	if stop, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return cmd, stop, nil
}
