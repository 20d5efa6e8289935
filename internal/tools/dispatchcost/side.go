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
	"runtime/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/internal/app"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
	"chatclub/internal/service"
)

// The processes that are started.
const (
	nameBare       = "bare"
	nameDispatcher = "dispatcher"
	nameBatch      = "batch" // the dispatcher with batch calls
	nameFake       = "fakeapi"
)

func knownSide(name string) bool {
	return name == nameBare || name == nameDispatcher || name == nameBatch
}

const (
	callTimeout  = 10 * time.Second // the sender's default
	endTimeout   = 10 * time.Second // for what a side holds when it ends
	urlVariable  = "AMQP_URL"       // it may hold a password, and others can read arguments
	graphVersion = "/v23.0"
)

// sideConfig is what a started process is told.
type sideConfig struct {
	Name     string
	Prefix   string
	Graph    string
	Profile  string
	Prefetch int
	Workers  int
	Pages    int
	Quota    int // calls per second that each page may make
	Wait     time.Duration
	Latency  fakeapi.Latency

	requests func() int64 // made so far, to the Send API
}

// args are the flags that tell it.
func (s sideConfig) args() []string {
	return []string{
		"-prefix", s.Prefix, "-graph", s.Graph, "-profile", s.Profile, "-latency", s.Latency.String(),
		"-prefetch", fmt.Sprint(s.Prefetch), "-workers", fmt.Sprint(s.Workers), "-pages", fmt.Sprint(s.Pages),
		"-quota", fmt.Sprint(s.Quota), "-batchwait", s.Wait.String(),
	}
}

// topology is the queues of the side. The dispatcher has as many lanes as by
// default, though nothing is on them; the loop has no use for any.
func (s sideConfig) topology() queue.Topology {
	t := queue.Topology{Prefix: s.Prefix, Lanes: 64}
	if s.Name == nameBare {
		t.Lanes = 1
	}
	return t
}

// token is the token that fakeapi gives a page.
func token(page string) string { return "token-" + page }

// tokens are the tokens of all pages.
func (s sideConfig) tokens() map[string]string {
	m := make(map[string]string, s.Pages)
	for i := range s.Pages {
		m[fakeapi.PageID(i)] = token(fakeapi.PageID(i))
	}
	return m
}

// serve is a started process: it works until stdin ends.
func (s *sideConfig) serve(ctx context.Context, stdin io.Reader, stdout io.Writer) (err error) {
	if s.Profile != "" {
		f, err := os.Create(filepath.Join(s.Profile, s.Name+".pprof"))
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.requests = func() int64 { return 0 }
	begin := s.dispatcher
	switch s.Name {
	case nameBare:
		begin = s.bare
	case nameFake:
		begin = s.fake
	case nameDispatcher, nameBatch:
	default:
		return fmt.Errorf("nothing is called %.20q", s.Name)
	}
	hello, wait, err := begin(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, hello)
	err = answerLines(stdin, stdout, s.requests)
	cancel()
	return errors.Join(err, wait())
}

// fake begins to judge.
func (s *sideConfig) fake(ctx context.Context) (hello string, wait func() error, err error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	settings := fakeapi.DefaultSettings()
	settings.Latency, settings.Text.PerSecond = s.Latency, s.Quota
	settings.QuotaPerPerson = 0 // of 24 hours: minutes at full speed use it up
	api, err := fakeapi.New(fakeapi.Config{Settings: &settings})
	if err != nil {
		return "", nil, errors.Join(err, ln.Close())
	}
	return "http://" + ln.Addr().String(), inBackground(func() error { return api.Serve(ctx, ln) }), nil
}

// dispatcher begins to dispatch as cmd/dispatcher does.
func (s *sideConfig) dispatcher(ctx context.Context) (hello string, wait func() error, err error) {
	reg := prometheus.NewRegistry()
	s.requests = func() int64 { return counter(reg, "chatclub_sender_requests_total") }
	set := service.Defaults[app.DispatcherSettings]()
	set.Admin.Addr = ""
	set.Broker.AMQPURL = service.Secret(os.Getenv(urlVariable))
	set.Broker.Prefix, set.Broker.Lanes = s.topology().Prefix, s.topology().Lanes
	set.GraphURL, set.LimitText = s.Graph+graphVersion, s.Quota
	set.Prefetch, set.MaxInFlight, set.ShutdownTimeout = s.Prefetch, s.Workers, endTimeout
	if s.Name == nameBatch {
		set.BatchCalls, set.BatchWait = sender.MaxBatch, s.Wait
	}
	p, err := app.NewDispatcher(ctx, app.DispatcherConfig{
		Settings: set, Tokens: sender.StaticTokens(s.tokens()),
		Options: app.Options{
			Registry: reg, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		},
	})
	if err != nil {
		return "", nil, err
	}
	return "ready", inBackground(func() error { return p.Run(ctx) }), nil
}

// counter is the value of a counter without labels.
func counter(reg prometheus.Gatherer, name string) int64 {
	families, err := reg.Gather()
	if err != nil {
		return 0
	}
	for _, f := range families {
		if f.GetName() == name {
			return int64(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	return 0
}

// inBackground begins f and returns the function that waits for it.
func inBackground(f func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error { return <-done }
}
