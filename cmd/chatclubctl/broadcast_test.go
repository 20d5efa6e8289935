package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"chatclub/internal/broadcast"
	user "chatclub/internal/command"
	"chatclub/internal/operator"
	"chatclub/internal/orders"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/rooms"
)

// newCore is core's admin port as it is, on an empty database, with one member on
// page 1 and a scheduler that does not run.
func newCore(t *testing.T) *httptest.Server {
	t.Helper()
	store, err := rooms.Open(rooms.Config{DatabaseURL: "sqlite::memory:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Receive(t.Context(), rooms.Event{Page: "1", User: "7", ID: "m1", At: time.Now(), Command: user.Command{Text: "hello"}}); err != nil {
		t.Fatal(err)
	}
	scheduler, err := broadcast.New(broadcast.Config{
		Broker: memorytest.New(t, queue.Topology{Prefix: "test", Partitions: 1}), Store: store.Broadcasts(),
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := operator.New(operator.Config{
		Store: store, Scheduler: scheduler, MaxRate: func(string) float64 { return 300 },
		Give: func(context.Context, orders.Order) error { return nil }, Orders: orders.NewBook().Page,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			h.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// fields are the words of the lines of a table.
func fields(out string) (lines []string) {
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestBroadcast(t *testing.T) {
	t.Parallel()
	environ := map[string]string{"CORE": newCore(t).URL}
	start := []string{"broadcast", "start", "1", "-text", "Good evening", "-rate", "5", "-within", "2h", "-id", "b1"}
	for range 2 { // the second time nothing is begun
		out, err := call(t, environ, start...)
		if want := "broadcast b1 is running, for 1 recipients\n"; err != nil || out != want {
			t.Fatalf("broadcast start prints %q, %v, want %q", out, err, want)
		}
	}
	out, err := call(t, environ, "broadcast", "list", "-page", "1")
	lines := fields(out)
	if want := "b1 1 all running 0 1 5 "; err != nil || len(lines) != 2 || !strings.HasPrefix(lines[1], want) {
		t.Errorf("broadcast list prints\n%s%v\nwant one line that begins with %q", out, err, want)
	}
	out, err = call(t, environ, "broadcast", "stop", "b1", "-json")
	var b rooms.Broadcast
	if err != nil || json.Unmarshal([]byte(out), &b) != nil || b.State != rooms.BroadcastStopped || b.Text != "Good evening" {
		t.Errorf("broadcast stop -json prints %s, %v, want it stopped", out, err)
	}
	if out, err := call(t, environ, "broadcast", "show", "b1"); err != nil || !strings.Contains(out, "stopped") || !strings.HasSuffix(out, "\n\nGood evening\n") {
		t.Errorf("broadcast show prints\n%s%v\nwant it stopped, with its text", out, err)
	}
	for args, want := range map[string]string{
		"broadcast start 1":                            "text: must have something readable",
		"broadcast start 1 -text x -rate 301":          "rate: must be above 0",
		"broadcast start 9 -text x":                    "page: unknown",
		"broadcast start 1 -text x -room 9":            "room: unknown on this page",
		"broadcast start 1 -text x -id b1":             "409",
		"broadcast show b2":                            "broadcast: unknown",
		"broadcast stop b2":                            "broadcast: unknown",
		"broadcast list -limit 0":                      "limit: must be a number",
		"broadcast start 1 -text x -within -1s -id b3": "within: ",
	} {
		if out, err := call(t, environ, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s prints %q, %v, want an error with %q", args, out, err, want)
		}
	}
}

// A core that begins a broadcast and whose answer is lost does not lead to two: the
// next one is asked for the same.
func TestBroadcastIsStartedOnce(t *testing.T) {
	t.Parallel()
	core := newCore(t)
	lost := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), r.Method, core.URL+r.URL.Path, r.Body)
		if err == nil {
			req.Header = r.Header
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		panic(http.ErrAbortHandler)
	}))
	defer lost.Close()
	environ := map[string]string{"CORE": lost.URL + "," + core.URL}
	if _, err := call(t, environ, "broadcast", "start", "1", "-text", "x"); err != nil {
		t.Fatal(err)
	}
	out, err := call(t, map[string]string{"CORE": core.URL}, "broadcast", "list")
	if err != nil || len(fields(out)) != 2 {
		t.Errorf("broadcasts =\n%s%v\nwant one", out, err)
	}
}
