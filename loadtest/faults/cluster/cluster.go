// Package cluster is a RabbitMQ of one or several nodes that run here, started for
// one run and removed after it. Its nodes can be killed, stopped, frozen and cut
// off from each other.
//
// The nodes are servers of the rabbitmq-server package, each with a folder, ports
// and a cookie of its own, on the loopback address alone. They reach each other by
// links of package link. For that each has a port mapper of ours in epmd's place.
package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"chatclub/internal/tools/private"
	"chatclub/loadtest/faults/link"
)

// tick is net_ticktime, after which a node that is not heard of is given up. It is
// what docs/operate.md advises.
const tick = 10 * time.Second

// Config says what to start.
type Config struct {
	Dir     string // for data, settings and logs
	Bin     string // folder of rabbitmq-server and rabbitmqctl; empty: the installed ones
	Nodes   int
	Proxies *link.Proxies
	Started func(pid int) // called with each process group that begins, for whoever ends it if this program cannot
	Ended   func(pid int)
}

// Cluster is one that runs. Its methods may be called at once for different nodes.
type Cluster struct {
	nodes   []*node
	links   map[[2]string]*link.Link // from one node to another
	version string
}

// Start starts the nodes, the first before the others, which join it, and returns
// when all know each other. The caller ends it with Close, also after an error.
func Start(ctx context.Context, cfg Config) (c *Cluster, err error) {
	c = &Cluster{links: make(map[[2]string]*link.Link)}
	if cfg.Bin == "" {
		if cfg.Bin, err = private.RabbitMQ(); err != nil {
			return c, err
		}
	}
	ports, err := private.Ports(2 * cfg.Nodes)
	if err != nil {
		return c, err
	}
	r := &registry{nodes: make(map[string]alive), way: c.way}
	for i := range cfg.Nodes {
		n := &node{
			Node: private.Node{Name: fmt.Sprintf("rabbit%d", i+1), Port: ports[2*i], Dist: ports[2*i+1]},
			bin:  cfg.Bin, started: cfg.Started, ended: cfg.Ended,
		}
		n.Dir = filepath.Join(cfg.Dir, n.Name)
		if n.mapper, err = newMapper(n.Name, r); err != nil {
			return c, err
		}
		n.EPMD = n.mapper.port()
		c.nodes = append(c.nodes, n)
	}
	if err := c.connect(cfg.Proxies); err != nil {
		return c, err
	}
	if err := c.write(rand.Text()); err != nil {
		return c, err
	}
	for _, n := range c.nodes {
		if err := n.start(ctx); err != nil {
			return c, err
		}
	}
	if c.version, err = hello(ctx, c.nodes[0].addr()); err != nil {
		return c, fmt.Errorf("ask %s for its version: %w", c.nodes[0].Name, err)
	}
	if cfg.Nodes > 1 {
		err = c.nodes[0].ctl(ctx, "await_online_nodes", fmt.Sprint(cfg.Nodes))
	}
	return c, err
}

// write writes the nodes' settings. Each is told of itself and of those that start
// before it, which it joins. The first is told of nobody: RabbitMQ 4 would wait for
// a second node.
func (c *Cluster) write(cookie string) error {
	var peers []string
	for _, n := range c.nodes {
		peers = append(peers, n.Name+"@"+private.Host)
		if err := n.write(cookie, peers, tick); err != nil {
			return fmt.Errorf("write the settings of %s: %w", n.Name, err)
		}
	}
	return nil
}

// connect lays a link from each node to each other.
func (c *Cluster) connect(proxies *link.Proxies) error {
	for _, from := range c.nodes {
		for _, to := range c.nodes {
			if from == to {
				continue
			}
			l, err := proxies.New(from.Name+" to "+to.Name, fmt.Sprintf("127.0.0.1:%d", to.Dist))
			if err != nil {
				return err
			}
			c.links[[2]string{from.Name, to.Name}] = l
		}
	}
	return nil
}

// way is where a node finds another one.
func (c *Cluster) way(from, to string) string {
	if l := c.links[[2]string{from, to}]; l != nil {
		return l.Addr()
	}
	return ""
}

// Addrs are where the nodes listen for programs.
func (c *Cluster) Addrs() (all []string) {
	for _, n := range c.nodes {
		all = append(all, n.addr())
	}
	return all
}

// Version is RabbitMQ's.
func (c *Cluster) Version() string { return c.version }

// Kill ends a node as a loss of power would.
func (c *Cluster) Kill(i int) error { return c.nodes[i].kill() }

// Stop ends a node in order.
func (c *Cluster) Stop(ctx context.Context, i int) error { return c.nodes[i].stop(ctx) }

// Start starts a node again, and returns when it answers.
func (c *Cluster) Start(ctx context.Context, i int) error { return c.nodes[i].start(ctx) }

// Freeze stops a node's processes without their knowing, until Thaw.
func (c *Cluster) Freeze(i int) error { return c.nodes[i].signal(syscall.SIGSTOP) }

// Thaw lets a frozen node go on.
func (c *Cluster) Thaw(i int) error { return c.nodes[i].signal(syscall.SIGCONT) }

// CutOff loses all that a node and the others say to each other, until Rejoin.
// Programs reach it as before.
func (c *Cluster) CutOff(i int) error { return c.eachLink(i, (*link.Link).HalfOpen) }

// Rejoin ends CutOff. The nodes find each other by themselves.
func (c *Cluster) Rejoin(i int) error { return c.eachLink(i, (*link.Link).Heal) }

func (c *Cluster) eachLink(i int, do func(*link.Link) error) error {
	var faults []error
	for pair, l := range c.links {
		if name := c.nodes[i].Name; pair[0] == name || pair[1] == name {
			faults = append(faults, do(l))
		}
	}
	return errors.Join(faults...)
}

// MemoryAlarm raises or ends the alarm of a node, by which it takes no messages.
func (c *Cluster) MemoryAlarm(ctx context.Context, i int, on bool) error {
	watermark := "0.4" // RabbitMQ's own
	if on {
		watermark = "0.0000001"
	}
	return c.nodes[i].ctl(ctx, "set_vm_memory_high_watermark", watermark)
}

// DiskAlarm raises or ends the alarm of a node, by which it takes no messages.
func (c *Cluster) DiskAlarm(ctx context.Context, i int, on bool) error {
	limit := "50MB" // RabbitMQ's own
	if on {
		limit = "1000000000000000" // bytes: more than any disk has
	}
	return c.nodes[i].ctl(ctx, "set_disk_free_limit", limit)
}

// Close kills what runs. The folder is the caller's.
func (c *Cluster) Close() error {
	var faults []error
	for _, n := range c.nodes {
		faults = append(faults, n.kill())
		n.mapper.close()
	}
	for _, l := range c.links {
		faults = append(faults, l.Close())
	}
	return errors.Join(faults...)
}
