package faults

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chatclub/internal/queue/rabbit"
	"chatclub/loadtest/fleet"
	"chatclub/tools/private"
)

// nodes is a RabbitMQ of several nodes that run here, each a process with a
// folder and ports of its own on the loopback address alone. They share one epmd.
type nodes struct {
	bin     string // folder of rabbitmq-server and rabbitmqctl
	list    []private.Node
	servers []*fleet.Process
	version string
}

// nodeCount is the least of which one can be cut off while the others carry on.
const nodeCount = 3

// tick is net_ticktime, after which a silent node is given up. docs/operate.md advises
// it.
const tick = 10 * time.Second

// startNodes starts the nodes, the first before the others, which join it, and returns
// when all know each other. They end with the group.
func startNodes(ctx context.Context, g *fleet.Group) (_ *nodes, err error) {
	const n = nodeCount
	c := &nodes{}
	if c.bin, err = private.RabbitMQ(ctx, io.Discard); err != nil {
		return nil, err
	}
	ports, err := private.Ports(2*n + 1)
	if err != nil {
		return nil, err
	}
	epmd := g.Command("epmd", func() *exec.Cmd {
		path, err := exec.LookPath(filepath.Join(c.bin, "epmd")) // beside a RabbitMQ that was unpacked
		if err != nil {
			path = "epmd"
		}
		return exec.Command(path, "-port", strconv.Itoa(ports[2*n]), "-address", "127.0.0.1") //nolint:noctx // Erlang's; it outlives the start
	})
	epmd.Alive = func(ctx context.Context) error { return fleet.Listens(ctx, ports[2*n]) }
	if err := epmd.Start(ctx); err != nil {
		return nil, err
	}
	cookie, conf := rand.Text(), ""
	for i := range n {
		node := private.Node{Name: fmt.Sprintf("rabbit%d", i+1), Dir: filepath.Join(g.Dir, fmt.Sprintf("rabbit%d", i+1)), Port: ports[2*i], Dist: ports[2*i+1], EPMD: ports[2*n]}
		c.list = append(c.list, node)
		// Each is told of itself and of those that start before it, which it joins. The
		// first is told of nobody: RabbitMQ 4 would wait for a second node.
		conf += fmt.Sprintf("cluster_formation.classic_config.nodes.%d = %s@%s\n", i+1, node.Name, private.Host)
		if err := write(node, cookie, conf, i > 0); err != nil {
			return nil, fmt.Errorf("write the settings of %s: %w", node.Name, err)
		}
		env := append(node.Env(), "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}")
		p := g.Command(node.Name, func() *exec.Cmd {
			cmd := exec.Command(filepath.Join(c.bin, "rabbitmq-server")) //nolint:gosec,noctx // it outlives the start
			cmd.Env, cmd.Dir = env, node.Dir
			return cmd
		})
		p.Alive = func(ctx context.Context) (err error) {
			c.version, err = rabbit.Version(ctx, "amqp://guest:guest@"+addr(node.Port))
			return err
		}
		c.servers = append(c.servers, p)
	}
	for i := range c.servers {
		if err := c.start(ctx, i); err != nil {
			return nil, err
		}
	}
	err = c.ctl(ctx, 0, "await_online_nodes", strconv.Itoa(n))
	return c, err
}

