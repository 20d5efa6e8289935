package app

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/service"
)

// MaxLimit bounds the settings of the platform's limits: thousands of times what
// Messenger takes, and still a microsecond for each call.
const MaxLimit = 1_000_000

// Bounds of ROOM_IDLE and FLOOD_LIMIT, far beyond any use.
const (
	MaxRoomIdle = 365 * 24 * time.Hour
	MaxFlood    = 1_000_000
)

// maxShutdown keeps SHUTDOWN_TIMEOUT plus the admin server's 2 s and the
// broker's close within what orchestrators can be told to wait.
const maxShutdown = 10 * time.Minute

// ProgramSettings are those that every program has.
type ProgramSettings struct {
	Broker BrokerSettings
	Admin  service.AdminSettings
	Log    service.LogSettings
	Trace  TraceSettings
}

// QueueSettings name the queues; every program of a deployment must have the
// same.
type QueueSettings struct {
	Prefix     string `env:"QUEUE_PREFIX" envDefault:"chatclub" doc:"First part of every queue's name; the same in every program."`
	Partitions int    `env:"PARTITIONS" envDefault:"64" doc:"Queues of events, and as many of outbound messages, by page; the same in every program. Further cores or dispatchers have nothing to do."`
}

// Topology returns the queues that the settings name.
func (s QueueSettings) Topology() queue.Topology {
	return queue.Topology{Prefix: s.Prefix, Partitions: s.Partitions}
}

// Validate names every fault.
func (s QueueSettings) Validate() error {
	t := s.Topology()
	return errors.Join(
		service.Named("QUEUE_PREFIX", t.ValidatePrefix()),
		service.Named("PARTITIONS", t.ValidatePartitions()),
	)
}

// BrokerSettings say where RabbitMQ is.
type BrokerSettings struct {
	AMQPURL service.Secret `env:"AMQP_URL,required" doc:"Addresses of RabbitMQ, amqp://user:password@host:5672/vhost, with commas between several nodes."`
	QueueSettings
}

// URLs returns the addresses in AMQP_URL.
func (s BrokerSettings) URLs() []string {
	var urls []string
	for u := range strings.SplitSeq(s.AMQPURL.Reveal(), ",") {
		if u = strings.TrimSpace(u); u != "" {
			urls = append(urls, u)
		}
	}
	return urls
}

// Validate names every fault, without the password.
func (s BrokerSettings) Validate() error {
	return errors.Join(s.QueueSettings.Validate(), s.validateURLs())
}

func (s BrokerSettings) validateURLs() error {
	var faults []error
	urls := s.URLs()
	if len(urls) == 0 {
		faults = append(faults, service.Faultf("AMQP_URL", "must be set"))
	}
	for i, raw := range urls {
		if u, err := url.Parse(raw); err != nil || u.Scheme != "amqp" && u.Scheme != "amqps" || u.Host == "" {
			faults = append(faults, service.Faultf("AMQP_URL", "address %d is not of the form amqp://user:password@host:5672/vhost", i+1))
		}
	}
	return errors.Join(faults...)
}

// checkOptionalURL is service.CheckHTTPURL for an address that may be missing.
func checkOptionalURL(name, raw string) error {
	if raw == "" {
		return nil
	}
	return service.CheckHTTPURL(name, raw)
}
