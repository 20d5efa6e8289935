package sender

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/message"
)

// serve starts a server on a real socket that counts its connections.
func serve(t testing.TB, h http.HandlerFunc) (base string, conns *atomic.Int64) {
	t.Helper()
	conns = &atomic.Int64{}
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL, conns
}

func TestConnectionIsReused(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	base, conns := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch n.Add(1) % 3 { // whatever the answer, its connection goes on
		case 0:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, envelope(613, 0, ""))
		case 1:
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
		default:
			_, _ = io.WriteString(w, receipt)
		}
	})
	s := setup(t, func(c *Config) { c.BaseURL = base })
	const sends = 60
	got := map[Outcome]int{}
	for range sends {
		got[s.Send(t.Context(), outbound()).Outcome]++
	}
	if got[Sent] != 20 || got[PageThrottled] != 20 || got[Transient] != 20 {
		t.Errorf("outcomes = %v, want 20 each of sent, page_throttled, transient", got)
	}
	if c := conns.Load(); c != 1 {
		t.Errorf("%d sends one after the other used %d connections, want 1", sends, c)
	}
}

func TestConnectionsAreBoundedByMaxInFlight(t *testing.T) {
	t.Parallel()
	const inFlight = 64
	var now, most atomic.Int64
	base, conns := serve(t, func(w http.ResponseWriter, r *http.Request) {
		m := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); m > old && !most.CompareAndSwap(old, m); old = most.Load() {
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, receipt)
	})
	s := setup(t, func(c *Config) { c.BaseURL, c.MaxInFlight = base, inFlight })
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 2 * inFlight { // twice as many as allowed
		wg.Go(func() {
			for range 20 {
				if s.Send(t.Context(), outbound()).Outcome != Sent {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if failed.Load() != 0 {
		t.Errorf("%d of %d sends failed", failed.Load(), 2*inFlight*20)
	}
	// On a machine that stands still one may be closed and made again; without the
	// bound there are as many as goroutines.
	if c := conns.Load(); c > inFlight+inFlight/4 || most.Load() > inFlight {
		t.Errorf("%d connections in all, %d calls at a time, want about %d", c, most.Load(), inFlight)
	}
}

func TestNoCallWhenCanceledBeforeAConnectionIsFree(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	arrived, release := make(chan struct{}), make(chan struct{})
	base, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-release
		_, _ = io.WriteString(w, receipt)
	})
	s := setup(t, func(c *Config) { c.BaseURL, c.MaxInFlight = base, 1 })
	first := make(chan Result, 1)
	go func() { first <- s.Send(t.Context(), outbound()) }()
	<-arrived // the only connection is taken

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) { cancel() }})
	if r := s.Send(ctx, outbound()); r.Outcome != Canceled || r.Latency != 0 {
		t.Errorf("Send while no connection is free = %v, latency %v, want canceled, 0", r.Outcome, r.Latency)
	}
	close(release)
	if r := <-first; r.Outcome != Sent {
		t.Errorf("first Send = %v (%v), want sent", r.Outcome, r.Err)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls arrived, want 1", n)
	}
}

func TestCanceledAfterWritingIsTransient(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	base, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	})
	s := setup(t, func(c *Config) { c.BaseURL = base })
	if r := s.Send(ctx, outbound()); r.Outcome != Transient || r.CodeString() != "canceled" {
		t.Errorf("Send = %v, %q, want transient, canceled", r.Outcome, r.CodeString())
	}
}

func TestLostConnectionIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	base, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if calls.Add(1) == 1 {
			_, _ = io.WriteString(w, receipt)
			return
		}
		panic(http.ErrAbortHandler) // the connection ends without an answer
	})
	s := setup(t, func(c *Config) { c.BaseURL = base })
	// The first leaves an idle connection, on which net/http would try an
	// idempotent request again.
	if r := s.Send(t.Context(), outbound()); r.Outcome != Sent {
		t.Fatalf("first Send = %v (%v), want sent", r.Outcome, r.Err)
	}
	if r := s.Send(t.Context(), outbound()); r.Outcome != Transient || r.CodeString() != "network" {
		t.Errorf("second Send = %v, %q, want transient, network", r.Outcome, r.CodeString())
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d requests arrived for 2 sends", n)
	}
}

