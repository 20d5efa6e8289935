package service

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

const (
	adminToken    = "a-token-of-operators"
	messagesToken = "a-token-of-a-bot-0"
	readToken     = "a-token-of-readers"
)

// asker returns an admin server with all tokens, and a function that asks it and returns the
// status and the headers.
func asker(t *testing.T, log *slog.Logger) (*Admin, func(method, path, token string) (int, http.Header)) {
	t.Helper()
	a := NewAdmin(AdminConfig{Tokens: Tokens{Admin: adminToken, Messages: messagesToken, Read: readToken}, Log: log})
	a.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	return a, func(method, path, token string) (int, http.Header) {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, http.NoBody)
		r.RemoteAddr = "10.0.0.7:4000"
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r)
		return w.Code, w.Header()
	}
}

// TestRights: each token opens what it is for.
func TestRights(t *testing.T) {
	t.Parallel()
	a, ask := asker(t, nil)
	for _, row := range []struct {
		request                   string
		operators, messages, read int
	}{
		{"POST /messages", 204, 204, 403},
		{"GET /messages?id=1", 204, 204, 204},
		{"HEAD /messages", 204, 204, 204},
		{"DELETE /messages", 204, 403, 403},
		{"POST /messages/", 204, 403, 403},
		{"GET /pages", 204, 403, 204},
		{"GET /reports?page=1", 204, 403, 204},
		{"POST /pages/1/pause", 204, 403, 403},
		{"DELETE /pages/1/users/2", 204, 403, 403},
		{"POST /broadcast", 204, 403, 403},
		{"PUT /loglevel", 204, 403, 403},
		{"GET /debug/pprof/profile", 204, 403, 403},
	} {
		method, path, _ := strings.Cut(row.request, " ")
		for token, want := range map[string]int{adminToken: row.operators, messagesToken: row.messages, readToken: row.read} {
			if got, _ := ask(method, path, token); got != want {
				t.Errorf("%s with %s = %d, want %d", row.request, token, got, want)
			}
		}
		if got, _ := ask(method, path, ""); got != 401 {
			t.Errorf("%s without a token = %d, want 401", row.request, got)
		}
	}
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		if got, _ := ask("GET", path, ""); got != 200 {
			t.Errorf("GET %s without a token = %d, want 200", path, got)
		}
	}
	_, head := ask("GET", "/pages", readToken)
	if head.Get("Cache-Control") != "no-store" || head.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers of GET /pages = %v, want no-store and nosniff", head)
	}
	want := fmt.Sprintf(`# HELP chatclub_admin_refused_total %s
# TYPE chatclub_admin_refused_total counter
chatclub_admin_refused_total{reason="host"} 0
chatclub_admin_refused_total{reason="machine"} 0
chatclub_admin_refused_total{reason="missing"} 12
chatclub_admin_refused_total{reason="right"} 17
chatclub_admin_refused_total{reason="site"} 0
chatclub_admin_refused_total{reason="type"} 0
chatclub_admin_refused_total{reason="wrong"} 0
`, refusedHelp)
	if err := testutil.GatherAndCompare(a.cfg.Registry, strings.NewReader(want), "chatclub_admin_refused_total"); err != nil {
		t.Error(err)
	}
}

// TestWrongTokens: a wrong token is answered late, and no right one waits for that. The log
// has one line a second, and neither token.
func TestWrongTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		_, ask := asker(t, slog.New(slog.NewTextHandler(&log, nil)))
		began := time.Now()
		var guesses sync.WaitGroup
		for i := range 100 {
			guesses.Go(func() { ask("POST", "/pages/1/pause", fmt.Sprint("a-token-of-operator", i)) })
		}
		synctest.Wait()
		for range 48 {
			if code, _ := ask("POST", "/pages/1/pause", adminToken); code != 204 || time.Since(began) != 0 {
				t.Errorf("the right token beside wrong ones = %d after %s, want 204 at once", code, time.Since(began))
			}
		}
		guesses.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("wrong tokens were answered after %s, want 1s", took)
		}
		if got, want := strings.Count(log.String(), `level=WARN msg="wrong token or password" path=/pages/1/pause from=10.0.0.7:4000`), 1; got != want {
			t.Errorf("%d warnings, want %d: %.500s", got, want, &log)
		}
		const line = `msg="operator's request" method=POST path=/pages/1/pause who=ADMIN_TOKEN from=10.0.0.7:4000 status=204`
		if got := strings.Count(log.String(), line); got != 48 || strings.Contains(log.String(), "a-token") {
			t.Errorf("%d lines %s, want 48 and no token: %.500s", got, line, &log)
		}
	})
}

