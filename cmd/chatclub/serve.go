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
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/sender"
	"chatclub/internal/service"
	"chatclub/internal/term"
)

const (
	// shutdownTimeout bounds the end of each part. The calls in flight go to our
	// own fake and take its latency, far below a second.
	shutdownTimeout = 5 * time.Second
	// latency of the fake is like that of a fast API.
	latency = "lognormal:40ms,150ms"
	// appSecret signs the simulated users' webhooks. Nothing outside this
	// process knows or needs it.
	appSecret = "quickstart"
)

// system is the wiring of one run. What is in closers is closed in reverse order.
type system struct {
	settings
	stdout    io.Writer
	line      *term.Line // at the bottom of stdout
	firstPage int
	log       *slog.Logger
	reg       *prometheus.Registry
	broker    app.BrokerSettings
	memory    *memory.Broker // nil with AMQP_URL
	closers   []func() error
	programs  []*app.Program
	actors    []service.Actor // in the order of shutdown
}

func newSystem(s settings, stdout, stderr io.Writer) *system {
	line := term.NewLine(stdout)
	return &system{
		settings: s, stdout: line.Above(stdout), line: line,
		firstPage: users.FreshPage(time.Now()),
		broker:    app.BrokerSettings{AMQPURL: s.AMQPURL, QueueSettings: s.queues()},
		log:       service.NewLogger(service.LogSettings{Level: s.LogLevel}, line.Above(stderr)),
		reg:       service.NewRegistry(),
	}
}

// serve wires everything and runs it until the users have chatted for length
// or ctx ends. Then it waits for the copies under way, until again ends,
// and prints the balance. It returns an error when the ledger shows a loss or a
// duplicate.
func (s *system) serve(ctx, again context.Context, length time.Duration) (err error) {
	defer func() { err = errors.Join(err, s.close()) }()

	api, page, err := s.fake(ctx)
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
	people, err := users.New(users.Config{
		API: api, Webhook: s.posts(hook),
		Pages: s.Pages, FirstPage: s.firstPage, Rooms: s.Rooms, Users: s.Users, EventsPerSecond: s.EventsPerSecond,
	})
	if err != nil {
		return err
	}
	phones, err := s.phones(api, people, page, hook)
	if err != nil {
		return err
	}
	for i := range s.Dispatchers {
		if err := s.dispatcher(ctx, i+1, page, people.Tokens()); err != nil {
			return err
		}
	}
	admin, err := s.admin(ctx, core)
	if err != nil {
		return err
	}

	s.log.InfoContext(ctx, "chatclub listens", "page", page, "admin", admin, "webhook", hook)
	fmt.Fprintf(s.stdout, "chatclub is running: open http://%s\n", page)
	chat := &chat{
		users: people, api: api, ready: s.isReady, length: length, settle: s.SettleTimeout, out: s.stdout, line: s.line,
		begun: fmt.Sprintf("%s, %s, %d people; metrics and the operators' API are at http://%s",
			number(s.Dispatchers, "dispatcher", "dispatchers"), number(s.Pages, "page", "pages"), s.Pages*s.Rooms*s.Users, admin),
	}
	s.actors = append([]service.Actor{{Name: "users", Run: func(ctx context.Context) error { return chat.run(ctx, again) }}, {Name: "phones", Run: phones.Run}}, s.actors...)
	ended := service.Run(ctx, s.log, s.actors...)
	rest, err := s.account(context.WithoutCancel(ctx), api.Ledger(), people)
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
	top := s.broker.Topology()
	if s.AMQPURL != "" {
		s.closers = append(s.closers, func() error { return s.deleteQueues(context.WithoutCancel(ctx), top) })
		return nil
	}
	if s.memory, err = memory.New(top); err != nil {
		return err
	}
	s.closers = append(s.closers, s.memory.Close)
	return nil
}

