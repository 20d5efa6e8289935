package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small returns the settings of a run that ends soon.
func small(t *testing.T, pairs ...string) settings {
	t.Helper()
	environ := map[string]string{
		"HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0", "PARTITIONS": "1", "DISPATCHERS": "1", "PAGES": "1", "ROOMS": "1", "USERS": "2",
	}
	for i := 0; i < len(pairs); i += 2 {
		environ[pairs[i]] = pairs[i+1]
	}
	s, err := service.Load[settings](nil, environ, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSettings: every fault is named at the start. Settings are flags, too.
func TestSettings(t *testing.T) {
	t.Parallel()
	_, err := service.Load[settings]([]string{"-dispatchers", "0"}, map[string]string{"DATABASE_URL": "mysql://x", "LEDGER_KEEP": "-1s"}, io.Discard)
	if want := "settings: DATABASE_URL: must begin with sqlite: or postgres://; DISPATCHERS: 0 must be 1 to 64; LEDGER_KEEP: -1s must be 0s to 1000h"; err == nil || err.Error() != want {
		t.Errorf("Load = %v, want %s", err, want)
	}
}

// TestAddressInUse: only a default address that is in use is replaced by another, and not
// one that was chosen, by a flag too.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	other, err := service.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for name, environ := range map[string]map[string]string{
		"http-addr": {"ADMIN_ADDR": "127.0.0.1:0"}, "admin-addr": {"HTTP_ADDR": "127.0.0.1:0"},
	} {
		maps.Copy(environ, map[string]string{"PARTITIONS": "1", "DISPATCHERS": "1", "PAGES": "1", "ROOMS": "1", "USERS": "2"})
		s, err := service.Load[settings]([]string{"-" + name, other.Addr().String()}, environ, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + ": "
		if err := newSystem(s, io.Discard, io.Discard).serve(t.Context(), t.Context(), time.Second); !errors.Is(err, syscall.EADDRINUSE) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("serve with -%s of another program = %v, want %saddress already in use", name, err, want)
		}
	}
	free, err := listen(t.Context(), "HTTP_ADDR", other.Addr().String(), other.Addr().String())
	if err != nil {
		t.Fatalf("listen on a default address that is in use = %v, want a free port", err)
	}
	free.Close()
}

// TestOwnQueues: a run on a broker has queues that no deployment and no other run
// has, and leaves none of them behind.
func TestOwnQueues(t *testing.T) {
	t.Parallel()
	url := rabbittest.URL(t)
	s := small(t, "AMQP_URL", url, "QUEUE_PREFIX", "chatclub")
	seen := &onFirstWrite{}
	sys := newSystem(s, seen, io.Discard)
	top := sys.broker.Topology()
	if other := newSystem(s, io.Discard, io.Discard).broker.Topology(); !strings.HasPrefix(top.Prefix, "chatclub-quickstart-") || other.Prefix == top.Prefix {
		t.Fatalf("prefixes of two runs = %s and %s, want two of the quick start's own", top.Prefix, other.Prefix)
	}
	watch, err := rabbit.Open(rabbit.Config{
		URLs: []string{url}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	exists := func(name string) bool {
		_, err := watch.Inspect(t.Context(), name)
		if err != nil && !errors.Is(err, queue.ErrUnroutable) {
			t.Errorf("Inspect(%q) = %v", name, err)
		}
		return err == nil
	}
	// The balance is not judged here: only what is left.
	seen.do = func() bool { return exists(top.Inbound(0)) }
	if err := sys.serve(t.Context(), t.Context(), time.Second); err != nil {
		t.Errorf("serve = %v, want nil", err)
	}
	if !seen.result {
		t.Error("the run had no queue on the broker when it said its balance")
	}
	for _, spec := range top.Specs() {
		if exists(spec.Name) {
			t.Errorf("queue %s is left behind", spec.Name)
		}
	}
}

// onFirstWrite does something when a balance is written.
type onFirstWrite struct {
	do     func() bool
	result bool
}

func (w *onFirstWrite) Write(p []byte) (int, error) {
	if !w.result && strings.Contains(string(p), "events ") {
		w.result = w.do()
	}
	return len(p), nil
}

// output collects the lines that a run prints. The zero value is useful.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	said func(line string) // called with each line; may be nil
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	o.text.Write(p)
	o.mu.Unlock()
	if o.said != nil {
		o.said(string(p))
	}
	return len(p), nil
}

// find waits until the output matches and returns the text in the parentheses.
func (o *output) find(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	eventually(t, "the output has "+pattern, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		found = re.FindStringSubmatch(o.text.String())
		return found != nil
	})
	return found[1]
}

