package app

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"chatclub/internal/aimd"
	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/metric"
	"chatclub/internal/partitions"
	"chatclub/internal/sender"
	"chatclub/internal/service"
)

// DispatcherSettings are those of cmd/dispatcher.
type DispatcherSettings struct {
	PagesFile         string         `env:"PAGES_FILE,required" doc:"JSON file that gives the access token of each page id, and limits of its own where it has any; read again when it changes."`
	GraphURL          string         `env:"GRAPH_URL" envDefault:"https://graph.facebook.com/v23.0" doc:"Address of the Send API, with its version."`
	AppSecret         service.Secret `env:"APP_SECRET" doc:"The app's secret, with which each call carries an appsecret_proof; empty: none, which an app may refuse."`
	Prefetch          int            `env:"PREFETCH" envDefault:"2048" doc:"Messages of one partition held at most, in flight or waiting, 64 at least: with fewer, pages that share a lane lose their order. Lanes have LANE_PREFETCH each."`
	MaxInFlight       int            `env:"MAX_IN_FLIGHT" envDefault:"4096" doc:"Send API calls at a time; a page at its limit has 240 (300/s of 0.8 s each). Each takes a connection and some 50 KiB."`
	LanePrefetch      int            `env:"LANE_PREFETCH" envDefault:"8192" doc:"Messages of one lane held at most: what waits here for one recipient can be joined."`
	JoinTexts         int            `env:"JOIN_TEXTS" envDefault:"8" doc:"Texts to one recipient that had to wait and go out as one message, a line each, at most; 1: each has its own."`
	LimitText         int            `env:"LIMIT_TEXT" envDefault:"300" doc:"Calls per second that the platform takes for one page."`
	LimitMedia        int            `env:"LIMIT_MEDIA" envDefault:"10" doc:"Calls per second with audio or video that the platform takes for one page, counted apart from LIMIT_TEXT."`
	LimitRecipient    float64        `env:"LIMIT_RECIPIENT" envDefault:"0" doc:"Calls per second of one class that are made to one person at most, such as 0.5; texts that wait meanwhile go out as one. 0: any number."`
	LatencyTarget     time.Duration  `env:"LATENCY_TARGET" envDefault:"0s" doc:"Latency of the calls to hold, at LATENCY_PERCENTILE, by having fewer in flight; below the API's own it stops nearly everything. 0s: MAX_IN_FLIGHT alone bounds them."`
	LatencyPercentile int            `env:"LATENCY_PERCENTILE" envDefault:"95" doc:"Percent of the calls that are to be within LATENCY_TARGET, 1 to 99."`
	LatencyBackoff    float64        `env:"LATENCY_BACKOFF" envDefault:"0.9" doc:"What a cut leaves of the calls in flight while LATENCY_TARGET is exceeded; 0.5 follows a sudden load sooner and uses less of the API."`
	MinInFlight       int            `env:"MIN_IN_FLIGHT" envDefault:"8" doc:"Calls at a time that LATENCY_TARGET leaves at least; the log says when it leaves no more."`
	CallTimeout       time.Duration  `env:"CALL_TIMEOUT" envDefault:"10s" doc:"How long one Send API call may take; the slowest seen take 1.9 s."`
	MaxAttempts       int            `env:"MAX_ATTEMPTS" envDefault:"8" doc:"Failed calls after which a message goes to the dead-letter queue; throttled ones do not count."`
	MessageTTL        time.Duration  `env:"MESSAGE_TTL" envDefault:"1h" doc:"Age at which a message is no longer sent but goes to the dead-letter queue; a broadcast has its deadline instead."`
	Feedback          bool           `env:"FEEDBACK" envDefault:"true" doc:"Tell core, or a bot in its place, on inbound of persons and pages that cannot be sent to. Tell it of the backlog and of limits in PAGES_FILE, too, by which FRESH_WITHIN and FLOOD_SHARE go. false where nothing consumes inbound: it would grow."`
	MaxBacklog        int            `env:"MAX_BACKLOG" envDefault:"0" doc:"Messages that may be ready on a page's partition and lanes: with more POST /messages answers 429. 0: any number."`
	ShutdownTimeout   time.Duration  `env:"SHUTDOWN_TIMEOUT" envDefault:"20s" doc:"How long calls in flight are waited for when the program is stopped. After 5 s their partitions go to others, which send those messages again."`
	ProgramSettings
}

