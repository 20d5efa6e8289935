package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/fakeapi/users"
	"chatclub/fakeapi/web"
	"chatclub/fakeapi/webhook"
	"chatclub/internal/app"
	"chatclub/internal/console"
	"chatclub/internal/demo"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/service"
)

const (
	// shutdownTimeout bounds the end of each part. The calls in flight go to our
	// own fake and take its latency, far below a second.
	shutdownTimeout = 5 * time.Second
	// deleteTimeout bounds the end of all queues, 110 with 8 partitions. A busy RabbitMQ
	// needs 50 ms for each.
	deleteTimeout = 20 * time.Second
	// latency of the fake is like that of a fast API.
	latency = "lognormal:40ms,150ms"
	// prefetch is less than a dispatcher's default, so that a page in excess gets its
	// lane within a second.
	prefetch = 512
	// appSecret signs the simulated users' webhooks. Nothing outside this
	// process knows or needs it.
	appSecret = "quickstart"
)

// system is the wiring of one run. The closers run in reverse order.
type system struct {
	settings
	stdout    io.Writer
	firstPage int
	log       *slog.Logger
	level     *service.LogLevel // of log
	reg       *prometheus.Registry
	broker    app.BrokerSettings
	tour      bool           // is played
	memory    *memory.Broker // nil with AMQP_URL
	divert    *demo.Divert   // core's connection
	crew      *demo.Crew
	closers   []func() error
	programs  []*app.Program
	actors    []service.Actor // in the order of shutdown
}

func newSystem(s settings, stdout, stderr io.Writer) *system {
	log, level := service.NewLogger(service.LogSettings{Level: s.LogLevel}, stderr)
	return &system{
		settings: s, stdout: stdout,
		firstPage: users.FreshPage(time.Now()),
		broker:    app.BrokerSettings{AMQPURL: s.AMQPURL, QueueSettings: s.queues()},
		log:       log,
		level:     level,
		reg:       service.NewRegistry(),
	}
}

// serve wires everything and runs it until the users have chatted for length
// or ctx ends. Then it waits for the copies under way, until again ends,
// and prints the balance. It returns an error when the ledger shows a loss or a
// duplicate.
func (s *system) serve(ctx, again context.Context, length time.Duration) (err error) {
	defer func() { err = errors.Join(err, s.close()) }()

	ln, err := listen(ctx, "HTTP_ADDR", s.HTTPAddr, service.Defaults[settings]().HTTPAddr)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { return ignoreClosed(ln.Close()) })
	api, fake, err := s.fake(ctx)
	if err != nil {
		return err
	}
	if err := s.openQueues(ctx); err != nil {
		return err
	}
	hook, err := s.webhook(ctx)
	if err != nil {
		return err
	}
	core, err := s.core(ctx)
	if err != nil {
		return err
	}
	crowd, err := demo.NewCrowd(demo.CrowdConfig{
		API: api, Webhook: s.posts(hook), Pages: s.Pages, FirstPage: s.firstPage, Rooms: s.Rooms, Users: s.Users,
		EventsPerSecond: s.EventsPerSecond, Waves: s.Waves, Limit: s.LimitText,
	})
	if err != nil {
		return err
	}
	phones, err := s.phones(api, crowd, fake, hook)
	if err != nil {
		return err
	}
	s.crew = s.dispatchers(api)
	shown, page, err := s.show(demo.Config{
		API: api, Site: phones, Fake: "http://" + fake, Crowd: crowd, Crew: s.crew, Divert: s.divert, Depth: s.depth,
	})
	if err != nil {
		return err
	}
	admin, err := s.admin(ctx, core)
	if err != nil {
		return err
	}
	// They run from now on, so that all that can fail has been done.
	if _, err := s.crew.Add(ctx, s.Dispatchers); err != nil {
		return err
	}

	s.log.InfoContext(ctx, "chatclub listens", "page", ln.Addr().String(), "platform", fake, "admin", admin.Addr(), "webhook", hook)
	fmt.Fprintf(s.stdout, "chatclub is running: open http://%s\n", ln.Addr())
	chat := &chat{
		crowd: crowd, api: api, ready: s.isReady, explained: func() int64 { return shown.Verdict().Explained }, say: shown.Say, length: length, settle: s.SettleTimeout, out: s.stdout,
		begun: fmt.Sprintf("%s, %s, %d people; metrics and the operators' API are at http://%s, the platform at http://%s",
			console.Plural(s.Dispatchers, "dispatcher", "dispatchers"), console.Plural(s.Pages, "page", "pages"), crowd.People(), admin.Addr(), fake),
	}
	first := []service.Actor{
		{Name: "users", Run: func(ctx context.Context) error { return chat.run(ctx, again) }},
		{Name: "phones", Run: phones.Run},
		{Name: "demo", Run: shown.Run},
	}
	if s.tour {
		first = append([]service.Actor{{Name: "tour", Run: func(ctx context.Context) error { return tour(ctx, crowd, shown) }}}, first...)
	}
	s.actors = slices.Concat(first, s.actors, []service.Actor{
		{Name: "dispatchers", Run: s.crew.Run},
		{Name: "console", Run: page.Run},
		{Name: "page", Run: func(ctx context.Context) error { return servePage(ctx, ln, page, []string{hostOf(s.HTTPAddr)}, s.log) }},
		admin.Actor(),
	})
	ended := service.Run(ctx, s.log, s.actors...)
	rest, err := s.account(context.WithoutCancel(ctx), api.Ledger(), crowd)
	return errors.Join(ended, err, chat.balance(rest))
}

