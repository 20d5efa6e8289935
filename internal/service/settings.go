package service

import (
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// Bounds that several programs share.
const (
	maxLanes = 999 // queue.MaxLanes: lane names carry three digits at most

	// maxShutdown keeps SHUTDOWN_TIMEOUT plus the admin server's 2 s and the
	// broker's close within what orchestrators can be told to wait.
	maxShutdown = 10 * time.Minute

	// messengerDeadline is how long Messenger waits for a webhook's answer.
	messengerDeadline = 5 * time.Second

	// maxRoom is the number of members that the fan-out, its confirm window
	// and the tables are sized for.
	maxRoom = 100
)

// QueueSettings name the queues; every program of a deployment must have the
// same.
type QueueSettings struct {
	Prefix string `env:"QUEUE_PREFIX" envDefault:"chatclub" doc:"First part of every queue's name; the same in every program."`
	Lanes  int    `env:"LANES" envDefault:"64" doc:"How many overflow lanes there are; the same in every program."`
}

// Validate names every fault.
func (s QueueSettings) Validate() error {
	var prefix error
	if s.Prefix == "" || len(s.Prefix) > 100 || strings.ContainsAny(s.Prefix, " \t\r\n") || strings.HasPrefix(s.Prefix, "amq.") {
		prefix = Faultf("QUEUE_PREFIX", "%.40q must have 1 to 100 characters, no white space, and not begin with amq.", s.Prefix)
	}
	return errors.Join(prefix, CheckRange("LANES", s.Lanes, 1, maxLanes))
}

// BrokerSettings say where RabbitMQ is.
type BrokerSettings struct {
	AMQPURL Secret `env:"AMQP_URL,required" doc:"Addresses of RabbitMQ, amqp://user:password@host:5672/vhost, separated by commas when there are several nodes."`
	QueueSettings
}

// URLs are the addresses in AMQP_URL.
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
		faults = append(faults, Faultf("AMQP_URL", "must be set"))
	}
	for i, raw := range urls {
		if u, err := url.Parse(raw); err != nil || u.Scheme != "amqp" && u.Scheme != "amqps" || u.Host == "" {
			faults = append(faults, Faultf("AMQP_URL", "address %d is not of the form amqp://user:password@host:5672/vhost", i+1))
		}
	}
	return errors.Join(faults...)
}