// About says what the program does.
func (DispatcherSettings) About() string {
	return "dispatcher sends what is on the outbound partitions, within the limits of each page."
}

// Validate names every fault.
func (s DispatcherSettings) Validate() error {
	return errors.Join(
		service.CheckHTTPURL("GRAPH_URL", s.GraphURL),
		service.CheckRange("PREFETCH", s.Prefetch, dispatch.MinPrefetch, math.MaxUint16), // the protocol's field has 16 bits
		service.CheckRange("MAX_IN_FLIGHT", s.MaxInFlight, dispatch.MinInFlight, 65535),
		service.CheckRange("LANE_PREFETCH", s.LanePrefetch, dispatch.MinLanePrefetch, math.MaxUint16),
		service.CheckRange("JOIN_TEXTS", s.JoinTexts, 1, 50),
		service.CheckRange("LIMIT_TEXT", s.LimitText, 1, MaxLimit),
		service.CheckRange("LIMIT_MEDIA", s.LimitMedia, 1, MaxLimit),
		s.checkRecipient(),
		service.CheckDuration("LATENCY_TARGET", s.LatencyTarget, 0, time.Minute),
		service.CheckRange("LATENCY_PERCENTILE", s.LatencyPercentile, 1, 99),
		service.CheckRange("LATENCY_BACKOFF", s.LatencyBackoff, 0.1, 0.99),
		service.CheckRange("MIN_IN_FLIGHT", s.MinInFlight, 1, 65535),
		service.CheckDuration("CALL_TIMEOUT", s.CallTimeout, 10*time.Millisecond, 5*time.Minute),
		service.CheckRange("MAX_ATTEMPTS", s.MaxAttempts, 1, 1000),
		service.CheckDuration("MESSAGE_TTL", s.MessageTTL, time.Second, 24*time.Hour), // Messenger's window
		service.CheckRange("MAX_BACKLOG", s.MaxBacklog, 0, math.MaxInt32),
		service.CheckDuration("SHUTDOWN_TIMEOUT", s.ShutdownTimeout, time.Millisecond, maxShutdown),
		s.checkTimeouts(),
	)
}

// checkTimeouts wants a call to end before the shutdown does: an abandoned call is made
// again by another dispatcher.
func (s DispatcherSettings) checkTimeouts() error {
	if s.CallTimeout >= s.ShutdownTimeout {
		return service.Faultf("CALL_TIMEOUT", "%s must be below SHUTDOWN_TIMEOUT, %s", s.CallTimeout, s.ShutdownTimeout)
	}
	return nil
}

func (s DispatcherSettings) checkRecipient() error {
	if err := (message.Limits{Recipient: s.LimitRecipient}).Validate(); err != nil {
		return service.Faultf("LIMIT_RECIPIENT", "%g must be 0, or 0.01 to %d", s.LimitRecipient, MaxLimit)
	}
	return nil
}

// limits returns the platform's limits, as far as the settings know them.
func (s DispatcherSettings) limits() message.Limits {
	return message.Limits{Text: float64(s.LimitText), Media: float64(s.LimitMedia), Recipient: s.LimitRecipient}
}

// DispatcherConfig is the configuration of NewDispatcher.
type DispatcherConfig struct {
	Settings DispatcherSettings
	Options

	Tokens    sender.TokenSource // nil: those in PAGES_FILE
	Transport http.RoundTripper  // to the Send API; nil: the sender's own
	Sender    dispatch.Caller    // makes the calls; nil: a sender with Tokens and Transport
	Random    func() float64     // [0, 1), safe for concurrent use; nil: math/rand
}

