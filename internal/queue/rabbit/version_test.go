package rabbit

import (
	"errors"
	"log/slog"
	"strings"
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

// Of a version that may elect a consumer that is gone, the start says so.
func TestKeepsConsumers(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"4.3.6": true, "4.0.5": false, "4.30.0": false, "": false} {
		if got := keepsConsumers(amqp.Table{"version": version}); got != want {
			t.Errorf("keepsConsumers(%q) = %v, want %v", version, got, want)
		}
	}
}

// A server that is too old is refused, with both versions named, and nothing is asked
// of it. Where nobody is told, the log is.
func TestTooOldServer(t *testing.T) {
	t.Parallel()
	const want = "the server is RabbitMQ 3.13.7: 4.0 or later is needed"
	for _, told := range []bool{true, false} {
		heard := make(lineChan, 100)
		cfg := Config{
			URLs: []string{rabbittest.Handshake(t, "3.13.7")}, Topology: queue.Topology{Prefix: "p", Partitions: 1},
			Log: slog.New(slog.NewTextHandler(heard, nil)),
		}
		if told {
			cfg.Useless = func(err error) { heard <- err.Error() }
		}
		b, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if got := <-heard; !strings.Contains(got, want) || strings.Contains(got, "level=ERROR") == told {
			t.Errorf("told (%v) or logged is %q, want %q", told, got, want)
		}
		if err := b.Ready(); !errors.Is(err, errTooOld) {
			t.Errorf("Ready() = %v, want %v", err, errTooOld)
		}
	}
}

// lineChan is a log whose lines are read.
type lineChan chan string

func (c lineChan) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}
