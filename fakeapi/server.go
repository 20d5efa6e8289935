package fakeapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"chatclub/fakeapi/wire"
)

// idleTimeout is longer than any client keeps a connection that it means to use
// again (net/http: 90 s).
const idleTimeout = 2 * time.Minute

// Serve serves the platform, its control interface and its extension on ln
// until ctx ends. What a page of another site can make a browser send is refused
// with 403. When ctx ends, it closes ln and every connection, and returns nil. An
// answer that is still due then is not given: its connection is lost.
func (a *API) Serve(ctx context.Context, ln net.Listener) error {
	s := &server{api: a, guard: guard{host: a.cfg.Host}, done: make(chan struct{})}
	s.http = &fasthttp.Server{
		Handler:               s.handle,
		Name:                  "fakeapi",
		MaxRequestBodySize:    maxRequest,
		IdleTimeout:           idleTimeout,
		NoDefaultContentType:  true,
		NoDefaultDate:         true,
		SecureErrorLogMessage: true,
		Logger:                silent{},
	}
	failed := make(chan error, 1)
	s.conns.Go(func() { failed <- s.accept(ln) })
	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("accept connection: %w", err)
	case <-ctx.Done():
	}
	close(s.done)
	_ = ln.Close() // makes accept end; it may be closed already
	s.conns.end()
	return err
}

// silent drops fasthttp's log lines. Each is about a client that went away.
type silent struct{}

func (silent) Printf(string, ...any) {}

// server serves an API on one listener.
type server struct {
	api   *API
	guard guard
	http  *fasthttp.Server
	conns connections
	done  chan struct{} // closed when the server stops
}

// accept serves every connection of ln until ln is closed. While Faults.Refuse
// is on, or before Faults.RefuseUntil, new connections are reset at once. They
// are accepted first, because a listener cannot refuse and stay open.
func (s *server) accept(ln net.Listener) error {
	for {
		c, err := ln.Accept()
		switch {
		case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED):
			time.Sleep(closePoll) // it passes when another connection is closed
			continue
		case err != nil:
			return err
		}
		if s.api.settings.load().Faults.refusing(s.api.Now()) || !s.conns.add(c) {
			reset(c)
			continue
		}
		s.conns.Go(func() {
			defer s.conns.remove(c)
			_ = s.http.ServeConn(c) // its errors are clients that went away; it closes c
		})
	}
}

// handle answers one request.
func (s *server) handle(ctx *fasthttp.RequestCtx) {
	if err := s.guard.check(ctx); err != nil {
		var resp Response
		resp.reset()
		resp.WriteError(http.StatusForbidden, err)
		s.deliver(ctx, &resp)
		return
	}
	if x := s.api.extension.Load(); x != nil && x.HandlePage != nil && ctx.IsGet() && x.HandlePage(ctx, s.done) {
		return
	}
	req := Request{
		Method: string(ctx.Method()), Path: ctx.Path(), Query: ctx.URI().QueryString(),
		Authorization: ctx.Request.Header.Peek("Authorization"), ContentType: ctx.Request.Header.ContentType(),
		Body: ctx.PostBody(),
	}
	resp := Response{Body: ctx.Response.SwapBody(nil)}
	s.api.Do(&req, &resp)
	s.deliver(ctx, &resp)
}

// deliver gives the answer when it is due, or loses the connection.
func (s *server) deliver(ctx *fasthttp.RequestCtx, resp *Response) {
	if resp.Delay > 0 && !wire.Sleep(resp.Delay, s.done) || resp.Cut {
		ctx.SetConnectionClose()
		reset(ctx.Conn()) // what fasthttp writes after this is lost
		return
	}
	ctx.SetStatusCode(resp.Status)
	ctx.SetContentType(resp.ContentType)
	resp.setHints(ctx.Response.Header.SetBytesV)
	if resp.BodyDelay == 0 {
		ctx.Response.SwapBody(resp.Body)
		return
	}
	ctx.Response.ImmediateHeaderFlush = true
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		if wire.Sleep(resp.BodyDelay, s.done) {
			_, _ = w.Write(resp.Body) // the client may be gone
		}
	})
}
