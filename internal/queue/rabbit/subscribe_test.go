package rabbit

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestLossOfChannel: where the broker closes a channel, the library closes that of cancels,
// too. The broker's reason is the one that is told.
func TestLossOfChannel(t *testing.T) {
	t.Parallel()
	for range 100 {
		closes, cancels := make(chan *amqp.Error, 1), make(chan string)
		closes <- &amqp.Error{Code: amqp.InternalError, Reason: "INTERNAL_ERROR", Server: true}
		close(closes)
		close(cancels)
		if err := lossOfChannel(closes, cancels); !strings.Contains(err.Error(), "INTERNAL_ERROR") {
			t.Fatalf("lossOfChannel() = %v, want the broker's reason", err)
		}
	}
}
