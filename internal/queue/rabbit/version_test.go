package rabbit

import (
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit/rabbittest"
)

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]error{
		"4.0.5": nil, "4.3.0-rc.1": nil, "10.0.0": nil,
		"3.10.8": errTooOld, "3.13.7": errTooOld, "0.0.0": errTooOld, "": errTooOld, "four": errTooOld,
	} {
		if err := checkVersion(amqp.Table{"version": version}); !errors.Is(err, want) {
			t.Errorf("checkVersion(%q) = %v, want %v", version, err, want)
		}
	}
	if err := checkVersion(nil); !errors.Is(err, errTooOld) {
		t.Errorf("checkVersion(nothing) = %v, want %v", err, errTooOld)
	}
}

// A server that is too old is refused, with both versions named, and nothing is asked
// of it.
func TestTooOldServer(t *testing.T) {
	t.Parallel()
	b, err := Open(Config{URLs: []string{rabbittest.Handshake(t, "3.13.7")}, Topology: queue.Topology{Prefix: "p", Partitions: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const want = "the server is RabbitMQ 3.13.7: 4.0 or later is needed"
	if err := <-b.TooOld(); err == nil || err.Error() != want {
		t.Errorf("TooOld() = %v, want %s", err, want)
	}
	if err := b.Ready(); !errors.Is(err, errTooOld) {
		t.Errorf("Ready() = %v, want %v", err, errTooOld)
	}
}