// deleteQueues removes all queues of this run from RabbitMQ, and the lanes of its
// pages, with what is left on them.
func (s *system) deleteQueues(ctx context.Context, top queue.Topology) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	var lanes []string
	for i := range s.Pages {
		page := fakeapi.PageID(s.firstPage + i)
		lanes = append(lanes, top.Lane(page, string(message.ClassText)), top.Lane(page, string(message.ClassMedia)))
	}
	var errs []error
	for _, url := range s.broker.URLs() {
		_, err := rabbit.Delete(ctx, url, top, lanes...)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("remove the queues %s.*: %w", top.Prefix, errors.Join(errs...))
}

// fake starts the platform; it returns the address of its page and Send API.
func (s *system) fake(ctx context.Context) (*fakeapi.API, string, error) {
	settings := fakeapi.DefaultSettings()
	settings.Text.PerSecond = s.LimitText
	var err error
	if settings.Latency, err = fakeapi.ParseLatency(latency); err != nil {
		return nil, "", err
	}
	host, _, _ := net.SplitHostPort(s.HTTPAddr) // Validate has checked it
	api, err := fakeapi.New(fakeapi.Config{Settings: &settings, Host: host, Keep: s.LedgerKeep})
	if err != nil {
		return nil, "", err
	}
	ln, err := listen(ctx, "HTTP_ADDR", s.HTTPAddr)
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

// posts is how the fake's users post to the webhook.
func (s *system) posts(hook string) webhook.Config {
	return webhook.Config{URL: "http://" + hook + "/webhook", Secret: appSecret, Log: s.log}
}

// phones are the users on the page that people play by hand.
func (s *system) phones(api *fakeapi.API, people *users.Users, page, hook string) (*web.Site, error) {
	return web.New(web.Config{
		API: api, Webhook: s.posts(hook),
		Pages: people.Pages(), BaseURL: "http://" + page, Ready: people.Joined(),
	})
}

// options are what every program is given.
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
	return app.ProgramSettings{Broker: s.broker}
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
	set.RoomCapacity, set.RoomIdle, set.FloodLimit = s.Users, s.RoomIdle, s.FloodLimit
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
	p, err := app.NewCore(ctx, app.CoreConfig{Settings: set, Options: s.options("core")})
	if err != nil {
		return nil, err
	}
	s.run("core", p)
	return p, nil
}

func (s *system) dispatcher(ctx context.Context, n int, graph string, tokens map[string]string) error {
	name := fmt.Sprintf("dispatcher-%d", n)
	set := service.Defaults[app.DispatcherSettings]()
	set.ProgramSettings = s.programSettings()
	set.GraphURL, set.LimitText, set.ShutdownTimeout = "http://"+graph+"/v23.0", s.LimitText, shutdownTimeout
	p, err := app.NewDispatcher(ctx, app.DispatcherConfig{
		Settings: set, Options: s.options(name), Tokens: sender.StaticTokens(tokens),
	})
	if err != nil {
		return err
	}
	s.run(name, p)
	return nil
}

// admin adds the admin server of all programs, which stops last and has core's
// pages for operators. It returns the address.
func (s *system) admin(ctx context.Context, core *app.Program) (string, error) {
	ln, err := listen(ctx, "ADMIN_ADDR", s.AdminAddr)
	if err != nil {
		return "", err
	}
	admin := service.NewAdmin(service.AdminConfig{
		Addr: s.AdminAddr, Listener: ln, Registry: s.reg, Token: s.AdminToken, Log: s.log, Ready: s.isReady,
	})
	core.MountPages(admin)
	s.actors = append(s.actors, admin.Actor())
	return admin.Addr(), nil
}

// isReady returns nil when every program is ready, otherwise the first one's
// reason, because most share one cause.
func (s *system) isReady(ctx context.Context) error {
	for _, p := range s.programs {
		if err := p.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// listen binds addr. When that is the setting's default and in use, it binds a
// free port instead, because no user chose that one.
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