func (s *system) close() error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// openQueues makes the queue in memory. With AMQP_URL the programs declare theirs,
// and close removes them.
func (s *system) openQueues(ctx context.Context) (err error) {
	top := s.topology()
	if s.AMQPURL != "" {
		s.closers = append(s.closers, func() error { return s.deleteQueues(context.WithoutCancel(ctx), top) })
	} else {
		if s.memory, err = memory.New(top); err != nil {
			return err
		}
		s.closers = append(s.closers, s.memory.Close)
	}
	broker, err := s.connect("demo", prometheus.WrapRegistererWith(prometheus.Labels{"program": "demo"}, s.reg))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, broker.Close)
	s.divert = &demo.Divert{Broker: broker}
	return nil
}

// topology is that of the programs, with the queue of the article's way.
func (s *system) topology() queue.Topology {
	top := s.broker.Topology()
	top.WithShared = true
	return top
}

// deleteQueues removes all queues of this run from RabbitMQ, and the lanes of its
// pages, with the messages left on them.
func (s *system) deleteQueues(ctx context.Context, top queue.Topology) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	var errs []error
	for _, url := range s.broker.URLs() {
		err := rabbit.Delete(ctx, url, top)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("remove the queues %s.*: %w", top.Prefix, errors.Join(errs...))
}

// fake starts the platform on a free port; it returns the address of its own page.
func (s *system) fake(ctx context.Context) (*fakeapi.API, string, error) {
	settings := fakeapi.DefaultSettings()
	settings.Text.PerSecond = s.LimitText
	var err error
	if settings.Latency, err = fakeapi.ParseLatency(latency); err != nil {
		return nil, "", err
	}
	api, err := fakeapi.New(fakeapi.Config{Settings: &settings, Keep: s.LedgerKeep})
	if err != nil {
		return nil, "", err
	}
	ln, err := service.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	// It has its own context, because it must answer until the dispatchers have
	// ended. It serves from now on, because the others may call at once.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- api.Serve(serving, ln) }()
	s.closers = append(s.closers, func() error { stop(); return <-ended })
	return api, ln.Addr().String(), nil
}

// posts returns the settings with which the fake's users post to the webhook.
func (s *system) posts(hook string) webhook.Config {
	return webhook.Config{URL: "http://" + hook + "/webhook", Secret: appSecret, Log: s.log}
}

// phones are the users on the page that people play by hand.
func (s *system) phones(api *fakeapi.API, crowd *demo.Crowd, fake, hook string) (*web.Site, error) {
	pages := crowd.Pages()
	return web.New(web.Config{
		API: api, Webhook: s.posts(hook),
		Pages: pages, Quiet: pages[len(pages)-1], BaseURL: "http://" + fake, Ready: crowd.Joined(),
	})
}

// options returns the options of webhook and core.
func (s *system) options(name string) app.Options {
	o := app.Options{Name: name, Registry: s.reg, Log: s.log}
	if s.memory != nil {
		o.Broker = s.memory
	}
	return o
}

// programSettings are those of every program. None has an admin server, because
// the system has one for all.
func (s *system) programSettings() app.ProgramSettings {
	return app.ProgramSettings{Broker: s.broker, Trace: s.Trace}
}

// run adds a program that was wired to those that run.
func (s *system) run(name string, p *app.Program) {
	s.programs = append(s.programs, p)
	s.closers = append(s.closers, p.Close)
	s.actors = append(s.actors, service.Actor{Name: name, Run: p.Run})
}

// webhook wires the endpoint on a free port and returns its address.
func (s *system) webhook(ctx context.Context) (string, error) {
	set := service.Defaults[app.WebhookSettings]()
	set.ProgramSettings = s.programSettings()
	set.HTTPAddr, set.AppSecret, set.VerifyToken, set.ShutdownTimeout = "127.0.0.1:0", appSecret, appSecret, shutdownTimeout
	p, err := app.NewWebhook(ctx, app.WebhookConfig{Settings: set, Options: s.options("webhook")})
	if err != nil {
		return "", err
	}
	s.run("webhook", p)
	return p.HTTPAddr(), nil
}