// write writes a node's settings.
func write(n private.Node, cookie, peers string, joins bool) error {
	conf := fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%d\ncluster_partition_handling = pause_minority\nnet_ticktime = %d\n", n.Port, int(tick.Seconds()))
	if joins {
		conf += "cluster_formation.peer_discovery_backend = classic_config\n" + peers
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	var faults []error
	for name, text := range map[string]string{"rabbitmq.conf": conf, "enabled_plugins": "[].\n", ".erlang.cookie": cookie} {
		faults = append(faults, os.WriteFile(filepath.Join(n.Dir, name), []byte(text), 0o400)) // Erlang refuses a cookie that others may read
	}
	return errors.Join(faults...)
}

func addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// start starts a node and returns when it answers. One that ends while it boots is
// started again, as systemd does: where all nodes of a cluster boot at once, RabbitMQ 4.0
// may end one of them (a case_clause in rabbit_mnesia), and the others wait for it.
func (c *nodes) start(ctx context.Context, i int) (err error) {
	const boots = 3
	for range boots {
		if err = c.servers[i].Start(ctx); err == nil || ctx.Err() != nil {
			break
		}
		c.servers[i].Failures() // of the boots before
	}
	return err
}

// ctl runs rabbitmqctl on a node.
func (c *nodes) ctl(ctx context.Context, i int, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "rabbitmqctl"), append([]string{"-q"}, args...)...) //nolint:gosec // our own words
	cmd.Env, cmd.Dir = c.list[i].Env(), c.list[i].Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("rabbitmqctl %s on %s: %w: %s", args[0], c.list[i].Name, err, bytes.TrimSpace(out))
	}
	return nil
}

// cutOff has a node and the others refuse each other, until rejoin: they have another
// cookie for each other, and their connections end. Programs reach it as before.
func (c *nodes) cutOff(ctx context.Context, i int) error {
	return c.eachOther(ctx, i, "erlang:set_cookie('%[1]s', cut_off), erlang:disconnect_node('%[1]s')")
}

// rejoin ends cutOff. The nodes find each other by themselves.
func (c *nodes) rejoin(ctx context.Context, i int) error {
	return c.eachOther(ctx, i, "erlang:set_cookie('%[1]s', erlang:get_cookie()), net_kernel:connect_node('%[1]s')")
}

// eachOther evaluates an expression about each other node on a node.
func (c *nodes) eachOther(ctx context.Context, i int, expression string) error {
	var list []string
	for k, n := range c.list {
		if k != i {
			list = append(list, fmt.Sprintf(expression, n.Name+"@"+private.Host))
		}
	}
	return c.ctl(ctx, i, "eval", strings.Join(list, ", ")+".")
}

// alarms is the table of rabbitmqctl's settings with which a node takes no messages, each
// with RabbitMQ's own value: the share of memory that it may use, and the bytes of disk that
// must be free.
var alarms = map[Action][3]string{ //nolint:exhaustive // the others are no alarms
	MemoryAlarm: {"set_vm_memory_high_watermark", "0.0000001", "0.4"},
	DiskAlarm:   {"set_disk_free_limit", "1000000000000000", "50MB"},
}

// begin makes one node fail, or all.
func (c *nodes) begin(ctx context.Context, s Step) (end func(context.Context) error, err error) {
	var which []int
	for i := range c.list {
		if s.Fault.All || i == s.Pick%len(c.list) {
			which = append(which, i)
		}
	}
	signal := func(sig syscall.Signal) error {
		return fleet.Each(which, func(i int) error { return c.servers[i].Signal(sig) })
	}
	start := func(ctx context.Context) error {
		return fleet.Each(which, func(i int) error { return c.start(ctx, i) })
	}
	switch s.Fault.Action { //nolint:exhaustive // the others are not of nodes
	case Kill:
		return start, fleet.Each(which, func(i int) error { return c.servers[i].Kill() })
	case Stop:
		return start, fleet.Each(which, func(i int) error { return c.servers[i].Stop() })
	case Freeze:
		return func(context.Context) error { return signal(syscall.SIGCONT) }, signal(syscall.SIGSTOP)
	case CutOff:
		return func(ctx context.Context) error { return c.rejoin(ctx, which[0]) }, c.cutOff(ctx, which[0])
	case CloseTwice:
		closeAll := func(ctx context.Context) error { return c.ctl(ctx, 0, "close_all_connections", "a fault is made") }
		return closeAll, closeAll(ctx)
	case MemoryAlarm, DiskAlarm:
		a := alarms[s.Fault.Action]
		return func(ctx context.Context) error { return c.ctl(ctx, which[0], a[0], a[2]) }, c.ctl(ctx, which[0], a[0], a[1])
	}
	return nil, fmt.Errorf("%s cannot be made to nodes", s.Fault.Action)
}