// TestWrongHeaders: nothing but the token after Bearer is the token.
func TestWrongHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := asker(t, nil)
		for header, want := range map[string]int{
			"": 401, "Bearer": 401, "Bearer ": 401, "Bearer a-token-of-operator": 401, "Bearer a-token-of-operators2": 401, "Basic a-token-of-operators": 401,
			"a-token-of-operators": 401, "Bearer  a-token-of-operators": 401, "bearer a-token-of-operators": 204,
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://core.example.org/pages", http.NoBody)
			r.Header.Set("Authorization", header)
			w := httptest.NewRecorder()
			if a.Handler().ServeHTTP(w, r); w.Code != want {
				t.Errorf("GET with Authorization %q = %d, want %d", header, w.Code, want)
			}
		}
	})
}

// TestTokensAreSummed: messages have a line a minute, and what is left one at the end.
func TestTokensAreSummed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a, ask := asker(t, slog.New(slog.NewTextHandler(&log, nil)))
		ask("POST", "/messages", messagesToken)
		ask("POST", "/messages", messagesToken)
		ask("GET", "/messages", messagesToken)
		a.guard.Flush()
		const want = `msg="requests of the last minute" path=/messages who=MESSAGES_TOKEN from=10.0.0.7 status=204 requests=2`
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
			t.Errorf("log = %s, want %s", got, want)
		}
	})
}

func TestTokensValidate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		tokens Tokens
		want   string // part of the error; "": none
	}{
		{Tokens{}, ""},
		{Tokens{Admin: adminToken, Messages: messagesToken, Read: readToken}, ""},
		{Tokens{Admin: "a"}, "ADMIN_TOKEN: must have 16 characters at least"},
		{Tokens{Admin: adminToken, Messages: "a"}, "MESSAGES_TOKEN: must have 16"},
		{Tokens{Admin: adminToken, Read: "a"}, "READ_TOKEN: must have 16"},
		{Tokens{Messages: messagesToken}, "MESSAGES_TOKEN: needs ADMIN_TOKEN"},
		{Tokens{Read: readToken}, "READ_TOKEN: needs ADMIN_TOKEN"},
		{Tokens{Admin: adminToken, Messages: adminToken}, "MESSAGES_TOKEN: must differ from ADMIN_TOKEN"},
		{Tokens{Admin: adminToken, Messages: readToken, Read: readToken}, "READ_TOKEN: must differ from MESSAGES_TOKEN"},
	} {
		err := row.tokens.Validate()
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("Validate(%#v) = %v, want %q", row.tokens, err, row.want)
		}
	}
}

// TestHosts: a name that the settings give is answered, and others of the same network are not.
func TestHosts(t *testing.T) {
	t.Parallel()
	g := NewGuard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), GuardConfig{Hosts: []string{"", "Chat.example"}})
	for host, want := range map[string]int{"chat.example": 200, "chat.example:8080": 200, "127.0.0.1:8080": 200, "chat": 200, "evil.example": 403, "chat.example.evil.example": 403} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/dead", http.NoBody)
		w := httptest.NewRecorder()
		if g.ServeHTTP(w, r); w.Code != want {
			t.Errorf("Host %s = %d, want %d", host, w.Code, want)
		}
	}
}
