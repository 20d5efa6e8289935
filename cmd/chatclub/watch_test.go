package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/service"
)

// TestWatch: the page shows dispatchers of elsewhere, and changes nothing.
func TestWatch(t *testing.T) {
	t.Parallel()
	replica := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"in_flight":3,"partitions":[1],"pages":[{"page":"1234567890","class":"text","limit":300}],"suspended":[]}`)
	}))
	defer replica.Close()
	address, stop := serveWatch(t, map[string]string{"DISPATCHERS": replica.URL})
	defer stop()
	ctx := t.Context()
	var body []byte
	for end := time.Now().Add(time.Minute); !bytes.Contains(body, []byte("…67890")) && time.Now().Before(end); {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/state", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body = make([]byte, 4096)
		n, _ := io.ReadAtLeast(resp.Body, body, 200) // the stream goes on
		body = body[:n]
		resp.Body.Close()
	}
	if !bytes.Contains(body, []byte(`"read_only":true`)) || !bytes.Contains(body, []byte("…67890")) {
		t.Errorf("state = %s, want the dispatcher's page, to be looked at alone", body)
	}
}

// password is a token of operators.
const password = "open-sesame-open"

// TestWatchBehindAProxy: a page is served under the names in HTTP_HOSTS, such as that of a
// proxy, but to no other site, with a password or without.
func TestWatchBehindAProxy(t *testing.T) {
	t.Parallel()
	const asJSON = "application/json"
	for _, row := range []struct {
		token, method, path, kind, origin string
		want                              int
	}{
		{password, http.MethodGet, "/", "", "", http.StatusOK},
		{password, http.MethodPost, "/login", asJSON, "http://watch.example.com", http.StatusNoContent},
		{password, http.MethodPost, "/login", asJSON, "http://evil.example", http.StatusForbidden},
		{password, http.MethodPost, "/login", "text/plain", "", http.StatusUnsupportedMediaType},
		{password, http.MethodPost, "/dead/purge", asJSON, "http://watch.example.com", http.StatusUnauthorized},
		{"", http.MethodGet, "/", "", "", http.StatusOK},
		{"unnamed", http.MethodGet, "/", "", "", http.StatusForbidden},
		{"unnamed", http.MethodPost, "/login", asJSON, "http://watch.example.com", http.StatusForbidden},
	} {
		environ := map[string]string{"DISPATCHERS": "http://127.0.0.1:1", "ADMIN_TOKEN": row.token, "HTTP_HOSTS": "chat.example, watch.example.com"}
		if row.token == "unnamed" {
			environ["ADMIN_TOKEN"], environ["HTTP_HOSTS"] = password, ""
		}
		address, stop := serveWatch(t, environ)
		req, err := http.NewRequestWithContext(t.Context(), row.method, address+row.path, strings.NewReader(`{"password":"`+password+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Host, req.Close = "watch.example.com", true
		if row.kind != "" {
			req.Header.Set("Content-Type", row.kind)
		}
		if row.origin != "" {
			req.Header.Set("Origin", row.origin)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != row.want {
			t.Errorf("%s %s with token %q and Origin %q = %d, want %d", row.method, row.path, row.token, row.origin, resp.StatusCode, row.want)
		}
		stop()
	}
}

// serveWatch serves the page, and returns its address and the function that ends it.
func serveWatch(t *testing.T, environ map[string]string) (address string, stop func()) {
	t.Helper()
	environ["HTTP_ADDR"] = "127.0.0.1:0"
	s, err := service.Load[watchSettings](nil, environ, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, writer, io.Discard) }()
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, address, _ = strings.Cut(strings.TrimSpace(string(line[:n])), "open ")
	return address, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve() = %v, want nil", err)
		}
	}
}

// TestWatchDeadLetters: with AMQP_URL the page has the dead letters of the deployment's
// queue, for users with the password.
func TestWatchDeadLetters(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 2}
	broker, err := rabbit.Open(rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	death := message.Death{Reason: message.ReasonUndecodable, Error: "time: is missing"}
	if err := broker.Publish(t.Context(), queue.Message{Queue: top.Dead(), ID: "1/m/7", Body: []byte("{}"), Headers: death.Headers()}); err != nil {
		t.Fatal(err)
	}
	address, stop := serveWatch(t, map[string]string{
		"DISPATCHERS": "http://127.0.0.1:1", "ADMIN_TOKEN": password, "AMQP_URL": rabbittest.URL(t), "QUEUE_PREFIX": top.Prefix, "PARTITIONS": "2",
	})
	defer stop()
	ask := func(method, path, body, cookie string) (int, string, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Cookie", cookie)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		session, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
		return resp.StatusCode, string(b), session
	}
	if code, body, _ := ask("GET", "/dead", "", ""); code != 401 || strings.Contains(body, "1/m/7") {
		t.Errorf("GET /dead before the login = %d %s, want 401", code, body)
	}
	_, _, session := ask("POST", "/login", `{"password":"`+password+`"}`, "")
	if code, body, _ := ask("GET", "/dead", "", session); code != 200 || !strings.Contains(body, `"error":"time: is missing"`) {
		t.Errorf("GET /dead = %d %s, want the letter with its error", code, body)
	}
	if _, body, _ := ask("POST", "/dead/purge", `{"ids":["1/m/7"]}`, session); !strings.Contains(body, `{"purged":{"undecodable":1}}`) {
		t.Errorf("purge = %s, want one", body)
	}
}

func TestWatchSettings(t *testing.T) {
	t.Parallel()
	_, err := service.Load[watchSettings](nil, map[string]string{
		"DISPATCHERS": "http://a:9090,b:9090", "ADMIN_TOKEN": "x y", "CORE": "c:9090", "WEBHOOK": "d:9090", "AMQP_URL": "nowhere", "PARTITIONS": "0",
	}, io.Discard)
	for _, name := range []string{"DISPATCHERS", "ADMIN_TOKEN", "CORE", "WEBHOOK", "AMQP_URL", "PARTITIONS"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Load() = %v, want an error that names %s", err, name)
		}
	}
}