// WebhookSettings are those of cmd/webhook.
type WebhookSettings struct {
	HTTPAddr        string        `env:"HTTP_ADDR" envDefault:":8080" doc:"Address that serves /webhook; port 0 takes a free one."`
	AppSecret       Secret        `env:"APP_SECRET,required" doc:"The app's secret, with which Messenger signs events."`
	VerifyToken     Secret        `env:"VERIFY_TOKEN,required" doc:"The word that Messenger repeats when the webhook is set up."`
	MaxInFlight     int           `env:"MAX_IN_FLIGHT" envDefault:"512" doc:"Requests of Messenger's handled at a time, of at most 1 MiB each; more are answered 503. As many bodies, 64 at least, are read at a time: one more ends the reading of the slowest."`
	PublishTimeout  time.Duration `env:"PUBLISH_TIMEOUT" envDefault:"3s" doc:"How long the broker may take to confirm before the answer is 503; Messenger waits 5 s."`
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"20s" doc:"How long requests in flight may take when the program is stopped."`
	Broker          BrokerSettings
	Admin           AdminSettings
	Log             LogSettings
}

// About says what the program does.
func (WebhookSettings) About() string {
	return "webhook receives Messenger's events, checks their signature and puts them on the inbound queue."
}

// Validate names every fault.
func (s WebhookSettings) Validate() error {
	return errors.Join(
		CheckAddr("HTTP_ADDR", s.HTTPAddr),
		CheckSet("APP_SECRET", s.AppSecret),
		CheckSet("VERIFY_TOKEN", s.VerifyToken),
		CheckRange("MAX_IN_FLIGHT", s.MaxInFlight, 1, 65536),
		CheckDuration("PUBLISH_TIMEOUT", s.PublishTimeout, 10*time.Millisecond, messengerDeadline-time.Millisecond),
		CheckDuration("SHUTDOWN_TIMEOUT", s.ShutdownTimeout, time.Millisecond, maxShutdown),
	)
}

// CoreSettings are those of cmd/core.
type CoreSettings struct {
	DatabaseURL     Secret        `env:"DATABASE_URL" envDefault:"sqlite:chatclub.db" doc:"Where users and rooms are: sqlite:FILE for one core, postgres://user:password@host/database for several."`
	RoomCapacity    int           `env:"ROOM_CAPACITY" envDefault:"100" doc:"Members of a room at most, 2 to 100; the next room opens when all are full."`
	RoomIdle        time.Duration `env:"ROOM_IDLE" envDefault:"20h" doc:"How long a member may be silent before it leaves its room, with a notice if Messenger's 24 h are not over; 0s: for ever."`
	FloodLimit      int           `env:"FLOOD_LIMIT" envDefault:"30" doc:"Messages and commands of one user that have an effect in FLOOD_PERIOD; 0: all."`
	FloodPeriod     time.Duration `env:"FLOOD_PERIOD" envDefault:"10s" doc:"See FLOOD_LIMIT."`
	Language        string        `env:"LANGUAGE" envDefault:"en" doc:"Language, en, pt or es, of users of whom Messenger tells none."`
	Prefetch        int           `env:"PREFETCH" envDefault:"256" doc:"Events held at most, of a kilobyte or two; a page that fills it holds up the others."`
	Workers         int           `env:"WORKERS" envDefault:"8" doc:"Events handled at a time; those of one page always one after another."`
	LimitText       int           `env:"LIMIT_TEXT" envDefault:"300" doc:"Calls per second that the platform takes for one page; copies beyond it go to the page's lane at once."`
	LimitMedia      int           `env:"LIMIT_MEDIA" envDefault:"10" doc:"Calls per second with audio or video that the platform takes for one page, counted apart from LIMIT_TEXT."`
	PublishTimeout  time.Duration `env:"PUBLISH_TIMEOUT" envDefault:"10s" doc:"How long the broker may take to confirm an event's copies before they are published again."`
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"20s" doc:"How long events in hand may take when the program is stopped."`
	Broker          BrokerSettings
	Admin           AdminSettings
	Log             LogSettings
}

// Limit is the limit of a quota class in calls per second.
func (s CoreSettings) Limit(class string) float64 { return limitOf(class, s.LimitText, s.LimitMedia) }

// About says what the program does.
func (CoreSettings) About() string {
	return "core puts writers into rooms and copies every message to the other members of its room."
}

// Validate names every fault.
func (s CoreSettings) Validate() error {
	var language error
	if s.Language != "en" && s.Language != "pt" && s.Language != "es" {
		language = Faultf("LANGUAGE", "%.40q must be en, pt or es", s.Language)
	}
	var database error
	scheme, rest, _ := strings.Cut(s.DatabaseURL.Reveal(), ":")
	switch scheme {
	case "sqlite", "postgres", "postgresql":
		if rest == "" || rest == "//" {
			database = Faultf("DATABASE_URL", "names no database")
		}
	default:
		database = Faultf("DATABASE_URL", "must begin with sqlite: or postgres://")
	}
	return errors.Join(
		database,
		CheckRange("ROOM_CAPACITY", s.RoomCapacity, 2, maxRoom),
		CheckDuration("ROOM_IDLE", s.RoomIdle, 0, 365*24*time.Hour),
		CheckRange("FLOOD_LIMIT", s.FloodLimit, 0, 1_000_000),
		CheckDuration("FLOOD_PERIOD", s.FloodPeriod, time.Second, time.Hour),
		language,
		CheckRange("PREFETCH", s.Prefetch, 1, 65535), // the protocol's field has 16 bits
		CheckRange("WORKERS", s.Workers, 1, 1024),
		CheckRange("LIMIT_TEXT", s.LimitText, 1, 1_000_000),
		CheckRange("LIMIT_MEDIA", s.LimitMedia, 1, 1_000_000),
		CheckDuration("PUBLISH_TIMEOUT", s.PublishTimeout, 10*time.Millisecond, time.Hour),
		CheckDuration("SHUTDOWN_TIMEOUT", s.ShutdownTimeout, time.Millisecond, maxShutdown),
	)
}

