package rabbittest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"

	"chatclub/tools/private"
)

// image is the newest RabbitMQ that chatclub is tested with.
const image = "rabbitmq:4"

// reaperFunction runs until the process ends: by it, testcontainers-go removes
// the containers of a process that was killed.
const reaperFunction = "github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1"

// docker is a server in a container.
type docker struct {
	container *testcontainers.DockerContainer
	port      int // fixed, because a restarted container gets others
	host      string
}

// startContainer starts a server in a container, when an engine answers.
func startContainer(ctx context.Context, log io.Writer) (instance, error) {
	if err := engineAnswers(ctx); err != nil {
		return nil, err
	}
	ports, err := private.Ports(1)
	if err != nil {
		return nil, fmt.Errorf("container: %w", err)
	}
	_, _ = fmt.Fprintf(log, "rabbittest: starting %s in Docker\n", image)
	c, err := testcontainers.Run(ctx, image,
		testcontainers.WithExposedPorts("5672/tcp"),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			h.PortBindings = network.PortMap{network.MustParsePort("5672/tcp"): {
				{HostIP: netip.IPv4Unspecified(), HostPort: strconv.Itoa(ports[0])},
			}}
		}),
		testcontainers.WithWaitStrategyAndDeadline(bootTimeout, wait.ForLog("Server startup complete")),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("container: %w", err), testcontainers.TerminateContainer(c))
	}
	d := &docker{container: c, port: ports[0]}
	if d.host, err = c.Host(ctx); err == nil {
		err = d.await(ctx)
	}
	if err != nil {
		removeQuietly(d) //nolint:contextcheck // also when ctx has ended
		return nil, fmt.Errorf("container: %w", err)
	}
	return d, nil
}

// engineAnswers asks within seconds, where the library would wait for long or
// panic.
func engineAnswers(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("no Docker engine answers")
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(silent{}))
	if err != nil {
		return errors.New("no Docker engine answers")
	}
	if err := provider.Health(ctx); err != nil {
		return errors.New("no Docker engine answers")
	}
	return nil
}

// silent keeps the library's search for an engine out of the tests' output.
type silent struct{}

var _ tclog.Logger = silent{}

func (silent) Printf(string, ...any) {}

func (d *docker) url() string { return fmt.Sprintf("amqp://guest:guest@%s:%d/", d.host, d.port) }

// await returns when the server answers.
func (d *docker) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	for {
		err := ping(d.url())
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond): // a poll of another process
		case <-ctx.Done():
			return err
		}
	}
}

func (d *docker) start(ctx context.Context) error {
	if err := d.container.Start(ctx); err != nil {
		return err
	}
	return d.await(ctx)
}

func (d *docker) stop(ctx context.Context) error {
	timeout := bootTimeout
	return d.container.Stop(ctx, &timeout)
}

func (d *docker) kill(ctx context.Context) error {
	var now time.Duration
	return d.container.Stop(ctx, &now)
}

func (d *docker) remove(ctx context.Context) error { return d.container.Terminate(ctx) }

func (d *docker) ctl(ctx context.Context, args ...string) (string, error) {
	code, out, err := d.container.Exec(ctx, append([]string{"rabbitmqctl"}, args...))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(out)
	if code != 0 {
		return "", fmt.Errorf("exit code %d: %s", code, text)
	}
	return string(text), err
}
