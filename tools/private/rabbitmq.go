package private

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"chatclub/tools/program"
)

// Supported reports whether chatclub works with a RabbitMQ of a version, such as
// 4.0.5: with 4.0 and later.
func Supported(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 4
}

// packaged is the path of the server's own script in the packages. Their script
// on PATH changes to another user.
const packaged = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// installed returns the folder of this machine's rabbitmq-server and rabbitmqctl, if
// they are new enough.
func installed(packaged string) (bin string, err error) {
	server, err := program.Find(packaged, "rabbitmq-server")
	if err != nil {
		return "", errors.New("rabbitmq-server is not installed")
	}
	if server, err = filepath.EvalSymlinks(server); err != nil {
		return "", err
	}
	bin = filepath.Dir(server)
	if v := version(bin); !Supported(v) {
		return "", fmt.Errorf("rabbitmq-server %s is installed, and 4.0 or later is needed", cmp.Or(v, "of an unknown version"))
	}
	return bin, nil
}

// version is that of a server, read from the name of its plugin rabbit: to ask
// rabbitmqctl would take a second of processor time. It is empty where there is none.
func version(bin string) string {
	found, err := filepath.Glob(filepath.Join(bin, "..", "plugins", "rabbit-[0-9]*"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return strings.TrimPrefix(filepath.Base(found[0]), "rabbit-")
}

// Host is the host of every node, as RabbitMQ calls it.
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

// LastWords is the end of the server's output.
func (n *Node) LastWords() string {
	out, err := os.ReadFile(filepath.Join(n.Dir, "server.log"))
	if err != nil || len(bytes.TrimSpace(out)) == 0 {
		return "it printed nothing"
	}
	return string(bytes.TrimSpace(out[max(0, len(out)-500):]))
}