// DispatcherSettings are those of cmd/dispatcher.
type DispatcherSettings struct {
	PagesFile       string        `env:"PAGES_FILE,required" doc:"JSON file that gives the access token of each page id; read again when it changes."`
	GraphURL        string        `env:"GRAPH_URL" envDefault:"https://graph.facebook.com/v23.0" doc:"Address of the Send API, with its version."`
	Prefetch        int           `env:"PREFETCH" envDefault:"1024" doc:"Messages of outbound held at most, in flight or waiting; lanes have LANE_PREFETCH each."`
	MaxInFlight     int           `env:"MAX_IN_FLIGHT" envDefault:"512" doc:"Send API calls at a time; a page at its limit has 240 (300/s of 0.8 s each)."`
	LanePrefetch    int           `env:"LANE_PREFETCH" envDefault:"512" doc:"Messages of one overflow lane held at most; the same in every dispatcher."`
	LimitText       int           `env:"LIMIT_TEXT" envDefault:"300" doc:"Calls per second that the platform takes for one page."`
	LimitMedia      int           `env:"LIMIT_MEDIA" envDefault:"10" doc:"Calls per second with audio or video that the platform takes for one page, counted apart from LIMIT_TEXT."`
	LatencyTarget   time.Duration `env:"LATENCY_TARGET" envDefault:"0s" doc:"95th percentile of the calls' latency to hold by having fewer in flight; 0s: MAX_IN_FLIGHT alone bounds them."`
	CallTimeout     time.Duration `env:"CALL_TIMEOUT" envDefault:"10s" doc:"How long one Send API call may take; the slowest seen take 1.9 s."`
	BatchCalls      int           `env:"BATCH_CALLS" envDefault:"1" doc:"Messages of one page that go in one request at most, up to 50; 1: each has its own."`
	BatchWait       time.Duration `env:"BATCH_WAIT" envDefault:"20ms" doc:"How long a message waits for others to go with, where BATCH_CALLS is above 1."`
	MaxAttempts     int           `env:"MAX_ATTEMPTS" envDefault:"8" doc:"Failed calls after which a message goes to the dead-letter queue; throttled ones do not count."`
	MessageTTL      time.Duration `env:"MESSAGE_TTL" envDefault:"1h" doc:"Age at which a message is no longer sent but goes to the dead-letter queue; a broadcast has its deadline instead."`
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"20s" doc:"How long calls in flight may take when the program is stopped."`
	Broker          BrokerSettings
	Admin           AdminSettings
	Log             LogSettings
}

// Limit is the limit of a quota class in calls per second.
func (s DispatcherSettings) Limit(class string) float64 {
	return limitOf(class, s.LimitText, s.LimitMedia)
}

// limitOf chooses between the limits of the quota classes "text" and "media".
func limitOf(class string, text, media int) float64 {
	if class == "media" {
		return float64(media)
	}
	return float64(text)
}

// About says what the program does.
func (DispatcherSettings) About() string {
	return "dispatcher sends what is on the outbound queue, within the limits of each page."
}

// Validate names every fault.
func (s DispatcherSettings) Validate() error {
	return errors.Join(
		CheckHTTPURL("GRAPH_URL", s.GraphURL),
		CheckRange("PREFETCH", s.Prefetch, 1, 65535), // the protocol's field has 16 bits
		CheckRange("MAX_IN_FLIGHT", s.MaxInFlight, 1, 65535),
		CheckRange("LANE_PREFETCH", s.LanePrefetch, 1, 65535),
		CheckRange("LIMIT_TEXT", s.LimitText, 1, 1_000_000),
		CheckRange("LIMIT_MEDIA", s.LimitMedia, 1, 1_000_000),
		CheckDuration("LATENCY_TARGET", s.LatencyTarget, 0, time.Minute),
		CheckDuration("CALL_TIMEOUT", s.CallTimeout, 10*time.Millisecond, 5*time.Minute),
		CheckRange("BATCH_CALLS", s.BatchCalls, 1, 50),                          // the platform's limit
		CheckDuration("BATCH_WAIT", s.BatchWait, time.Millisecond, time.Second), // each wait is delay for its reader
		CheckRange("MAX_ATTEMPTS", s.MaxAttempts, 1, 1000),
		CheckDuration("MESSAGE_TTL", s.MessageTTL, time.Second, 24*time.Hour), // Messenger's window
		CheckDuration("SHUTDOWN_TIMEOUT", s.ShutdownTimeout, time.Millisecond, maxShutdown),
	)
}

// QuickstartSettings are those of cmd/chatclub.
type QuickstartSettings struct {
	HTTPAddr        string        `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080" doc:"Address of the page and of the fake Send API; port 0 takes a free one, and so does the default when it is taken."`
	AdminAddr       string        `env:"ADMIN_ADDR" envDefault:"127.0.0.1:9090" doc:"Address of /metrics, /healthz and /readyz; port 0 takes a free one, and so does the default when it is taken."`
	AMQPURL         Secret        `env:"AMQP_URL" doc:"Address of RabbitMQ; empty: a queue in memory."`
	DatabaseURL     Secret        `env:"DATABASE_URL" doc:"Where users and rooms are, as in core; empty: an SQLite file that is removed at the end."`
	Dispatchers     int           `env:"DISPATCHERS" envDefault:"3" doc:"Dispatchers to run."`
	Pages           int           `env:"PAGES" envDefault:"2" doc:"Simulated pages."`
	Rooms           int           `env:"ROOMS" envDefault:"2" doc:"Rooms on each page."`
	Users           int           `env:"USERS" envDefault:"20" doc:"Users in each room, 2 to 100; it is the rooms' capacity too."`
	EventsPerSecond float64       `env:"EVENTS_PER_SECOND" envDefault:"20" doc:"Messages that the users of all pages write in a second."`
	LimitText       int           `env:"LIMIT_TEXT" envDefault:"300" doc:"Calls per second that the fake Send API takes for one page."`
	SettleTimeout   time.Duration `env:"SETTLE_TIMEOUT" envDefault:"30s" doc:"How long copies may take to arrive after the users fell silent."`
	LogLevel        slog.Level    `env:"LOG_LEVEL" envDefault:"warn" doc:"Least level that is logged."`
	Queue           QueueSettings
}

