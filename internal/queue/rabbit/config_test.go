package rabbit_test

import (
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: "p", Partitions: 1}
	good := "amqp://user:hunter2@localhost/"
	for _, c := range []struct {
		name string
		cfg  rabbit.Config
		want string
	}{
		{"no URL", rabbit.Config{Topology: top}, "no broker URL"},
		{"other scheme", rabbit.Config{URLs: []string{good, "http://user:hunter2@host/"}, Topology: top}, "broker URL 2 of 2"},
		{"unescaped password", rabbit.Config{URLs: []string{"amqp://user:hunter2/%zz@host/"}, Topology: top}, "broker URL 1 of 1"},
		{"white space", rabbit.Config{URLs: []string{"amqp://user:hunter2 @host"}, Topology: top}, "broker URL 1 of 1"},
		{"bad port", rabbit.Config{URLs: []string{"amqp://user:hunter2@host:port"}, Topology: top}, "broker URL 1 of 1"},
		{"bad parameter", rabbit.Config{URLs: []string{good + "?heartbeat=hunter2"}, Topology: top}, "broker URL 1 of 1"},
		{"no topology", rabbit.Config{URLs: []string{good}}, "queue prefix"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, err := rabbit.Open(c.cfg)
			if err == nil {
				_ = b.Close()
				t.Fatalf("Open(%s) = nil, want an error with %q", c.name, c.want)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open(%s) = %q, want an error with %q", c.name, err, c.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("Open(%s) = %q shows the password", c.name, err)
			}
		})
	}
}

func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	b := open(t, rabbit.Config{URLs: []string{"amqp://127.0.0.1:1/"}, Topology: queue.Topology{Prefix: "p", Partitions: 1}})
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		name string
		msg  queue.Message
		want string
	}{
		{"no queue", queue.Message{ID: "a"}, "queue name"},
		{"long queue", queue.Message{Queue: long, ID: "a"}, "queue name"},
		{"no id", queue.Message{Queue: "q"}, "id has 0 bytes"},
		{"long id", queue.Message{Queue: "q", ID: long}, "id has 256 bytes"},
		{"body", queue.Message{Queue: "q", ID: "a", Body: make([]byte, 16<<20+1)}, "body"},
		{"header name", queue.Message{Queue: "q", ID: "a", Headers: map[string]string{long: ""}}, "header name"},
		{"headers", queue.Message{Queue: "q", ID: "a", Headers: map[string]string{"h": strings.Repeat("x", 3001)}}, "headers"},
	} {
		err := b.Publish(t.Context(), queue.Message{Queue: "q", ID: "good"}, c.msg) // no server: only a refusal returns
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "message 2 of 2") {
			t.Errorf("Publish(%s) = %v, want an error with %q about message 2 of 2", c.name, err, c.want)
		}
	}
}

// TestURLRotation gives a URL where nobody listens first.
func TestURLRotation(t *testing.T) {
	t.Parallel()
	var log logbook
	b := open(t, rabbit.Config{
		URLs:     []string{"amqp://user:hunter2@127.0.0.1:1/", rabbittest.URL(t)},
		Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1},
		Log:      slog.New(slog.NewTextHandler(&log, nil)),
	})
	awaitReady(t, b)
	publish(t, b, b.Topology().Inbound(0), "a")
	if got := log.String(); !strings.Contains(got, "address=127.0.0.1:1 ") || strings.Contains(got, "hunter2") {
		t.Errorf("log is %q, want it to name 127.0.0.1:1 and not the password", got)
	}
}

// TestReadyTellsNoAddress checks that readiness, which everybody may read, names neither
// the broker's address, the resolver's, nor its user.
func TestReadyTellsNoAddress(t *testing.T) {
	t.Parallel()
	own, err := url.Parse(rabbittest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	own.User = url.UserPassword("somebody", "wrong")
	for _, address := range []string{"amqp://somebody:x@127.0.0.1:1/", own.String(), "amqp://somebody:x@rabbit.invalid/"} {
		b := open(t, rabbit.Config{URLs: []string{address}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}})
		eventually(t, "Ready says why not", func() (string, bool) {
			got := fmt.Sprint(b.Ready())
			return got, strings.Contains(got, "refused") || strings.Contains(got, "403") || strings.Contains(got, "looked up")
		})
		if got := fmt.Sprint(b.Ready()); regexp.MustCompile(`[0-9]\.[0-9]|somebody|invalid`).MatchString(got) {
			t.Errorf("Ready() = %q, want no address, no name and no user", got)
		}
	}
}

// TestOtherArguments finds a queue of our name that is not ours.
func TestOtherArguments(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}
	onChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(top.Outbound(0), true, false, false, false, nil) // a classic queue
		return err
	})
	b := open(t, rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top})
	eventually(t, "Ready names the queue and what to do", func() (string, bool) {
		got := fmt.Sprint(b.Ready())
		return got, strings.Contains(got, top.Outbound(0)) && strings.Contains(got, "QUEUE_PREFIX")
	})
	deleteQueue(t, top.Outbound(0))
	awaitReady(t, b)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	b := shared(t, reg)
	name := b.Topology().Inbound(0)
	publish(t, b, name, "a", "b", "c")
	if err := b.Publish(t.Context(), queue.Message{Queue: name + ".missing", ID: "d"}); err == nil {
		t.Error("Publish(to a missing queue) = nil, want an error")
	}
	s := consume(t, b, name, 1)
	if err := receive(t, s).Ack(); err != nil {
		t.Errorf("Ack(a) = %v, want nil", err)
	}
	last := receive(t, s)
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	_ = last.Ack() // stale, and counted
	s = consume(t, b, name, 1)
	for range 2 {
		if err := receive(t, s).Ack(); err != nil {
			t.Errorf("Ack() = %v, want nil", err)
		}
	}
	if err := s.Close(); err != nil { // writes the acknowledgements that wait
		t.Errorf("Close() = %v, want nil", err)
	}
	want := `
# HELP chatclub_broker_blocked 1 while the broker refuses to read what is published (memory or disk alarm).
# TYPE chatclub_broker_blocked gauge
chatclub_broker_blocked 0
# HELP chatclub_broker_connected 1 while the connection to the broker is up.
# TYPE chatclub_broker_connected gauge
chatclub_broker_connected{connection="consume"} 1
chatclub_broker_connected{connection="publish"} 1
# HELP chatclub_broker_deliveries_total Messages received from queues.
# TYPE chatclub_broker_deliveries_total counter
chatclub_broker_deliveries_total{redelivered="false"} 3
chatclub_broker_deliveries_total{redelivered="true"} 1
# HELP chatclub_broker_published_total Messages that the broker confirmed.
# TYPE chatclub_broker_published_total counter
chatclub_broker_published_total 3
# HELP chatclub_broker_returned_total Messages that no queue took.
# TYPE chatclub_broker_returned_total counter
chatclub_broker_returned_total 1
# HELP chatclub_broker_settled_total Deliveries settled.
# TYPE chatclub_broker_settled_total counter
chatclub_broker_settled_total 3
# HELP chatclub_broker_stale_total Deliveries settled too late: their channel was gone.
# TYPE chatclub_broker_stale_total counter
chatclub_broker_stale_total 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want),
		"chatclub_broker_blocked", "chatclub_broker_connected", "chatclub_broker_deliveries_total",
		"chatclub_broker_published_total", "chatclub_broker_returned_total",
		"chatclub_broker_settled_total", "chatclub_broker_stale_total"); err != nil {
		t.Error(err)
	}
}
