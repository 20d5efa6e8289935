package proc

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// HostPort is where the server of an address listens. One without a port has its
// scheme's.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{
			"amqp": "5672", "amqps": "5671", "redis": "6379", "rediss": "6379", "postgres": "5432", "postgresql": "5432",
		}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Listener is the process on this machine that listens at an address's port; 0
// when there is none, or it may not be looked at, or this is not Linux.
func Listener(address string) int {
	u, err := url.Parse(address)
	if err != nil || !local(u.Hostname()) {
		return 0
	}
	_, text, err := net.SplitHostPort(HostPort(u))
	if err != nil {
		return 0
	}
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

func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// listening is the inode of the socket that listens at a port.
func listening(table string, port int) string {
	f, err := os.Open(table)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	want := fmt.Sprintf(":%04X", port)
	const listen = "0A" // TCP_LISTEN
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
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
			pid, err := strconv.Atoi(strings.Split(f, "/")[2])
			if err == nil {
				return pid
			}
		}
	}
	return 0
}