// About says what the program does.
func (QuickstartSettings) About() string {
	return "chatclub runs webhook, core, dispatchers and a fake Messenger with chatting users in one process."
}

// Validate names every fault.
func (s QuickstartSettings) Validate() error {
	var amqp error
	if s.AMQPURL != "" {
		amqp = BrokerSettings{AMQPURL: s.AMQPURL, QueueSettings: s.Queue}.validateURLs()
	}
	var events error
	if !(s.EventsPerSecond > 0 && s.EventsPerSecond <= 10000) {
		events = Faultf("EVENTS_PER_SECOND", "%g must be above 0 and at most 10000", s.EventsPerSecond)
	}
	return errors.Join(
		CheckAddr("HTTP_ADDR", s.HTTPAddr),
		CheckAddr("ADMIN_ADDR", s.AdminAddr),
		amqp,
		CheckRange("DISPATCHERS", s.Dispatchers, 1, 64),
		CheckRange("PAGES", s.Pages, 1, 10000),
		CheckRange("ROOMS", s.Rooms, 1, 1000),
		CheckRange("USERS", s.Users, 2, maxRoom),
		events,
		CheckRange("LIMIT_TEXT", s.LimitText, 1, 1_000_000),
		CheckDuration("SETTLE_TIMEOUT", s.SettleTimeout, time.Second, time.Hour),
	)
}
