package replicas

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/backoff"
)

// TestResolve: a name stands for all its addresses of one family, because a replica may
// have one of each. A name that is not found is shown all the same.
func TestResolve(t *testing.T) {
	t.Parallel()
	r := &Resolver{
		Addresses: []string{"http://dispatcher:9090", "http://gone:9090/x", "http://10.0.0.9:9090", "http://localhost:9090", "http://six:9090"},
		Lookup: func(_ context.Context, host string) ([]string, error) {
			switch host {
			case "dispatcher":
				return []string{"10.0.0.2", "10.0.0.1", "fd00::1"}, nil
			case "10.0.0.9":
				return []string{"10.0.0.9"}, nil
			case "localhost":
				return []string{"::1", "127.0.0.1"}, nil
			case "six":
				return []string{"fd00::2", "fd00::1"}, nil
			}
			return nil, errors.New("no such host")
		},
	}
	var got []string
	for _, x := range r.Replicas(t.Context()) {
		got = append(got, x.Name+"="+x.URL)
	}
	want := "10.0.0.1:9090=http://10.0.0.1:9090 10.0.0.2:9090=http://10.0.0.2:9090 " +
		"gone:9090=http://gone:9090/x 10.0.0.9:9090=http://10.0.0.9:9090 localhost:9090=http://localhost:9090 " +
		"[fd00::1]:9090=http://[fd00::1]:9090 [fd00::2]:9090=http://[fd00::2]:9090"
	if strings.Join(got, " ") != want {
		t.Errorf("replicas = %v\nwant %s", got, want)
	}
}

// TestResolveFails: a name that is not found for a while keeps its replicas, and that a
// caller leaves says nothing about it.
func TestResolveFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Int64
		var more atomic.Bool
		r := &Resolver{
			Addresses: []string{"http://dispatcher:9090"},
			Lookup: func(ctx context.Context, _ string) ([]string, error) {
				if !backoff.Sleep(ctx, time.Duration(slow.Load())) {
					return nil, ctx.Err()
				}
				hosts := []string{"10.0.0.1", "10.0.0.2"}
				if more.Load() {
					hosts = append(hosts, "10.0.0.3")
				}
				return hosts, nil
			},
		}
		want := func(what string, n int) {
			t.Helper()
			began := time.Now()
			if got := r.Replicas(t.Context()); len(got) != n || time.Since(began) > time.Second {
				t.Errorf("%s: replicas = %v after %s, want %d within a second", what, got, time.Since(began), n)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.Replicas(ctx)
		want("after a caller that has left", 2)
		slow.Store(int64(time.Minute))
		time.Sleep(resolveEvery)
		want("while names are not answered for", 2)
		time.Sleep(lookupTime + resolveEvery)
		slow.Store(0)
		more.Store(true)
		r.Replicas(t.Context())
		synctest.Wait()
		want("once they are answered for", 3)
	})
}

// TestAsk: the token and the body arrive, and an answer that refuses says why.
func TestAsk(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/ok":
			if got := r.Header.Get("Authorization") + r.Header.Get("Content-Type") + string(body); got != `Bearer secretapplication/json{"for":"1h"}` {
				t.Errorf("request has %q", got)
			}
			_, _ = io.WriteString(w, `{"x":7}`)
		case "/json":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":"page: unknown"}`)
		default:
			http.Error(w, "the token is needed", http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	c := Client{HTTP: server.Client(), Token: "secret"}
	var answer struct{ X int }
	if err := c.Ask(t.Context(), http.MethodPost, server.URL+"/ok", map[string]string{"for": "1h"}, &answer); err != nil || answer.X != 7 {
		t.Errorf("Ask() = %v with %+v, want 7", err, answer)
	}
	for path, want := range map[string]StatusError{
		"/json": {http.StatusNotFound, "page: unknown"},
		"/text": {http.StatusUnauthorized, "the token is needed"},
	} {
		err := c.Ask(t.Context(), http.MethodGet, server.URL+path, nil, nil)
		if got, ok := errors.AsType[*StatusError](err); !ok || *got != want || !strings.Contains(err.Error(), path) {
			t.Errorf("Ask(%s) = %v, want %+v", path, err, want)
		}
	}
}

// TestOrderOfASickCore: one that cannot do it now is no reason not to ask the next; one that
// refuses it is.
func TestOrderOfASickCore(t *testing.T) {
	t.Parallel()
	answer := func(code int) Replica {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(server.Close)
		return Replica{URL: server.URL}
	}
	sick, well, refuses := answer(http.StatusServiceUnavailable), answer(http.StatusNoContent), answer(http.StatusNotFound)
	for _, row := range []struct {
		core []Replica
		want int
	}{{[]Replica{sick, well}, 0}, {[]Replica{sick}, 503}, {[]Replica{refuses, well}, 404}} {
		err := Fleet{Client: Client{HTTP: http.DefaultClient}, Core: row.core}.Resume(t.Context(), "p")
		got := 0
		if e, ok := errors.AsType[*StatusError](err); ok {
			got = e.Code
		}
		if got != row.want {
			t.Errorf("resume by %d cores = %v, want %d", len(row.core), err, row.want)
		}
	}
}

// TestOrderIsWaitedFor: a program may try for 10 s to give an order. It is not given twice
// meanwhile.
func TestOrderIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		slow := transport(func(r *http.Request) (*http.Response, error) {
			if asked++; !backoff.Sleep(r.Context(), 10*time.Second) {
				return nil, r.Context().Err()
			}
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
		})
		f := Fleet{
			Client: Client{HTTP: &http.Client{Transport: slow, Timeout: 2 * time.Second}},
			Core:   []Replica{{URL: "http://1"}, {URL: "http://2"}},
		}
		if err := f.Pause(t.Context(), "p", 0, ""); err != nil || asked != 1 {
			t.Errorf("Pause() = %v by %d programs, want nil by one", err, asked)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (do transport) RoundTrip(r *http.Request) (*http.Response, error) { return do(r) }

// TestAskNobody checks that the error names the address once: a list of replicas
// that are away is long enough.
func TestAskNobody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	err := Client{HTTP: server.Client()}.Ask(t.Context(), http.MethodGet, server.URL+"/pages", nil, nil)
	if err == nil || strings.Count(err.Error(), "/pages") != 1 {
		t.Errorf("Ask() = %v, want an error that names the address once", err)
	}
}
