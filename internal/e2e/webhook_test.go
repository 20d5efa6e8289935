package e2e

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

const fixtures = "../webhook/testdata"

// The fixtures' README is the oracle: how many events each body must enqueue,
// and what the malformed ones get.
func TestWebhookFixturesOnTheRunningProgram(t *testing.T) {
	t.Parallel()
	amqpURL, prefix, hook := rabbittest.URL(t), rabbittest.Prefix(t), freeAddr(t)
	start(t, "webhook", map[string]string{
		"AMQP_URL": amqpURL, "QUEUE_PREFIX": prefix, "PARTITIONS": "4",
		"HTTP_ADDR": hook, "APP_SECRET": "chatclub-test-secret", "VERIFY_TOKEN": "verify",
	}).ready(t)
	inbound, dead := watch(t, amqpURL, prefix)

	names, err := filepath.Glob(fixtures + "/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("fixtures in %s: %v, %v", fixtures, names, err)
	}
	events := eventsByFixture(t)
	for _, file := range names {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		status, wantEvents, wantDead := http.StatusOK, events[name], 0
		switch {
		case name == "bad-object":
			status = http.StatusNotFound
		case strings.HasPrefix(name, "bad-"):
			wantDead = 1
		}
		if got := post(t, "http://"+hook+"/webhook", file); got != status {
			t.Errorf("%s: status %d, want %d", name, got, status)
		}
		for range wantEvents {
			d := take(t, name, inbound)
			if _, err := message.DecodeEvent(d.Body); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for range wantDead {
			d := take(t, name, dead)
			if death, err := message.DeathFromHeaders(d.Headers); err != nil || death.Reason != message.ReasonUndecodable {
				t.Errorf("%s: dead with %+v, %v, want reason undecodable", name, death, err)
			}
		}
	}
	// Events are confirmed before the answer, so whatever there is too much
	// of is on its way by now.
	select {
	case d := <-inbound:
		t.Errorf("one event too many: %s", d.Body)
	case d := <-dead:
		t.Errorf("one dead letter too many: %s", d.Body)
	case <-time.After(200 * time.Millisecond):
	}
}

// watch consumes the two queues that webhook publishes to.
func watch(t *testing.T, amqpURL, prefix string) (inbound, dead <-chan *queue.Delivery) {
	t.Helper()
	b, err := rabbit.Open(rabbit.Config{
		URLs: []string{amqpURL}, Topology: queue.Topology{Prefix: prefix, Partitions: 4}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	consume := func(name string) <-chan *queue.Delivery {
		s, err := b.Consume(name, queue.ConsumeOptions{Prefetch: 100})
		if err != nil {
			t.Fatal(err)
		}
		return s.Deliveries()
	}
	return consume(b.Topology().Inbound()), consume(b.Topology().Dead())
}

func take(t *testing.T, name string, from <-chan *queue.Delivery) *queue.Delivery {
	t.Helper()
	select {
	case d := <-from:
		if err := d.Ack(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return d
	case <-time.After(patience):
		t.Fatalf("%s: a message that was confirmed does not arrive", name)
		return nil
	}
}

func post(t *testing.T, url, file string) (status int) {
	t.Helper()
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".sig")
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Hub-Signature-256", strings.TrimSpace(string(sig)))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

var row = regexp.MustCompile(`(?m)^\| ([a-z-]+) \| (\d+) \|$`)

// eventsByFixture reads the table of the fixtures' README.
func eventsByFixture(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(fixtures + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	events := make(map[string]int)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		events[m[1]] = n
	}
	if len(events) != 13 {
		t.Fatalf("rows in the fixtures' README = %d, want 13", len(events))
	}
	return events
}
