package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chatclub/internal/service"
)

func TestMain(m *testing.M) {
	// fasthttp keeps it for ever once it has refused a request that was cut off.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// relay is a system under test with one room. It welcomes each user who taps
// "Get Started" and relays each message to the others, with an error or without.
type relay struct {
	base    string // of the fake platform, set once it listens
	bound   chan struct{}
	members []string
	error   string // one of those below; empty: none
	lost    func() // called for each copy that it loses
	mu      sync.Mutex
	client  *http.Client
}

// The errors of a relay.
const (
	duplicates  = "duplicates"
	anonymous   = "sends a second copy without an id"
	misdelivers = "sends every copy to the first user who joined"
	refuses     = "takes no message"
	loses       = "sends no copy"
)

func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body struct {
		Entry []struct {
			ID        string
			Messaging []struct {
				Sender   struct{ ID string }
				Message  *struct{ MID, Text string }
				Postback *struct{ MID string }
			}
		}
	}
	if json.NewDecoder(req.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	<-r.bound
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.error == refuses && body.Entry[0].Messaging[0].Message != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	for _, e := range body.Entry {
		for _, m := range e.Messaging {
			if m.Postback != nil {
				r.members = append(r.members, m.Sender.ID)
				r.send(e.ID, m.Sender.ID, m.Postback.MID, "welcome")
				continue
			}
			for _, to := range r.members {
				if to != m.Sender.ID {
					r.send(e.ID, to, m.Message.MID, m.Message.Text)
				}
			}
		}
	}
}

func (r *relay) send(page, to, mid, text string) {
	message := map[string]string{"text": text, "metadata": page + "/" + mid + "/" + to}
	bodies := []map[string]any{{"recipient": map[string]string{"id": to}, "message": message}}
	switch {
	case text == "welcome" && r.error != duplicates:
	case r.error == loses:
		r.lost()
		return
	case r.error == duplicates:
		bodies = append(bodies, bodies[0])
	case r.error == anonymous:
		bodies = append(bodies, map[string]any{"recipient": map[string]string{"id": to}, "message": map[string]string{"text": text}})
	case r.error == misdelivers:
		bodies[0]["recipient"] = map[string]string{"id": r.members[0]}
	}
	for _, body := range bodies {
		b, _ := json.Marshal(body)
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, r.base+"/v23.0/"+page+"/messages", bytes.NewReader(b))
		req.Header.Set("Authorization", "Bearer token-"+page)
		req.Header.Set("Content-Type", "application/json")
		if resp, err := r.client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
}

// play runs the program against a relay and returns its output. With stopped it is
// asked to stop when the relay loses its twentieth copy.
func play(t *testing.T, wrong string, stopped bool, more map[string]string) (string, error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tr := &http.Transport{}
	r := &relay{bound: make(chan struct{}), error: wrong, lost: func() {}, client: &http.Client{Transport: tr}}
	if stopped {
		n := 0
		r.lost = func() { // under the relay's lock
			if n++; n == 20 {
				stop()
			}
		}
	}
	hook := httptest.NewServer(r)
	defer hook.Close()
	defer tr.CloseIdleConnections()
	environ := map[string]string{
		"HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0", "WEBHOOK_URL": hook.URL, "APP_SECRET": "a-test-secret",
		"PAGES": "1", "USERS": "5", "EVENTS_PER_SECOND": "200", "DURATION": "100ms", "SETTLE_TIMEOUT": "5s", "EXIT": "true",
		"LATENCY": "none",
	}
	maps.Copy(environ, more)
	s, err := service.Load[settings](nil, environ, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := program{settings: s, registry: service.NewRegistry(), log: slog.New(slog.DiscardHandler), stdout: &out}
	p.bound = func(httpAddr, _ string) {
		r.base = "http://" + httpAddr
		close(r.bound)
	}
	err = p.run(ctx, t.Context())
	return out.String(), err
}

func TestRunBalances(t *testing.T) {
	t.Parallel()
	pages := filepath.Join(t.TempDir(), "pages.json")
	out, err := play(t, "", false, map[string]string{"PAGES_FILE_OUT": pages, "FIRST_PAGE": "1"})
	// 5 joins and 20 messages to 4 others.
	if want := "events 25 expected 85 accepted 85 refused 0 lost 0 duplicated 0 unexpected 0 without id 0 excused 0\n"; err != nil || out != want {
		t.Errorf("run = %v, printed %q, want nil and %q", err, out, want)
	}
	b, err := os.ReadFile(pages)
	if want := "{\n  \"100000000000001\": \"token-100000000000001\"\n}\n"; err != nil || string(b) != want {
		t.Errorf("PAGES_FILE_OUT = %q %v, want %q", b, err, want)
	}
}

func TestRunDoesNotBalance(t *testing.T) {
	t.Parallel()
	for wrong, want := range map[string]string{ // 20 messages to 4 others; the first user who joined writes some of them
		duplicates:  "the ledger shows 85 duplicated of 170 accepted$",
		anonymous:   "the ledger shows 80 without id of 165 accepted$",
		misdelivers: "the ledger shows [67][0-9] lost, [67][0-9] unexpected of 85 accepted$",
		loses:       "the ledger shows 80 lost of 5 accepted$",
		refuses:     "^20 events were not taken$",
	} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			_, err := play(t, wrong, false, map[string]string{"SETTLE_TIMEOUT": "1s", "JOIN_TIMEOUT": "2s"})
			if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
				t.Errorf("run against a system that %s = %v, want %s", wrong, err, want)
			}
		})
	}
}

