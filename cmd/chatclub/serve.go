package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/fakeapi/users"
	"chatclub/fakeapi/web"
	fakehook "chatclub/fakeapi/webhook"
	"chatclub/internal/broker"
	"chatclub/internal/core"
	"chatclub/internal/dispatch"
	"chatclub/internal/excess"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/rooms"
	"chatclub/internal/sender"
	"chatclub/internal/service"
	"chatclub/internal/webhook"
)

const (
	// shutdownTimeout bounds each part's end; the calls in flight are of our
	// own fake and take its latency, far below a second.
	shutdownTimeout = 5 * time.Second
	// latency of the fake is like that of a fast API.
	latency = "lognormal:40ms,150ms"
	// appSecret signs the simulated users' webhooks. Nothing outside this
	// process knows or needs it.
	appSecret = "quickstart"
)

// system is the wiring of one run. What open adds to closers is closed in
// reverse order.
type system struct {
	service.QuickstartSettings
	log     *slog.Logger
	reg     *prometheus.Registry
	closers []func() error
	actors  []service.Actor // in the order of shutdown
	ready   []func(context.Context) error

	memory    *memory.Broker // nil with AMQP_URL
	operators http.Handler   // core's
}

// serve wires everything and runs it until the users have chatted for length
// or ctx ends; then it waits for the copies under way and prints the balance.
// It returns an error when the ledger shows a loss or a duplicate.
func serve(ctx context.Context, s service.QuickstartSettings, length time.Duration, stdout io.Writer) (err error) {
	sys := &system{
		QuickstartSettings: s,
		log:                service.NewLogger(service.LogSettings{Level: s.LogLevel}, os.Stderr),
		reg:                service.NewRegistry(),
	}
	defer func() { err = errors.Join(err, sys.close()) }()

	api, page, err := sys.fake(ctx)
	if err != nil {
		return err
	}
	hook, err := sys.webhook(ctx)
	if err != nil {
		return err
	}
	if err := sys.core(); err != nil {
		return err
	}
	source, err := users.New(users.Config{
		API: api, Webhook: sys.posts(hook),
		Pages: s.Pages, Rooms: s.Rooms, Users: s.Users, EventsPerSecond: s.EventsPerSecond,
	})
	if err != nil {
		return err
	}
	phones, err := sys.phones(api, source, page, hook)
	if err != nil {
		return err
	}
	for i := range s.Dispatchers {
		if err := sys.dispatcher(i+1, page, source.Tokens()); err != nil {
			return err
		}
	}
	admin, err := sys.admin(ctx)
	if err != nil {
		return err
	}

	fmt.Fprintf(stdout, "open      http://%s\nledger    http://%s/ledger\nmetrics   http://%s/metrics\nwebhook   http://%s/webhook\n\n",
		page, page, admin, hook)
	chat := &chat{source: source, api: api, ready: sys.isReady, length: length, settle: s.SettleTimeout, out: stdout}
	sys.actors = append([]service.Actor{{Name: "users", Run: chat.run}, {Name: "phones", Run: phones.Run}}, sys.actors...)
	if err := service.Run(ctx, sys.log, sys.actors...); err != nil {
		return err
	}
	return chat.balance()
}

func (s *system) close() error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// fake starts the platform; it returns the address of its page and Send API.
func (s *system) fake(ctx context.Context) (*fakeapi.API, string, error) {
	settings := fakeapi.DefaultSettings()
	settings.Text.PerSecond = s.LimitText
	var err error
	if settings.Latency, err = fakeapi.ParseLatency(latency); err != nil {
		return nil, "", err
	}
	api, err := fakeapi.New(fakeapi.Config{Settings: &settings})
	if err != nil {
		return nil, "", err
	}
	ln, err := listen(ctx, "HTTP_ADDR", s.HTTPAddr)
	if err != nil {
		return nil, "", err
	}
	// Its own context: it must answer until the dispatchers have ended, and it
	// is serving from now on because the others may ask at once.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- api.Serve(serving, ln) }()
	s.closers = append(s.closers, func() error { stop(); return <-ended })
	return api, ln.Addr().String(), nil
}

// posts is how the fake's users post to the webhook.
func (s *system) posts(hook string) fakehook.Config {
	return fakehook.Config{URL: "http://" + hook + "/webhook", Secret: appSecret, Log: s.log}
}

// phones are the users on the page that people play by hand.
func (s *system) phones(api *fakeapi.API, source *users.Users, page, hook string) (*web.Site, error) {
	return web.New(web.Config{
		API: api, Webhook: s.posts(hook),
		Pages: source.Pages(), BaseURL: "http://" + page, Ready: source.Joined(),
	})
}

// broker opens the queue for one part of the system.
func (s *system) broker(part string, reg prometheus.Registerer) (queue.Broker, error) {
	if s.AMQPURL == "" {
		if s.memory == nil {
			b, err := memory.New(broker.Topology(s.Queue))
			if err != nil {
				return nil, err
			}
			s.memory = b
			s.closers = append(s.closers, b.Close)
		}
		return s.memory, nil
	}
	b, err := broker.Open(service.BrokerSettings{AMQPURL: s.AMQPURL, QueueSettings: s.Queue}, part, s.log, reg)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, b.Close)
	return b, nil
}

