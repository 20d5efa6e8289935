package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// readyPort is an admin port that says by /readyz how its program is.
func readyPort(t *testing.T, code int, text string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	return s
}

// declared is the environment of a tool beside a broker with declared queues.
func declared(t *testing.T, partitions int) (top queue.Topology, b *rabbit.Broker, environ map[string]string) {
	t.Helper()
	top = queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: partitions}
	b, err := rabbit.Open(rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if _, err := b.Inspect(t.Context(), top.Dead()); err != nil { // it waits until all are declared
		t.Fatal(err)
	}
	return top, b, map[string]string{"AMQP_URL": rabbittest.URL(t), "QUEUE_PREFIX": top.Prefix, "PARTITIONS": "2"}
}

// TestStatus: RabbitMQ with its version and queues, and each program by its own words. What was
// not asked is not said to be well, and the worst comes first.
func TestStatus(t *testing.T) {
	t.Parallel()
	ready, sick := readyPort(t, 200, "ready\n"), readyPort(t, 503, "not ready: the database does not answer\n")
	top, broker, environ := declared(t, 2)
	environ["DISPATCHERS"] = ready.URL
	address := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

	out, err := call(t, environ, "status")
	got := fields(out)
	for i, want := range []string{
		"All who were asked are ready.", "", "PROGRAM ADDRESS STATE", "rabbitmq 4.", "dispatcher " + address(ready) + " ready",
		"webhook - not asked: WEBHOOK is not set", "core - not asked: CORE is not set", "", "READY ON INBOUND OUTBOUND LANES RETRY DEAD", "0 0 0 0 0",
	} {
		if err != nil || i >= len(got) || !strings.HasPrefix(got[i], want) || i == 3 && !strings.HasSuffix(got[i], " ready") {
			t.Fatalf("status prints %v\n%s\nwant %q in line %d", err, strings.Join(got, "\n"), want, i)
		}
	}

	if err := broker.Publish(t.Context(), queue.Message{Queue: top.Outbound(1), ID: "1"}); err != nil {
		t.Fatal(err)
	}
	environ["CORE"] = ready.URL + "," + sick.URL
	out, err = call(t, environ, "status")
	for _, want := range []string{
		"1 of 2 cores: " + address(sick) + " is not ready: the database does not answer. 1 messages on " + top.Outbound(1) + " have no consumer.\n",
		"0 1 0 0 0",
	} {
		if exitCode(err) != 1 || !strings.Contains(strings.Join(fields(out), "\n")+out, want) {
			t.Errorf("status prints %q, %v, want %q and exit code 1", out, err, want)
		}
	}
	out, _ = call(t, environ, "status", "-json")
	var d overview
	if err := json.Unmarshal([]byte(out), &d); err != nil || len(d.Programs) != 3 || d.Broker == nil || len(d.Broker.Idle) != 1 {
		t.Errorf("status -json prints %s, %v, want three programs and RabbitMQ", out, err)
	}

	environ = map[string]string{"CORE": ready.URL, "AMQP_URL": "amqp://127.0.0.1:1/"}
	out, err = call(t, environ, "status")
	if exitCode(err) != 1 || strings.Contains(out, "differ") || !strings.HasPrefix(out, "RabbitMQ takes no messages: ") || !strings.Contains(out, "not known") || strings.Contains(out, "  0") {
		t.Errorf("status without RabbitMQ prints %q, %v, want that it takes nothing, and no number", out, err)
	}
}

// TestDifferingSettings: status and doctor name whose settings differ, also where all are ready.
func TestDifferingSettings(t *testing.T) {
	t.Parallel()
	port := func(program, limit string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/settings" {
				_, _ = w.Write([]byte(`{"program":"` + program + `","protocol":2,"limit_text":` + limit + `,"limit_media":10,"differ":[]}`))
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	core, other := port("core", "300"), port("dispatcher", "80")
	for _, command := range []string{"status", "doctor"} {
		out, err := call(t, map[string]string{"CORE": core, "DISPATCHERS": other}, command)
		for _, want := range []string{"ettings differ: LIMIT_TEXT=300 LIMIT_MEDIA=10, protocol 2: core ", "; LIMIT_TEXT=80 LIMIT_MEDIA=10, protocol 2: dispatcher "} {
			if exitCode(err) != 1 || !strings.Contains(out, want) {
				t.Errorf("%s prints %q, %v, want %q and exit code 1", command, out, err, want)
			}
		}
	}
}