// TestStopped: a run that is asked to stop says what it waits for. What does not come
// is not judged, because it may be on its way.
func TestStopped(t *testing.T) {
	t.Parallel()
	out, err := play(t, loses, true, map[string]string{"SETTLE_TIMEOUT": "1s", "DURATION": "1h"})
	want := `^stopping: \d+ copies wait for their page's limit, about 1s; Ctrl-C again leaves them on the queue
events \d+ expected \d+ accepted 5 refused 0 awaited [1-9]\d* duplicated 0 unexpected 0 without id 0 excused \d+
$`
	if err != nil || !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("run = %v, printed %q, want nil and %s", err, out, want)
	}
}

// echo is a bot of somebody else: it answers each message with the same text, and
// gives its sends no ids.
type echo struct {
	base   chan string
	client *http.Client
}

func (e *echo) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	var body struct {
		Object string
		Entry  []struct {
			ID        string
			Messaging []struct {
				Sender  struct{ ID string }
				Message *struct{ Text string }
			}
		}
	}
	if json.NewDecoder(req.Body).Decode(&body) != nil {
		return
	}
	base := <-e.base
	e.base <- base
	for _, entry := range body.Entry {
		for _, m := range entry.Messaging {
			if m.Message != nil {
				e.post(base+"/v23.0/"+entry.ID+"/messages?access_token=token-"+entry.ID, fmt.Sprintf(`{"recipient":{"id":%q},"message":{"text":%q}}`, m.Sender.ID, body.Object+" echo: "+m.Message.Text))
			}
		}
	}
}

func (e *echo) post(url, body string) (answer string) {
	req, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

// TestAnyBot: with USERS=0 a phone talks at once to a bot that knows nothing of rooms,
// on Messenger and on Instagram.
func TestAnyBot(t *testing.T) {
	t.Parallel()
	for instagram, object := range map[string]string{"false": "page", "true": "instagram"} {
		t.Run(object, func(t *testing.T) {
			t.Parallel()
			talk(t, instagram, object+" echo: hello")
		})
	}
}

// talk has a phone write to the bot, and waits for its answer.
func talk(t *testing.T, instagram, answer string) {
	t.Helper()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	bot := &echo{base: make(chan string, 1), client: &http.Client{Transport: tr}}
	hook := httptest.NewServer(bot)
	defer hook.Close()
	s, err := service.Load[settings](nil, map[string]string{
		"HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0", "WEBHOOK_URL": hook.URL, "APP_SECRET": "s", "USERS": "0", "PAGES": "1", "LATENCY": "none",
		"INSTAGRAM": instagram,
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	p := program{settings: s, registry: service.NewRegistry(), log: slog.New(slog.DiscardHandler), stdout: io.Discard}
	p.bound = func(httpAddr, _ string) { bot.base <- "http://" + httpAddr }
	go func() { ended <- p.run(ctx, ctx) }()
	base := <-bot.base
	bot.base <- base
	bot.post(base+"/phones/1/start", "{}")
	await := func(want string) {
		t.Helper()
		var seen string
		for range 500 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/phones", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := bot.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if seen = string(b); strings.Contains(seen, want) {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("phones = %s, want %s in it", seen, want)
	}
	await(`"state":"joined"`)
	bot.post(base+"/phones/1/messages", `{"text":"hello"}`)
	await(answer)
	tr.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run = %v, want nil", err)
	}
}

// TestServes: without users the platform and the admin server answer until the
// context ends.
func TestServes(t *testing.T) {
	t.Parallel()
	s, err := service.Load[settings](nil, map[string]string{"HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	type addrs struct{ http, admin string }
	bound := make(chan addrs, 1)
	p := program{settings: s, registry: service.NewRegistry(), log: slog.New(slog.DiscardHandler), stdout: io.Discard}
	p.bound = func(httpAddr, adminAddr string) { bound <- addrs{httpAddr, adminAddr} }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx, ctx) }()
	a := <-bound
	tr := &http.Transport{}
	client := &http.Client{Transport: tr}
	for url, want := range map[string]string{
		"http://" + a.http + "/ledger":   `"accepted":0`,
		"http://" + a.http + "/healthz":  "ok",
		"http://" + a.http + "/":         "<title>fakeapi",
		"http://" + a.admin + "/metrics": `fakeapi_sends_total{result="accepted"} 0`,
		"http://" + a.admin + "/readyz":  "",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.Contains(string(b), want) {
			t.Errorf("GET %s = %d %v, want 200 with %s", url, resp.StatusCode, err, want)
		}
	}
	tr.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run = %v, want nil after cancel", err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	var help bytes.Buffer
	if err := start(t.Context(), []string{"-h"}, map[string]string{}, &help, io.Discard); err == nil || !strings.Contains(help.String(), "LIMIT_ALGORITHM") || !strings.Contains(help.String(), "GET /ledger") {
		t.Errorf("-h = %v, printed %q, want the settings", err, help.String())
	}
	for _, row := range service.Table[settings]() {
		if row.Meaning == "" || !strings.Contains(help.String(), row.Name) {
			t.Errorf("setting %s has no meaning or is not in the help", row.Name)
		}
	}
	err := start(t.Context(), nil, map[string]string{
		"WEBHOOK_URL": "nowhere", "USERS": "1", "LATENCY": "soon", "LIMIT_ALGORITHM": "guess", "RETRY_AFTER": "soon", "DUPLICATES": "2", "EXIT": "true", "EVENTS_PER_SECOND": "0",
	}, io.Discard, io.Discard)
	for _, want := range []string{"WEBHOOK_URL", "APP_SECRET", "USERS", "LATENCY", "LIMIT_ALGORITHM", "RETRY_AFTER", "DUPLICATES", "EXIT", "EVENTS_PER_SECOND"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("start with wrong settings = %v, want it to name %s", err, want)
		}
	}
}