func TestCutOffReceiptIsSent(t *testing.T) {
	t.Parallel()
	base, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", "40")
		_, _ = io.WriteString(w, `{"recip`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	s := setup(t, func(c *Config) { c.BaseURL = base })
	if r := s.Send(t.Context(), outbound()); r.Outcome != Sent || r.MessageID != "" {
		t.Errorf("Send = %v (%v), id %q, want sent without id", r.Outcome, r.Err, r.MessageID)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	target, _ := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	base, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target, http.StatusTemporaryRedirect)
	})
	s := setup(t, func(c *Config) { c.BaseURL = base })
	if r := s.Send(t.Context(), outbound()); r.Outcome != Transient || r.CodeString() != "http 307" {
		t.Errorf("Send = %v, %q, want transient, http 307", r.Outcome, r.CodeString())
	}
	if elsewhere.Load() != 0 {
		t.Error("the token went to another server")
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	s := setup(t, func(c *Config) { c.BaseURL = "http://" + addr })
	r := s.Send(t.Context(), outbound())
	if r.Outcome != Transient || r.CodeString() != "network" || strings.Contains(r.Err.Error(), "http://") {
		t.Errorf("Send = %v, %q, err %v, want transient, network, no URL", r.Outcome, r.CodeString(), r.Err)
	}
}

func TestTransport(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config) { c.MaxInFlight, c.CallTimeout = 200, 7*time.Second })
	tr, ok := s.transport.(*http.Transport)
	if !ok {
		t.Fatalf("transport is a %T", s.transport)
	}
	if tr.MaxIdleConnsPerHost != 200 || tr.MaxConnsPerHost != 200 || tr.MaxIdleConns != 200 {
		t.Errorf("transport keeps %d/%d of %d connections, want 200", tr.MaxIdleConnsPerHost, tr.MaxIdleConns, tr.MaxConnsPerHost)
	}
	if tr.TLSClientConfig.MinVersion != 0x0303 || tr.DisableKeepAlives || tr.Protocols.HTTP2() {
		t.Errorf("transport: TLS from %#x, keep-alive off %v, HTTP/2 %v, want TLS 1.2, keep-alive, HTTP/1.1",
			tr.TLSClientConfig.MinVersion, tr.DisableKeepAlives, tr.Protocols.HTTP2())
	}
}

// A proxy that refuses is named, without its password: its words are not the API's.
func TestProxyThatRefuses(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 407, 502} {
		base, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		s := setup(t, nil)
		proxy, err := url.Parse(strings.Replace(base, "://", "://user:secret@", 1))
		if err != nil {
			t.Fatal(err)
		}
		s.transport.(*http.Transport).Proxy = http.ProxyURL(proxy) //nolint:forcetypeassert // as New made it
		r := s.Send(t.Context(), outbound())
		text := r.Err.Error()
		if r.Outcome != Transient || !strings.Contains(text, "the proxy "+proxy.Host) || !strings.Contains(text, fmt.Sprint(status)) || strings.Contains(text, "secret") {
			t.Errorf("Send = %v, %q, want transient, and the proxy's name and %d in it", r.Outcome, text, status)
		}
	}
}

func BenchmarkSend(b *testing.B) {
	run := func(b *testing.B, s *Sender) {
		o := outbound()
		o.Text = strings.Repeat("words ", 20)
		b.ReportAllocs()
		for b.Loop() {
			if r := s.Send(b.Context(), o); r.Outcome != Sent {
				b.Fatalf("Send = %v (%v)", r.Outcome, r.Err)
			}
		}
	}
	usage := `{"` + page + `":[{"type":"messenger","call_count":1,"total_cputime":1,"total_time":1,"estimated_time_to_regain_access":0}]}`
	b.Run("in process", func(b *testing.B) {
		run(b, setup(b, func(c *Config) {
			c.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
				resp := response(200, receipt)
				resp.Header["X-Business-Use-Case-Usage"] = []string{usage}
				return resp, nil
			})
		}))
	})
	b.Run("loopback", func(b *testing.B) {
		base, _ := serve(b, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("X-Business-Use-Case-Usage", usage)
			_, _ = io.WriteString(w, receipt)
		})
		run(b, setup(b, func(c *Config) { c.BaseURL = base }))
	})
	b.Run("encode", func(b *testing.B) {
		o := message.Outbound{ID: page + "/m_x/42", To: "42", Text: strings.Repeat("words ", 20)}
		b.ReportAllocs()
		for b.Loop() {
			encode(o)
		}
	})
}