// eventually waits until something is so, as long as it takes on a busy machine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 3000 {
		if ok() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("waited for a minute until %s", what)
}

// ask decodes the answer to a request.
func ask(t *testing.T, method, url, body string, answer any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // leaves no goroutine
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s = %d %v, want an answer", method, url, resp.StatusCode, err)
	}
}

// ledgerAnswer is the part of GET /ledger that the tests read.
type ledgerAnswer struct {
	Totals ledger.Counts
	Users  struct{ Joined int }
	Pages  []struct{ Page string }
}

// TestStopsWithABacklog: a run that is asked to stop twice leaves its backlog on the
// queues, and tells it from a loss.
func TestStopsWithABacklog(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"memory": "", "RabbitMQ": rabbittest.URL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			again, stopAgain := context.WithCancel(t.Context())
			defer stopAgain()
			out := &output{said: func(line string) {
				if strings.HasPrefix(line, "stopping: ") {
					stopAgain()
				}
			}}
			s := small(t, "AMQP_URL", url, "USERS", "4", "EVENTS_PER_SECOND", "60", "LIMIT_TEXT", "2")
			ended := make(chan error, 1)
			go func() { ended <- newSystem(s, out, io.Discard).serve(ctx, again, 0) }()
			page := out.find(t, `open (http\S+)`)
			eventually(t, "copies wait", func() bool {
				var l ledgerAnswer
				ask(t, http.MethodGet, page+"/ledger", "", &l)
				return l.Totals.Pending >= 100
			})
			stop()
			if err := <-ended; err != nil {
				t.Errorf("serve = %v, want nil", err)
			}
			lines := strings.Split(strings.TrimSpace(out.text.String()), "\n")
			last := lines[len(lines)-1]
			var expected, accepted, excused, left int
			_, err := fmt.Sscanf(regexp.MustCompile(`events \d+ | refused \d+`).ReplaceAllString(last, ""),
				"expected %d accepted %d lost 0 duplicated 0 unexpected 0 without id 0 excused %d left on queues %d dead 0", &expected, &accepted, &excused, &left)
			if err != nil || left == 0 || expected != accepted+left {
				t.Errorf("the last line is %q (%v), want some left on the queues, and all else accepted", last, err)
			}
		})
	}
}

// TestBroadcast: the ledger expects a broadcast that core makes.
func TestBroadcast(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &output{}
	ended := make(chan error, 1)
	go func() { ended <- newSystem(small(t), out, io.Discard).serve(ctx, t.Context(), 0) }()
	page, admin := out.find(t, `open (http\S+)`), out.find(t, `API are at (http[^, ]+)`)
	var l ledgerAnswer
	eventually(t, "all have joined", func() bool {
		ask(t, http.MethodGet, page+"/ledger", "", &l)
		return l.Users.Joined == 2
	})
	var made struct{ ID string }
	long := strings.Repeat("news ", 150) // two messages for each
	ask(t, http.MethodPost, admin+"/broadcast", fmt.Sprintf(`{"page":%q,"text":%q}`, l.Pages[0].Page, long), &made)
	eventually(t, "the broadcast is done", func() bool {
		var b struct {
			Queued int
			State  string
		}
		ask(t, http.MethodGet, admin+"/broadcasts/"+made.ID, "", &b)
		return b.State == "done" && b.Queued == 2
	})
	stop()
	if err := <-ended; err != nil {
		t.Errorf("serve = %v, want nil", err)
	}
	out.find(t, `( lost 0 duplicated 0 unexpected 0 without id 0 excused \d+ left on queues 0 dead 0)`)
}

// TestFloodLimit: core is given the limit, which mutes users who write more.
func TestFloodLimit(t *testing.T) {
	t.Parallel()
	for limit, flooded := range map[string]bool{"0": false, "1": true} {
		s := small(t, "FLOOD_LIMIT", limit, "EVENTS_PER_SECOND", "40")
		if flooded { // lost copies need not be waited for
			s.SettleTimeout = time.Second
		}
		err := newSystem(s, io.Discard, io.Discard).serve(t.Context(), t.Context(), time.Second)
		// Texts of a flooding user have no copies, and the ledger misses them.
		if got := err != nil && strings.Contains(err.Error(), "lost"); got != flooded {
			t.Errorf("serve with FLOOD_LIMIT %s = %v, want losses %v", limit, err, flooded)
		}
	}
}
