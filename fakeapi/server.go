package fakeapi

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// Serve serves the platform, its control interface and its page on ln until
// ctx ends, then closes ln and every connection, and returns nil. An answer
// that is still due then is not given: its connection is lost.
func (a *API) Serve(ctx context.Context, ln net.Listener) error {
	h := &handler{api: a, done: make(chan struct{})}
	srv := &fasthttp.Server{
		Handler:               h.serve,
		Name:                  "fakeapi",
		MaxRequestBodySize:    maxRequest,
		IdleTimeout:           idleTimeout,
		NoDefaultContentType:  true,
		NoDefaultDate:         true,
		SecureErrorLogMessage: true,
		Logger:                silent{},
	}
	conns := &connections{open: make(map[net.Conn]struct{})}
	failed := make(chan error, 1)
	conns.Go(func() { failed <- a.accept(ln, srv, conns) })
	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("accept connection: %w", err)
	case <-ctx.Done():
	}
	close(h.done)
	_ = ln.Close() // makes accept end; it may be closed already
	conns.end()
	return err
}

// silent drops fasthttp's lines: each is about a client that went away.
type silent struct{}

func (silent) Printf(string, ...any) {}

type handler struct {
	api  *API
	done chan struct{} // closed when the server stops
}

func (h *handler) serve(ctx *fasthttp.RequestCtx) {
	if x := h.api.extension.Load(); x != nil && x.HandlePage != nil && ctx.IsGet() && x.HandlePage(ctx, h.done) {
		return
	}
	req := Request{
		Method: string(ctx.Method()), Path: ctx.Path(), Query: ctx.URI().QueryString(),
		Authorization: ctx.Request.Header.Peek("Authorization"), ContentType: ctx.Request.Header.ContentType(),
		Body: ctx.PostBody(),
	}
	resp := Response{Body: ctx.Response.SwapBody(nil)}
	h.api.Do(&req, &resp)
	h.answer(ctx, &resp)
}

func (h *handler) answer(ctx *fasthttp.RequestCtx, resp *Response) {
	if !h.sleep(resp.Delay) || resp.Cut {
		ctx.SetConnectionClose()
		reset(ctx.Conn()) // what fasthttp writes after this goes nowhere
		return
	}
	ctx.SetStatusCode(resp.Status)
	ctx.SetContentType(resp.ContentType)
	if len(resp.Usage) > 0 {
		ctx.Response.Header.SetBytesV("x-business-use-case-usage", resp.Usage)
	}
	if resp.BodyDelay == 0 {
		ctx.Response.SwapBody(resp.Body)
		return
	}
	ctx.Response.ImmediateHeaderFlush = true
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		if h.sleep(resp.BodyDelay) {
			_, _ = w.Write(resp.Body) // the client may be gone
		}
	})
}

// sleep waits for d, and returns false when the server stopped first.
func (h *handler) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-h.done:
		return false
	}
}
