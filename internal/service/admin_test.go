package service

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+path, nil)
	r.RemoteAddr = "127.0.0.1:40000"
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestAdminPages(t *testing.T) {
	t.Parallel()
	var down error
	var still time.Duration
	a := NewAdmin(AdminConfig{Still: func() time.Duration { return still }, Registry: NewRegistry(), Log: discard(), Ready: func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("readiness is asked without a deadline")
		}
		return down
	}})
	a.Handle("GET /extra", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	check := func(path string, code int, body string) {
		t.Helper()
		if gotCode, got := get(t, a.Handler(), path); gotCode != code || !strings.Contains(got, body) {
			t.Errorf("GET %s = %d %.200q, want %d %q", path, gotCode, got, code, body)
		}
	}
	check("/healthz", 200, "ok\n")
	check("/readyz", 200, "ready\n")
	check("/metrics", 200, "chatclub_build_info{")
	check("/metrics", 200, "go_goroutines ")
	check("/extra", http.StatusTeapot, "")
	check("/debug/pprof/", 404, "")
	down = errors.Join(errors.New("broker: gone"), errors.New("database: gone"))
	check("/readyz", 503, "not ready: broker: gone; database: gone\n")
	check("/healthz", 200, "ok\n")
	still = 10 * time.Second
	check("/healthz", 200, "ok\n")
	still += 2400 * time.Millisecond
	check("/healthz", 503, "not healthy: no turn for 12s\n")

	profiled := NewAdmin(AdminConfig{Registry: NewRegistry(), Log: discard(), PProf: true})
	if code, _ := get(t, profiled.Handler(), "/debug/pprof/"); code != 200 {
		t.Errorf("GET /debug/pprof/ = %d, want 200 when asked for", code)
	}
	if code, _ := get(t, profiled.Handler(), "/readyz"); code != 200 {
		t.Errorf("GET /readyz without Ready = %d, want 200", code)
	}
}

func TestRegistryHasNoFaults(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(NewRegistry(), "chatclub_build_info")
	if err != nil || len(problems) > 0 {
		t.Errorf("lint = %v, %v, want none", problems, err)
	}
}

// TestServeHTTPDrains: a request in flight when the server is stopped is
// answered, and a request that takes too long is cut off with an error.
func TestServeHTTPDrains(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		timeout time.Duration
		finish  bool
	}{{"in time", time.Minute, true}, {"too late", time.Millisecond, false}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			entered, release := make(chan struct{}), make(chan struct{})
			srv := NewHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(entered)
				select {
				case <-release:
				case <-r.Context().Done():
				}
				plain(w, http.StatusOK, "done\n")
			}), discard())
			l, err := Listen(t.Context(), "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- ServeHTTP(ctx, srv, l, row.timeout) }()
			answered := make(chan error, 1)
			go func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String(), nil)
				if err == nil {
					var res *http.Response
					if res, err = (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req); err == nil {
						err = res.Body.Close()
					}
				}
				answered <- err
			}()
			<-entered
			cancel()
			if row.finish {
				close(release)
			}
			if err := <-answered; (err == nil) != row.finish {
				t.Errorf("request in flight = %v, want answered %v", err, row.finish)
			}
			if err := <-served; (err == nil) != row.finish || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("ServeHTTP = %v, want clean %v", err, row.finish)
			}
		})
	}
}
