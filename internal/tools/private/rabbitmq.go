package private

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// RabbitMQ returns the folder of rabbitmq-server and rabbitmqctl on this machine. The
// script of the Debian package on PATH changes to another user; the one in the
// package's folder does not.
func RabbitMQ() (bin string, err error) {
	server, err := exec.LookPath("/usr/lib/rabbitmq/bin/rabbitmq-server")
	if err != nil {
		server, err = exec.LookPath("rabbitmq-server")
	}
	if err != nil {
		return "", errors.New("rabbitmq-server is not installed")
	}
	return filepath.Dir(server), nil
}

// Host is where every node lives, as RabbitMQ calls it.
const Host = "localhost"

// Node is a RabbitMQ that listens on the loopback address alone. Its settings are
// the files rabbitmq.conf and enabled_plugins in its folder; it prints to server.log.
type Node struct {
	Name string // without the host
	Dir  string // for settings, data and logs
	Port int    // for programs
	Dist int    // for other nodes, and rabbitmqctl
	EPMD int    // of the port mapper that knows it
}

// Env is the environment of the server and of rabbitmqctl, with nothing of the
// machine's own RabbitMQ in it.
func (n *Node) Env() []string {
	in := func(name string) string { return filepath.Join(n.Dir, name) }
	return []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + n.Dir,
		"ERL_EPMD_PORT=" + strconv.Itoa(n.EPMD), "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("enabled_plugins"),
		"RABBITMQ_NODENAME=" + n.Name + "@" + Host, "RABBITMQ_NODE_PORT=" + strconv.Itoa(n.Port),
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_DIST_PORT=" + strconv.Itoa(n.Dist),
		"RABBITMQ_MNESIA_BASE=" + in("data"), "RABBITMQ_LOG_BASE=" + in("log"), "RABBITMQ_PID_FILE=" + in("pid"),
	}
}

// LastWords is the end of what the server printed.
func (n *Node) LastWords() string {
	out, err := os.ReadFile(filepath.Join(n.Dir, "server.log"))
	if err != nil || len(bytes.TrimSpace(out)) == 0 {
		return "it printed nothing"
	}
	return string(bytes.TrimSpace(out[max(0, len(out)-500):]))
}