// NewDispatcher wires a dispatcher. Its shutdown: no more deliveries, calls in
// flight finish and are settled within SHUTDOWN_TIMEOUT, then the broker's
// connection is closed, then the admin server.
func NewDispatcher(ctx context.Context, cfg DispatcherConfig) (_ *Program, err error) {
	s := cfg.Settings
	w, err := begin(ctx, "dispatcher", s.ProgramSettings, cfg.Options)
	if err != nil {
		return nil, err
	}
	defer w.undo(&err)
	service.LogStart(ctx, w.Log, s)
	pages := sender.StaticTokens(nil) // or those that follow PAGES_FILE
	if cfg.Sender == nil && cfg.Tokens == nil {
		if pages, err = sender.OpenPagesFile(s.PagesFile, w.Log); err != nil {
			return nil, &service.SettingsError{Faults: []error{service.Named("PAGES_FILE", err)}}
		}
		cfg.Tokens = pages
	}
	if cfg.Sender == nil {
		if cfg.Sender, err = w.sender(cfg); err != nil {
			return nil, err
		}
	}
	var lacks, knows func(page string) bool // nil: Sender alone knows the tokens
	if cfg.Tokens != nil {
		lacks = sender.LacksToken(cfg.Tokens)
		knows = func(page string) bool { _, known := cfg.Tokens.Token(page); return known }
	}
	watch := partitions.NewWatch(w.Broker, w.Broker.Topology().Outbounds(), w.Log, metric.Set{Subsystem: "dispatch", Registerer: w.metrics})
	d, err := dispatch.New(dispatch.Config{
		Broker:          w.Broker,
		Sender:          cfg.Sender,
		Limits:          func(page string) message.Limits { return pages.Limits(page).Or(s.limits()) },
		LacksToken:      lacks,
		Prefetch:        s.Prefetch,
		LanePrefetch:    s.LanePrefetch,
		JoinTexts:       s.JoinTexts,
		MaxInFlight:     s.MaxInFlight,
		Latency:         aimd.Config{Min: s.MinInFlight, Target: s.LatencyTarget, Percentile: float64(s.LatencyPercentile) / 100, Backoff: s.LatencyBackoff},
		MaxAttempts:     s.MaxAttempts,
		MessageTTL:      s.MessageTTL,
		NoFeedback:      !s.Feedback,
		ShutdownTimeout: s.ShutdownTimeout,
		Registerer:      w.metrics,
		Log:             w.Log,
		Tracer:          w.trace,
		Orders:          w.book("dispatcher", s.LimitText, s.LimitMedia),
		Watch:           watch,
		Random:          cfg.Random,
	})
	if err != nil {
		return nil, err
	}
	w.ready, w.still = func(context.Context) error { return d.Ready() }, d.SinceTurn
	w.pages["/pages"], w.pages["/pages/"] = d.PagesHandler(), d.PagesHandler()
	w.pages["/messages"] = d.MessagesHandler()
	if err := w.submits(s.MaxBacklog, knows); err != nil {
		return nil, err
	}
	w.add("dispatcher", d.Run)
	w.add("watch", watch.Run)
	pages.OnChange(d.PagesChanged)
	w.add("pages file", pages.Run)
	return w.finish(ctx)
}

// sender returns the maker of the calls.
func (w *wiring) sender(cfg DispatcherConfig) (dispatch.Caller, error) {
	s := cfg.Settings
	send, err := sender.New(sender.Config{
		BaseURL:     s.GraphURL,
		Tokens:      cfg.Tokens,
		Transport:   cfg.Transport,
		MaxInFlight: s.MaxInFlight,
		AppSecret:   s.AppSecret.Reveal(), CallTimeout: s.CallTimeout,
		Registerer: w.metrics,
		Tracer:     w.trace,
	})
	if err != nil {
		return nil, err
	}
	w.onClose(func() error { send.Close(); return nil })
	return send, nil
}
