package main

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"chatclub/internal/app"
	"chatclub/internal/rooms"
	"chatclub/internal/service"
)

// settings are those of the whole system in one process.
type settings struct {
	HTTPAddr        string         `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080" doc:"Address of the page; port 0 takes a free one, and so does the default when it is taken."`
	AdminAddr       string         `env:"ADMIN_ADDR" envDefault:"127.0.0.1:9090" doc:"Address of /metrics, /healthz and /readyz; port 0 takes a free one, and so does the default when it is taken."`
	AdminToken      service.Secret `env:"ADMIN_TOKEN" doc:"Token that requests on ADMIN_ADDR must carry, except for /metrics, /healthz and /readyz; empty: none."`
	AMQPURL         service.Secret `env:"AMQP_URL" doc:"Address of RabbitMQ, where a run has queues of its own and removes them at the end; empty: a queue in memory."`
	Partitions      int            `env:"PARTITIONS" envDefault:"8" doc:"How many queues share the events, and as many the outbound messages, by page. More dispatchers than that have nothing to do."`
	DatabaseURL     service.Secret `env:"DATABASE_URL" doc:"Where users and rooms are, as in core; empty: an SQLite file that is removed at the end."`
	Dispatchers     int            `env:"DISPATCHERS" envDefault:"3" doc:"Dispatchers to run."`
	Pages           int            `env:"PAGES" envDefault:"6" doc:"Simulated pages."`
	Rooms           int            `env:"ROOMS" envDefault:"1" doc:"Rooms on each page."`
	Users           int            `env:"USERS" envDefault:"90" doc:"Users in each room, 2 to 100. With several rooms it is their capacity too; one alone has place for phones."`
	EventsPerSecond float64        `env:"EVENTS_PER_SECOND" envDefault:"6" doc:"Messages that the users of all pages write in a second while they are calm."`
	Waves           bool           `env:"WAVES" envDefault:"true" doc:"The first page's users ask for three times its limit for 7 s of every 45 s."`
	LimitText       int            `env:"LIMIT_TEXT" envDefault:"300" doc:"Calls per second that the fake Send API takes for one page."`
	JoinTexts       int            `env:"JOIN_TEXTS" envDefault:"1" doc:"Texts to one recipient that had to wait and go out as one call, at most, as in dispatcher. With 1 every copy is a call, so that a page comes into excess sooner."`
	RoomIdle        time.Duration  `env:"ROOM_IDLE" envDefault:"0s" doc:"How long a member may be silent before it leaves its room; 0s: for ever."`
	FloodLimit      int            `env:"FLOOD_LIMIT" envDefault:"0" doc:"Messages and commands of one user that have an effect in 10 s; 0: all. The simulated users write as fast as EVENTS_PER_SECOND says."`
	FloodShare      int            `env:"FLOOD_SHARE" envDefault:"0" doc:"Percent of its page's limits that the copies of one user may take while the page has more than a moment to send; 0: all."`
	SettleTimeout   time.Duration  `env:"SETTLE_TIMEOUT" envDefault:"30s" doc:"How long no copy may arrive, once the users fell silent, before the rest is given up."`
	LedgerKeep      time.Duration  `env:"LEDGER_KEEP" envDefault:"1h" doc:"How long the ledger remembers ids that were accepted; 0s: for ever. One that comes again later is unexpected."`
	LogLevel        slog.Level     `env:"LOG_LEVEL" envDefault:"warn" doc:"Least level that is logged."`
	Trace           app.TraceSettings
}

// capacity is the number of users in a room. Users fill one room before the next, so
// that several have no place for phones.
func (s settings) capacity() int {
	if s.Rooms > 1 {
		return s.Users
	}
	return rooms.MaxCapacity
}

// About says what the program does.
func (settings) About() string {
	return "chatclub runs webhook, core, dispatchers and a fake Messenger with chatting users in one process."
}

// Validate names every fault.
func (s settings) Validate() error {
	broker := app.BrokerSettings{AMQPURL: s.AMQPURL, QueueSettings: s.queues()}
	queues := broker.QueueSettings.Validate()
	if s.AMQPURL != "" {
		queues = broker.Validate()
	}
	var database error
	if s.DatabaseURL != "" {
		database = app.CheckDatabase("DATABASE_URL", s.DatabaseURL)
	}
	var events error
	if !(s.EventsPerSecond > 0 && s.EventsPerSecond <= 10000) {
		events = service.Faultf("EVENTS_PER_SECOND", "%g must be above 0 and at most 10000", s.EventsPerSecond)
	}
	return errors.Join(
		service.CheckAddr("HTTP_ADDR", s.HTTPAddr),
		service.AdminSettings{Addr: s.AdminAddr, Tokens: service.Tokens{Admin: s.AdminToken}}.Validate(),
		queues,
		database,
		service.CheckRange("DISPATCHERS", s.Dispatchers, 1, 64),
		service.CheckRange("PAGES", s.Pages, 1, 10000),
		service.CheckRange("ROOMS", s.Rooms, 1, 1000),
		service.CheckRange("USERS", s.Users, 2, rooms.MaxCapacity),
		events,
		service.CheckRange("LIMIT_TEXT", s.LimitText, 1, app.MaxLimit),
		service.CheckRange("JOIN_TEXTS", s.JoinTexts, 1, 50),
		service.CheckDuration("ROOM_IDLE", s.RoomIdle, 0, app.MaxRoomIdle),
		service.CheckRange("FLOOD_LIMIT", s.FloodLimit, 0, app.MaxFlood),
		service.CheckRange("FLOOD_SHARE", s.FloodShare, 0, 100),
		service.CheckDuration("SETTLE_TIMEOUT", s.SettleTimeout, time.Second, time.Hour),
		service.CheckDuration("LEDGER_KEEP", s.LedgerKeep, 0, 1000*time.Hour),
	)
}

// queues returns the names of one run's queues. No two runs have the same, and none
// has a deployment's, whose messages it would take.
func (s settings) queues() app.QueueSettings {
	return app.QueueSettings{Prefix: "chatclub-quickstart-" + rand.Text(), Partitions: s.Partitions}
}
