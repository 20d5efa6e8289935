// Package rabbittest gives tests a RabbitMQ of 4.0 or later, and fails them with one
// sentence where there is none: it never skips. In this order it takes
//
//  1. the broker that AMQP_URL names,
//  2. a container, where a Docker engine answers,
//  3. a private server of this machine's rabbitmq-server,
//  4. on Debian and Ubuntu, as root: the same after apt-get install,
//  5. where Debian's own is too old: the one of Debian 13, unpacked below the user's
//     cache, once.
//
// One broker serves all tests of a test binary; each test takes a prefix of
// its own for its queues. To share one broker among the binaries of a whole
// run, as `make test` does, run the tests by tools/test.
//
// A private server keeps everything in a temporary folder, listens on the
// loopback address only, at ports that were free, and ends with the process
// that started it, however that one ends.
//
// Queues must not be left behind: one that AMQP_URL names is not ours alone. Prefix
// removes its queues.
package rabbittest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"chatclub/internal/queue"
	"chatclub/tools/private"
)

// NoBroker is the environment variable in which tools/test tells the tests that
// it looked for a broker in vain, and why; they do not look again.
const NoBroker = "CHATCLUB_NO_BROKER"

// bootTimeout bounds the start of a server: 4 to 10 s alone, more on a machine
// that compiles and tests meanwhile.
const bootTimeout = 2 * time.Minute

// findTimeout bounds the search, which may download a server first.
const findTimeout = 8 * time.Minute

// instance is a running broker of either kind.
type instance interface {
	url() string
	start(ctx context.Context) error                // once more, after stop or kill
	stop(ctx context.Context) error                 // in order, keeping its queues
	kill(ctx context.Context) error                 // at once
	remove(ctx context.Context) error               // stop and leave nothing behind
	ctl(context.Context, ...string) (string, error) // rabbitmqctl
}

// Find returns the URL of a broker and the function that ends it, if it was
// started here. What it does that takes long it says on log.
func Find(ctx context.Context, log io.Writer) (amqpURL string, stop func(), err error) {
	if reason := os.Getenv(NoBroker); reason != "" {
		return "", nil, errors.New(reason)
	}
	if u := os.Getenv("AMQP_URL"); u != "" {
		if err := ping(u); err != nil {
			return "", nil, fmt.Errorf("the broker that AMQP_URL names cannot be used: %w", err)
		}
		return u, func() {}, nil
	}
	i, err := launch(ctx, log)
	if err != nil {
		return "", nil, err
	}
	return i.url(), func() { removeQuietly(i) }, nil //nolint:contextcheck // called long after ctx
}

// launch starts a broker in a container, or else on this machine.
func launch(ctx context.Context, log io.Writer) (instance, error) {
	i, noContainer := startContainer(ctx, log)
	if noContainer == nil {
		return i, nil
	}
	i, err := startLocal(ctx, log)
	if err != nil {
		return nil, fmt.Errorf("no RabbitMQ for the tests: set AMQP_URL, start a Docker engine, or install rabbitmq-server 4.0 or later (%w; %w)", noContainer, err)
	}
	return i, nil
}

func removeQuietly(i instance) {
	ctx, cancel := context.WithTimeout(context.Background(), bootTimeout)
	defer cancel()
	_ = i.remove(ctx) // the folder is temporary and the group ends with us
}

// shared is the one broker of this test binary. A package that starts a
// process for its tests needs a place to keep it; nothing else is global.
var shared struct {
	once sync.Once
	url  string
	stop func()
	err  error
}

// URL returns the URL of the broker that all tests of this binary share, and
// fails t when there is none.
func URL(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), findTimeout)
		defer cancel()
		shared.url, shared.stop, shared.err = Find(ctx, os.Stderr)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.url
}

// Main runs the tests of a package, ends the broker that URL started, and
// fails the run when goroutines are left: for TestMain.
func Main(m *testing.M) {
	goleak.VerifyTestMain(mainFunc(func() int {
		code := m.Run()
		if shared.stop != nil {
			shared.stop()
		}
		return code
	}), goleak.IgnoreAnyFunction(reaperFunction))
}

type mainFunc func() int

func (f mainFunc) Run() int { return f() }

// Prefix returns a queue prefix for the test alone, and deletes the queues of
// its topology when the test ends. The broker is URL's.
func Prefix(t testing.TB) string {
	t.Helper()
	u := URL(t)
	top := queue.Topology{Prefix: fmt.Sprintf("test-%016x", rand.Uint64()), Partitions: 8, WithShared: true} // has all slots
	t.Cleanup(func() {
		if err := onChannel(u, func(ch *amqp.Channel) error { return deleteTopology(ch, top) }); err != nil {
			t.Errorf("delete the queues of %s: %v", top.Prefix, err)
		}
	})
	return top.Prefix
}

// DeleteQueue deletes a queue of URL's broker, if there is one.
func DeleteQueue(t testing.TB, name string) {
	t.Helper()
	if err := onChannel(URL(t), func(ch *amqp.Channel) error { return deleteQueues(ch, name) }); err != nil {
		t.Errorf("delete %s: %v", name, err)
	}
}

// Version returns that of URL's broker.
func Version(t testing.TB) (version string) {
	t.Helper()
	conn, err := amqp.Dial(URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	version, _ = conn.Properties["version"].(string)
	return version
}

// onChannel does something on a connection of its own.
func onChannel(amqpURL string, do func(*amqp.Channel) error) error {
	conn, err := amqp.Dial(amqpURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return do(ch)
}

// deleteTopology deletes every queue and exchange of the topology, and its
// partitions with their lanes up to the first that does not exist.
func deleteTopology(ch *amqp.Channel, top queue.Topology) error {
	for _, s := range top.Specs() {
		if err := deleteQueues(ch, s.Name); err != nil {
			return err
		}
		if s.Delay == 0 {
			continue
		}
		if err := ch.ExchangeDelete(s.Name, false, false); err != nil {
			return err
		}
	}
	for i := top.Partitions; i < queue.MaxPartitions; i++ {
		_, err := ch.QueueDeclarePassive(top.Outbound(i), true, false, false, false, nil)
		var reply *amqp.Error
		if errors.As(err, &reply) && reply.Code == amqp.NotFound {
			break
		}
		if err == nil {
			err = deleteQueues(ch, append(top.LanesOf(i), top.Outbound(i))...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func deleteQueues(ch *amqp.Channel, names ...string) error {
	for _, name := range names {
		if _, err := ch.QueueDelete(name, false, false, false); err != nil {
			return err
		}
	}
	return nil
}

// ping opens and closes a connection to a broker that is new enough. Its error does not
// show the password.
func ping(amqpURL string) error {
	u, err := url.Parse(amqpURL)
	if err != nil {
		return errors.New("it is not a URL")
	}
	conn, err := amqp.Dial(amqpURL)
	if err != nil {
		return fmt.Errorf("dial %s: %w", u.Host, err)
	}
	if v, _ := conn.Properties["version"].(string); !private.Supported(v) {
		err = fmt.Errorf("%s is RabbitMQ %s, and 4.0 or later is needed", u.Host, v)
	}
	return errors.Join(err, conn.Close())
}