// webhook starts the endpoint on a free port and returns its address.
func (s *system) webhook(ctx context.Context) (string, error) {
	reg := prometheus.WrapRegistererWith(prometheus.Labels{"program": "webhook"}, s.reg)
	b, err := s.broker("webhook", reg)
	if err != nil {
		return "", err
	}
	h, err := webhook.New(webhook.Config{
		Broker: b, Topology: b.Topology(), AppSecret: []byte(appSecret), VerifyToken: appSecret,
		Registerer: reg, Log: s.log,
	})
	if err != nil {
		return "", err
	}
	ln, err := service.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.actors = append(s.actors, service.Actor{Name: "webhook", Run: func(ctx context.Context) error {
		return service.ServeHTTP(ctx, service.NewHTTPServer(h, s.log), ln, shutdownTimeout)
	}})
	s.ready = append(s.ready, func(context.Context) error { return b.Ready() })
	return ln.Addr().String(), nil
}

func (s *system) core() error {
	database := s.DatabaseURL.Reveal()
	if database == "" {
		dir, err := os.MkdirTemp("", "chatclub-")
		if err != nil {
			return fmt.Errorf("make a folder for the database: %w", err)
		}
		s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
		database = "sqlite:" + filepath.Join(dir, "chatclub.db")
	}
	store, err := rooms.Open(rooms.Config{DatabaseURL: database, Capacity: s.Users})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, store.Close)
	reg := prometheus.WrapRegistererWith(prometheus.Labels{"program": "core"}, s.reg)
	b, err := s.broker("core", reg)
	if err != nil {
		return err
	}
	c, err := core.New(core.Config{
		Broker: b, Store: store, Limit: s.limit, Registerer: reg, Log: s.log, ShutdownTimeout: shutdownTimeout,
	})
	if err != nil {
		return err
	}
	s.actors = append(s.actors, service.Actor{Name: "core", Run: c.Run})
	s.ready = append(s.ready, c.Ready)
	s.operators = c.Handler()
	return nil
}

func (s *system) dispatcher(n int, graph string, tokens map[string]string) error {
	name := fmt.Sprintf("dispatcher-%d", n)
	reg := prometheus.WrapRegistererWith(prometheus.Labels{"program": name}, s.reg)
	const inFlight = 512
	send, err := sender.New(sender.Config{
		BaseURL: "http://" + graph + "/v23.0", Tokens: sender.StaticTokens(tokens),
		MaxInFlight: inFlight, CallTimeout: 10 * time.Second, Registerer: reg,
	})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { send.Close(); return nil })
	b, err := s.broker(name, reg)
	if err != nil {
		return err
	}
	gate := excess.New(excess.Config{Limit: s.limit, LaneHold: inFlight}, time.Now())
	d, err := dispatch.New(dispatch.Config{
		Broker: b, Sender: send, Gate: gate, Log: s.log, Registerer: reg, LanePrefetch: inFlight,
		Prefetch: 2 * inFlight, MaxInFlight: inFlight, MaxAttempts: 8, MessageTTL: time.Hour, ShutdownTimeout: shutdownTimeout,
	})
	if err != nil {
		return err
	}
	s.actors = append(s.actors, service.Actor{Name: name, Run: d.Run})
	s.ready = append(s.ready, func(context.Context) error { return d.Ready() })
	return nil
}

// limit is the fake's limit of a quota class.
func (s *system) limit(class string) float64 {
	return service.DispatcherSettings{LimitText: s.LimitText, LimitMedia: 10}.Limit(class)
}

// admin starts the admin server, which stops last, and returns its address.
func (s *system) admin(ctx context.Context) (string, error) {
	ln, err := listen(ctx, "ADMIN_ADDR", s.AdminAddr)
	if err != nil {
		return "", err
	}
	admin := service.NewAdmin(service.AdminConfig{
		Registry: s.reg, Log: s.log, Ready: s.isReady,
	})
	for _, pattern := range core.Operators() {
		admin.Handle(pattern, s.operators)
	}
	s.actors = append(s.actors, service.Actor{Name: "admin", Run: func(ctx context.Context) error {
		return service.ServeHTTP(ctx, service.NewHTTPServer(admin.Handler(), s.log), ln, shutdownTimeout)
	}})
	return ln.Addr().String(), nil
}

// isReady is nil when every part is ready, otherwise the first one's reason:
// most share one cause.
func (s *system) isReady(ctx context.Context) error {
	for _, ready := range s.ready {
		if err := ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// listen binds addr. When that is the setting's default and taken, a free port
// does as well: nobody asked for this one.
func listen(ctx context.Context, setting, addr string) (net.Listener, error) {
	ln, err := service.Listen(ctx, addr)
	if errors.Is(err, syscall.EADDRINUSE) && os.Getenv(setting) == "" {
		return service.Listen(ctx, "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return ln, nil
}
