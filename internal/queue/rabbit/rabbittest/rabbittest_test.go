package rabbittest_test

import (
	"io"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit/rabbittest"
)

func TestMain(m *testing.M) { rabbittest.Main(m) }

func TestFindRefusesDeadBroker(t *testing.T) {
	t.Setenv(rabbittest.NoBroker, "")
	t.Setenv("AMQP_URL", "amqp://user:hunter2@127.0.0.1:1/")
	_, _, err := rabbittest.Find(t.Context(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Find(dead AMQP_URL) = %v, want an error that names 127.0.0.1:1 and not the password", err)
	}
}

func TestFindRefusesOldBroker(t *testing.T) {
	t.Setenv(rabbittest.NoBroker, "")
	t.Setenv("AMQP_URL", rabbittest.Handshake(t, "3.10.8"))
	_, _, err := rabbittest.Find(t.Context(), io.Discard)
	if err == nil || !strings.HasSuffix(err.Error(), "is RabbitMQ 3.10.8, and 4.0 or later is needed") {
		t.Errorf("Find(AMQP_URL of 3.10.8) = %v, want an error that names both versions", err)
	}
}

func TestFindRepeatsTheReason(t *testing.T) {
	t.Setenv(rabbittest.NoBroker, "there is none, install one")
	_, _, err := rabbittest.Find(t.Context(), io.Discard)
	if err == nil || err.Error() != "there is none, install one" {
		t.Errorf("Find() = %v, want the reason that it was given", err)
	}
}

// TestPrefix leaves queues behind in a part of the test, and looks for them
// after it.
func TestPrefix(t *testing.T) {
	t.Parallel()
	conn, err := amqp.Dial(rabbittest.URL(t))
	if err != nil {
		t.Fatalf("Dial() = %v, want nil", err)
	}
	defer func() { _ = conn.Close() }()
	var names []string
	t.Run("use", func(t *testing.T) {
		ch, err := conn.Channel()
		if err != nil {
			t.Fatalf("Channel() = %v, want nil", err)
		}
		for _, s := range (queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 3}).Specs() {
			names = append(names, s.Name)
			if _, err := ch.QueueDeclare(s.Name, true, false, false, false, nil); err != nil {
				t.Fatalf("QueueDeclare(%q) = %v, want nil", s.Name, err)
			}
		}
	})
	if len(names) != 55 {
		t.Fatalf("declared %d queues, want 55", len(names))
	}
	for _, name := range names {
		ch, err := conn.Channel()
		if err != nil {
			t.Fatalf("Channel() = %v, want nil", err)
		}
		if _, err := ch.QueueDeclarePassive(name, true, false, false, false, nil); err == nil {
			t.Errorf("queue %q is there after the test that used it, want it deleted", name)
		}
	}
}
