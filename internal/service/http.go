package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds of a connection to a chatclub server. The bodies are at most 1 MiB,
// which takes 8 s over 1 Mbit/s.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	idleTimeout       = 2 * time.Minute // longer than the pauses of a proxy that keeps connections
	maxHeaderBytes    = 64 << 10        // a request of ours needs less than 1 KiB
	// adminIdle is for a server without a proxy: its clients come each 15 s, or each second.
	adminIdle = 10 * time.Second
)

// NewHTTPServer returns a server for h with bounded reading. Its own messages go to log
// at level warn: they are of panics, of wrong answers, and of connections that cannot be
// accepted. Without TLS none is of what a client does. The caller may change the server
// before serving.
func NewHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Listen binds a TCP address; port 0 takes a free one.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", addr, err)
	}
	return l, nil
}

// ServeHTTP serves l until ctx ends. Then it takes no more requests and gives
// those in flight shutdownTimeout to finish. It cuts off those that remain, and
// the error says so. It closes l.
func ServeHTTP(ctx context.Context, srv *http.Server, l net.Listener, shutdownTimeout time.Duration) error {
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := srv.Shutdown(stopCtx)
	if err != nil {
		err = errors.Join(fmt.Errorf("shut down %s after %v: %w", l.Addr(), shutdownTimeout, err), srv.Close())
	}
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve %s: %w", l.Addr(), served))
	}
	return err
}
