package rabbit

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/queue"
)

// Defaults of Config.
const (
	// DefaultHeartbeat finds a dead peer within 7.5 s (the client gives up
	// after three half intervals without a byte) and frees its single active
	// queues for others.
	DefaultHeartbeat = 5 * time.Second
	// DefaultConfirmTimeout is the longest time of a session without any confirm
	// while some are due. Healthy brokers answer in milliseconds; a pause of its
	// disk or collector is over in less. Giving up earlier would publish messages
	// twice that were only late.
	DefaultConfirmTimeout = 5 * time.Second
	// DefaultWindow gives 14 times the throughput of waiting for each confirm
	// (BenchmarkPublish: 3.6 k against 52 k messages/s on two cores); four times
	// the window gives 17 % more, and as much more to publish again after a loss.
	DefaultWindow = 512
)

// Config says which broker to use and how. The zero value is not useful: URLs
// and Topology must be set.
type Config struct {
	URLs           []string              // amqp:// or amqps://, tried in turn
	Topology       queue.Topology        // declared once, and again when some of it is missing
	Passive        bool                  // declare nothing: the queues of a mistyped prefix are not made
	Name           string                // shown by RabbitMQ as the connection's name; default "chatclub"
	Heartbeat      time.Duration         // whole seconds; default DefaultHeartbeat
	ConfirmTimeout time.Duration         // default DefaultConfirmTimeout
	Window         int                   // most messages unconfirmed at a time; default DefaultWindow
	Log            *slog.Logger          // nil logs nothing
	Registerer     prometheus.Registerer // nil exports no metrics
	// Useless gets the error of each connection on which the program can do nothing, and
	// should end: the server is older than RabbitMQ 4.0, or the programs on it have another
	// number of partitions (*OtherPartitionsError). nil: the log gets it.
	Useless func(error)
}

// withDefaults returns c with every default filled in.
func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "chatclub")
	c.Heartbeat = cmp.Or(c.Heartbeat, DefaultHeartbeat)
	c.ConfirmTimeout = cmp.Or(c.ConfirmTimeout, DefaultConfirmTimeout)
	c.Window = cmp.Or(c.Window, DefaultWindow)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// validate names every fault of what settings say. A URL is named by its position or its host, and
// never shown whole: it holds a password.
func (c Config) validate() error {
	var faults []error
	if len(c.URLs) == 0 {
		faults = append(faults, errors.New("no broker URL"))
	}
	for i, raw := range c.URLs {
		if err := validateURL(raw); err != nil {
			faults = append(faults, fmt.Errorf("broker URL %d of %d: %w", i+1, len(c.URLs), err))
		}
	}
	if err := c.Topology.Validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func validateURL(raw string) error {
	// The parsers' errors quote what they could not read, which may be a part
	// of the password: they are left out.
	u, err := url.Parse(raw)
	if err != nil {
		return errors.New("not a URL; reserved characters in user and password must be percent-encoded")
	}
	if u.Scheme != "amqp" && u.Scheme != "amqps" {
		return fmt.Errorf("host %.60q: scheme must be amqp or amqps", u.Host)
	}
	if _, err := amqp.ParseURI(raw); err != nil {
		return fmt.Errorf("host %.60q: not a URL as RabbitMQ specifies them", u.Host)
	}
	return nil
}

// address is the part of a broker's URL that may be shown: host, port and
// virtual host.
func address(raw string) string {
	u, err := amqp.ParseURI(raw)
	if err != nil {
		return "invalid URL"
	}
	a := net.JoinHostPort(u.Host, strconv.Itoa(u.Port))
	if u.Vhost != "/" {
		a += "/" + u.Vhost
	}
	return a
}