func (s *system) core(ctx context.Context) (*app.Program, error) {
	set := service.Defaults[app.CoreSettings]()
	set.ProgramSettings = s.programSettings()
	set.RoomCapacity, set.RoomIdle, set.FloodLimit = s.capacity(), s.RoomIdle, s.FloodLimit
	set.FloodShare = s.FloodShare
	set.LimitText, set.ShutdownTimeout = s.LimitText, shutdownTimeout
	if set.DatabaseURL = s.DatabaseURL; set.DatabaseURL == "" {
		dir, err := os.MkdirTemp("", "chatclub-")
		if err != nil {
			return nil, fmt.Errorf("make a folder for the database: %w", err)
		}
		s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
		set.DatabaseURL = service.Secret("sqlite:" + filepath.Join(dir, "chatclub.db"))
	}
	options := s.options("core")
	options.Broker = s.divert
	p, err := app.NewCore(ctx, app.CoreConfig{Settings: set, Options: options})
	if err != nil {
		return nil, err
	}
	s.run("core", p)
	return p, nil
}

// dispatchers is the crew, without any yet. They call the platform without a socket.
func (s *system) dispatchers(api *fakeapi.API) *demo.Crew {
	set := service.Defaults[app.DispatcherSettings]()
	set.ProgramSettings = s.programSettings()
	set.GraphURL, set.LimitText, set.ShutdownTimeout = "http://fakeapi/v23.0", s.LimitText, shutdownTimeout
	set.JoinTexts, set.Prefetch = s.JoinTexts, prefetch
	return demo.NewCrew(demo.CrewConfig{
		Settings: set, Connect: s.connect, Platform: api.Transport(), Tokens: api, Registry: s.reg, Log: s.log,
	})
}

// connect opens one more connection to the broker.
func (s *system) connect(name string, metrics prometheus.Registerer) (queue.Broker, error) {
	if s.memory != nil {
		return kept{s.memory}, nil
	}
	return rabbit.Open(rabbit.Config{
		URLs: s.broker.URLs(), Topology: s.topology(), Name: "chatclub " + name, Log: s.log, Registerer: metrics,
	})
}

// kept is a broker that stays open for the others.
type kept struct{ queue.Broker }

// Close does nothing.
func (kept) Close() error { return nil }

// depth returns the number of messages on the queues in memory, but for dead ones; -1
// with RabbitMQ, which would have to be asked for each.
func (s *system) depth(ctx context.Context) int {
	if s.memory == nil {
		return -1
	}
	n := s.memory.Delayed()
	for _, name := range s.memory.Queues() {
		if info, err := s.memory.Inspect(ctx, name); err == nil && name != s.memory.Topology().Dead() {
			n += info.Ready
		}
	}
	return n
}

// show makes the demonstration and the page that shows it.
func (s *system) show(cfg demo.Config) (*demo.Demo, *console.Console, error) {
	d, err := demo.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	page, err := console.New(console.Config{Replicas: s.crew.Replicas, Token: s.AdminToken.Reveal(), Demo: d})
	if err != nil {
		return nil, nil, err
	}
	d.Show(page)
	return d, page, nil
}

// hostOf returns the host of an address that Validate has checked.
func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// servePage serves chatclub's page on ln, under the names in hosts, until ctx ends.
func servePage(ctx context.Context, ln net.Listener, page *console.Console, hosts []string, log *slog.Logger) error {
	streams, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, end)() // or the shutdown would wait for them
	srv := service.NewHTTPServer(service.NewGuard(page.Handler(), service.GuardConfig{Hosts: hosts, Log: log}), log)
	srv.BaseContext = func(net.Listener) context.Context { return streams }
	return service.ServeHTTP(ctx, srv, service.Bound(srv, ln, service.FileShare(service.AdminConnections), log), shutdownTimeout)
}

// tour plays the tour when all have joined. Its end ends the program.
func tour(ctx context.Context, crowd *demo.Crowd, d *demo.Demo) error {
	select {
	case <-crowd.Joined():
		d.Play(ctx)
	case <-ctx.Done():
	}
	return nil
}

// ignoreClosed drops the error of a listener that its server has closed.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// admin adds the admin server of all programs, which stops last and has core's
// pages for operators.
func (s *system) admin(ctx context.Context, core *app.Program) (*service.Admin, error) {
	ln, err := listen(ctx, "ADMIN_ADDR", s.AdminAddr, service.Defaults[settings]().AdminAddr)
	if err != nil {
		return nil, err
	}
	admin := service.NewAdmin(service.AdminConfig{
		Addr: s.AdminAddr, Listener: ln, Registry: s.reg, Tokens: service.Tokens{Admin: s.AdminToken}, Log: s.log, LogLevel: s.level, Ready: s.isReady,
	})
	core.MountPages(admin)
	s.crew.Mount(admin, admin.Addr())
	return admin, nil
}

// isReady returns nil when every program is ready, otherwise the first one's
// reason, because most share one cause.
func (s *system) isReady(ctx context.Context) error {
	for _, p := range s.programs {
		if err := p.Ready(ctx); err != nil {
			return err
		}
	}
	return s.crew.Ready(ctx)
}

// listen binds addr. When that is the setting's default and in use, it binds a
// free port instead: most users did not choose that one.
func listen(ctx context.Context, setting, addr, byDefault string) (net.Listener, error) {
	ln, err := service.Listen(ctx, addr)
	if errors.Is(err, syscall.EADDRINUSE) && addr == byDefault {
		return service.Listen(ctx, "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return ln, nil
}
