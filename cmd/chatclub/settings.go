package main

import (
	"errors"
	"log/slog"
	"time"

	"chatclub/internal/app"
	"chatclub/internal/rooms"
	"chatclub/internal/service"
)

// settings are those of the whole system in one process.
type settings struct {
	HTTPAddr        string         `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080" doc:"Address of the page and of the fake Send API; port 0 takes a free one, and so does the default when it is taken."`
	AdminAddr       string         `env:"ADMIN_ADDR" envDefault:"127.0.0.1:9090" doc:"Address of /metrics, /healthz and /readyz; port 0 takes a free one, and so does the default when it is taken."`
	AMQPURL         service.Secret `env:"AMQP_URL" doc:"Address of RabbitMQ; empty: a queue in memory."`
	DatabaseURL     service.Secret `env:"DATABASE_URL" doc:"Where users and rooms are, as in core; empty: an SQLite file that is removed at the end."`
	Dispatchers     int            `env:"DISPATCHERS" envDefault:"3" doc:"Dispatchers to run."`
	Pages           int            `env:"PAGES" envDefault:"2" doc:"Simulated pages."`
	Rooms           int            `env:"ROOMS" envDefault:"2" doc:"Rooms on each page."`
	Users           int            `env:"USERS" envDefault:"20" doc:"Users in each room, 2 to 100; it is the rooms' capacity too."`
	EventsPerSecond float64        `env:"EVENTS_PER_SECOND" envDefault:"20" doc:"Messages that the users of all pages write in a second."`
	LimitText       int            `env:"LIMIT_TEXT" envDefault:"300" doc:"Calls per second that the fake Send API takes for one page."`
	SettleTimeout   time.Duration  `env:"SETTLE_TIMEOUT" envDefault:"30s" doc:"How long copies may take to arrive after the users fell silent."`
	LogLevel        slog.Level     `env:"LOG_LEVEL" envDefault:"warn" doc:"Least level that is logged."`
	Queue           app.QueueSettings
}

// About says what the program does.
func (settings) About() string {
	return "chatclub runs webhook, core, dispatchers and a fake Messenger with chatting users in one process."
}

// Validate names every fault.
func (s settings) Validate() error {
	var amqp error
	if s.AMQPURL != "" {
		amqp = app.BrokerSettings{AMQPURL: s.AMQPURL, QueueSettings: s.Queue}.Validate()
	}
	var events error
	if !(s.EventsPerSecond > 0 && s.EventsPerSecond <= 10000) {
		events = service.Faultf("EVENTS_PER_SECOND", "%g must be above 0 and at most 10000", s.EventsPerSecond)
	}
	return errors.Join(
		service.CheckAddr("HTTP_ADDR", s.HTTPAddr),
		service.CheckAddr("ADMIN_ADDR", s.AdminAddr),
		amqp,
		service.CheckRange("DISPATCHERS", s.Dispatchers, 1, 64),
		service.CheckRange("PAGES", s.Pages, 1, 10000),
		service.CheckRange("ROOMS", s.Rooms, 1, 1000),
		service.CheckRange("USERS", s.Users, 2, rooms.MaxCapacity),
		events,
		service.CheckRange("LIMIT_TEXT", s.LimitText, 1, app.MaxLimit),
		service.CheckDuration("SETTLE_TIMEOUT", s.SettleTimeout, time.Second, time.Hour),
	)
}
