package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// readyTimeout bounds one readiness check: below the probe time-outs in
	// use (Kubernetes 1 s by default is for the fast path, compose 30 s).
	readyTimeout = 2 * time.Second
	// mostStill is several times the longest turn of a program that is well.
	mostStill = 10 * time.Second
	// adminShutdown is enough for a scrape in flight; it comes on top of the
	// program's own SHUTDOWN_TIMEOUT.
	adminShutdown = 2 * time.Second
)

// AdminSettings say where the admin server listens and what it serves.
type AdminSettings struct {
	Addr string `env:"ADMIN_ADDR" envDefault:":9090" doc:"Address of /metrics, /healthz and /readyz; port 0 takes a free one."`
	Tokens
	PProf bool `env:"ADMIN_PPROF" envDefault:"false" doc:"Serve Go profiles under /debug/pprof on ADMIN_ADDR."`
}

// Validate names every fault.
func (s AdminSettings) Validate() error {
	return errors.Join(CheckAddr("ADMIN_ADDR", s.Addr), s.Tokens.Validate())
}

// AdminConfig is the configuration of NewAdmin.
type AdminConfig struct {
	Addr     string                          // as in the settings: a name in it is one of the server's hosts
	Listener net.Listener                    // required by Run and Addr
	Registry *prometheus.Registry            // nil: an empty one
	Ready    func(ctx context.Context) error // nil: ready while the process lives
	Still    func() time.Duration            // the time for which the program's work stands still; nil: it never does
	Tokens   Tokens                          // of which requests must carry one
	Metrics  prometheus.Registerer           // takes the metrics of the server itself; nil: Registry
	PProf    bool
	Log      *slog.Logger // nil: no log
	LogLevel *LogLevel    // of Log; nil: it cannot be changed
}

func (c AdminConfig) withDefaults() AdminConfig {
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Metrics == nil {
		c.Metrics = c.Registry
	}
	if c.Still == nil {
		c.Still = func() time.Duration { return 0 }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Admin is the HTTP server for operators. It serves /metrics, /healthz (200 while
// the process works, 503 when its work has stood still for ten seconds) and /readyz (200, or 503 with the reason as text), and
// /loglevel. Where the settings ask for it, it serves /debug/pprof. NewAdmin makes one.
//
// The first three are open to every request: they change nothing and tell nothing
// of users. Before everything else stands a guard against web pages that use an
// operator's browser, which asks for the token too. Without a token only this machine
// is answered there. It has 256 connections at most, so that whoever reaches it takes no
// files from the program.
type Admin struct {
	cfg   AdminConfig
	open  *http.ServeMux // the pages that are open, and before all others the guard
	guard *Guard
	mux   *http.ServeMux // the others
}

// NewAdmin returns an Admin that does not serve yet.
func NewAdmin(cfg AdminConfig) *Admin {
	cfg = cfg.withDefaults()
	a := &Admin{cfg: cfg, open: http.NewServeMux(), mux: http.NewServeMux()}
	host, _, _ := net.SplitHostPort(cfg.Addr) // "" of one that Listen refuses
	a.guard = NewGuard(a.mux, GuardConfig{
		Tokens: cfg.Tokens, Hosts: []string{host}, LocalOnly: cfg.Tokens.Admin == "", Log: cfg.Log, Registerer: cfg.Metrics,
	})
	a.open.Handle("/", a.guard)
	a.open.Handle("GET /metrics", promhttp.HandlerFor(cfg.Registry, promhttp.HandlerOpts{
		Registry: cfg.Registry, EnableOpenMetrics: true, // which alone has exemplars, beside protobuf
	}))
	a.open.HandleFunc("GET /healthz", a.healthz)
	a.open.HandleFunc("GET /readyz", a.readyz)
	if cfg.LogLevel != nil {
		level := cfg.LogLevel.handler()
		a.Handle("GET /loglevel", level)
		a.Handle("PUT /loglevel", level)
	}
	if cfg.PProf {
		a.mux.HandleFunc("/debug/pprof/", pprof.Index)
		a.mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		a.mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		a.mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		a.mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return a
}

// Handle adds a page behind the guard; pattern is one of http.ServeMux. Call it
// before Run.
func (a *Admin) Handle(pattern string, h http.Handler) { a.mux.Handle(pattern, h) }

// Handler serves all pages.
func (a *Admin) Handler() http.Handler { return a.open }

// Addr returns the address that is bound.
func (a *Admin) Addr() string { return a.cfg.Listener.Addr().String() }

// Run serves until ctx ends.
func (a *Admin) Run(ctx context.Context) error {
	defer a.guard.Flush() //nolint:contextcheck // ctx has ended by then
	a.cfg.Log.InfoContext(ctx, "admin server listens", "addr", a.Addr())
	srv := NewHTTPServer(a.open, a.cfg.Log)
	srv.IdleTimeout = adminIdle
	return ServeHTTP(ctx, srv, Bound(srv, a.cfg.Listener, FileShare(AdminConnections), a.cfg.Log), adminShutdown)
}

// Actor returns a as a part of a group. It belongs at the end, so that metrics
// and health are served while the others stop.
func (a *Admin) Actor() Actor { return Actor{Name: "admin", Run: a.Run} }

func (a *Admin) healthz(w http.ResponseWriter, _ *http.Request) {
	if still := a.cfg.Still(); still > mostStill {
		plain(w, http.StatusServiceUnavailable, fmt.Sprintf("not healthy: no turn for %s\n", still.Round(time.Second)))
		return
	}
	plain(w, http.StatusOK, "ok\n")
}

func (a *Admin) readyz(w http.ResponseWriter, r *http.Request) {
	if a.cfg.Ready == nil {
		plain(w, http.StatusOK, "ready\n")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := a.cfg.Ready(ctx); err != nil {
		plain(w, http.StatusServiceUnavailable, "not ready: "+OneLine(err)+"\n")
		return
	}
	plain(w, http.StatusOK, "ready\n")
}

// plain answers with text.
func plain(w http.ResponseWriter, code int, text string) {
	beginAnswer(w, code, "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // the client may be gone
}

// beginAnswer writes the head of an answer that no browser keeps, or reads as anything
// else than contentType.
func beginAnswer(w http.ResponseWriter, code int, contentType string) {
	w.Header().Set("Content-Type", contentType)
	private(w.Header())
	w.WriteHeader(code)
}

// private has browsers neither keep an answer nor guess its type.
func private(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}
