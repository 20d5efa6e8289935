// Package proc reads the use that other processes have made of the machine so far: CPU
// time and memory. It reads /proc, which only Linux has, and which counts CPU time in
// steps of 10 ms.
package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Peak is the most of the machine's memory that a process has held, in bytes.
func Peak(pid int) (int64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.New("read memory: no VmHWM")
}

// Tree is the CPU time of a process and of all that descend from it, those that
// have ended and were waited for included. It serves programs that work in several
// processes, as PostgreSQL does.
func Tree(pid int) (sum time.Duration, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	times, children := make(map[int]time.Duration), make(map[int][]int)
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // no process
		}
		if parent, used, err := stat(id); err == nil { // otherwise it has ended meanwhile
			times[id] = used
			children[parent] = append(children[parent], id)
		}
	}
	if _, ok := times[pid]; !ok {
		return 0, fmt.Errorf("read CPU time: there is no process %d", pid)
	}
	for left := []int{pid}; len(left) > 0; {
		next := left[len(left)-1]
		left = append(left[:len(left)-1], children[next]...)
		sum += times[next]
	}
	return sum, nil
}

// ticks is the number of steps in which the kernel counts a second of CPU time:
// USER_HZ, which is 100 on every Linux that Go runs on.
const ticks = 100

// stat reads a process's parent, and its CPU time with that of its children that were
// waited for. The second field, the program's name, may hold anything, even ") ".
func stat(pid int) (parent int, used time.Duration, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 15 {
		return 0, 0, errors.New("/proc/PID/stat has another form")
	}
	if parent, err = strconv.Atoi(fields[1]); err != nil {
		return 0, 0, err
	}
	for _, f := range fields[11:15] { // utime, stime, cutime and cstime, the 14th to 17th of all
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		used += time.Duration(n) * time.Second / ticks
	}
	return parent, used, nil
}

// HostPort is where the server of an address listens. One without a port has its
// scheme's.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{
			"amqp": "5672", "amqps": "5671", "postgres": "5432", "postgresql": "5432",
		}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Listener is the process on this machine that listens at an address's port; 0
// when there is none, or it may not be looked at, or this is not Linux.
func Listener(address string) int {
	u, err := url.Parse(address)
	if err != nil {
		return 0
	}
	ip := net.ParseIP(u.Hostname())
	if u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return 0
	}
	_, text, _ := net.SplitHostPort(HostPort(u)) // it was joined just now
	port, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if inode := listening(table, port); inode != "" {
			return holder("socket:[" + inode + "]")
		}
	}
	return 0
}

// listening is the inode of the socket that listens at a port.
func listening(table string, port int) string {
	b, err := os.ReadFile(table)
	if err != nil {
		return ""
	}
	want := fmt.Sprintf(":%04X", port)
	const listen = "0A" // TCP_LISTEN
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) > 9 && strings.HasSuffix(fields[1], want) && fields[3] == listen {
			return fields[9]
		}
	}
	return ""
}

// holder is the process that has a file open.
func holder(name string) int {
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0
	}
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil && to == name {
			pid, _ := strconv.Atoi(strings.Split(f, "/")[2]) // as the pattern says
			return pid
		}
	}
	return 0
}
