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
	if len(names) != 16 {
		t.Fatalf("declared %d queues, want 16", len(names))
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

// TestStart checks what the tests of broker losses rely on. The short run leaves
// out Stop, since each boot takes seconds of processor time; TestServer of package
// rabbit stops its server.
func TestStart(t *testing.T) {
	t.Parallel()
	s := rabbittest.Start(t)
	declare := func(passive bool) error {
		conn, err := amqp.Dial(s.URL)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		f := ch.QueueDeclare
		if passive {
			f = ch.QueueDeclarePassive
		}
		_, err = f("kept", true, false, false, false, nil)
		return err
	}
	if err := declare(false); err != nil {
		t.Fatalf("declare a queue: %v", err)
	}
	for name, end := range map[string]func(){"Stop": s.Stop, "Kill": s.Kill} {
		if testing.Short() && name == "Stop" {
			continue
		}
		s.Ctl("eval", "catch mnesia:sync_log().") // before RabbitMQ 4 a declared queue is not yet on the disk
		end()
		if err := declare(true); err == nil {
			t.Errorf("the server answers after %s, want it gone", name)
		}
		s.Restart()
		if err := declare(true); err != nil {
			t.Errorf("after %s and Restart the queue is not there: %v", name, err)
		}
	}
	if out := s.Ctl("list_queues", "name"); !strings.Contains(out, "kept") {
		t.Errorf("Ctl(list_queues) = %q, want the queue in it", out)
	}
}
