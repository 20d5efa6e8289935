package fakeapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"chatclub/fakeapi/wire"
)

// maxRequest bounds the body that is read. A batch of 50 full messages is below
// 1 MiB, and so is an announcement of 10,000 ids.
const maxRequest = 8 << 20

// Transport answers an http.Client's requests in process, for any host. It has no
// socket and no goroutine, and waits only on timers that end with the request's
// context, so that it works under testing/synctest. What an extension serves by
// HandlePage exists only behind a socket.
func (a *API) Transport() http.RoundTripper { return transport{a} }

type transport struct{ api *API }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
		if closeErr := r.Body.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return nil, fmt.Errorf("read request body: %w", err)
		}
	}
	// The judge's questions pass while connections are refused: behind a socket a client that
	// asks all the time has a connection that stays.
	isJudge := r.URL.Path == "/control" || strings.HasPrefix(r.URL.Path, "/ledger")
	if !isJudge && t.api.settings.load().Faults.refusing(t.api.Now()) {
		return nil, lost("dial", syscall.ECONNREFUSED)
	}
	if len(body) > maxRequest {
		return simple(r, http.StatusRequestEntityTooLarge), nil
	}
	var resp Response
	t.api.Do(&Request{
		Method: r.Method, Path: []byte(r.URL.Path), Query: []byte(r.URL.RawQuery),
		Authorization: []byte(r.Header.Get("Authorization")), ContentType: []byte(r.Header.Get("Content-Type")), Body: body,
	}, &resp)
	if !wire.Sleep(resp.Delay, r.Context().Done()) {
		return nil, r.Context().Err()
	}
	if resp.Cut {
		return nil, lost("read", syscall.ECONNRESET)
	}
	out := simple(r, resp.Status)
	out.Header.Set("Content-Type", resp.ContentType)
	resp.setHints(func(name string, value []byte) { out.Header.Set(name, string(value)) })
	out.ContentLength = int64(len(resp.Body))
	out.Body = io.NopCloser(&lateBody{ctx: r.Context(), delay: resp.BodyDelay, r: bytes.NewReader(resp.Body)})
	return out, nil
}

func simple(r *http.Request, status int) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), Body: http.NoBody, Request: r,
	}
}

func lost(op string, why error) error { return &net.OpError{Op: op, Net: "fake", Err: why} }

// lateBody waits before its first byte.
type lateBody struct {
	ctx   context.Context //nolint:containedctx // a body outlives the call that made it, as in net/http
	delay time.Duration
	r     io.Reader
}

func (b *lateBody) Read(p []byte) (int, error) {
	if !wire.Sleep(b.delay, b.ctx.Done()) {
		return 0, b.ctx.Err()
	}
	b.delay = 0
	return b.r.Read(p)
}
