package rabbit

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestExplain has replies of RabbitMQ 3.10. Only one kind needs advice.
func TestExplain(t *testing.T) {
	t.Parallel()
	const advice = "change QUEUE_PREFIX or delete the queue"
	for _, tt := range []struct {
		code    int
		reason  string
		advised bool
		refusal bool
	}{
		{406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'p.dead' in vhost '/': received the value 'quorum' of type 'longstr' but current is none", true, true},
		{406, "PRECONDITION_FAILED - cannot declare queue 'p.probe.0': queue limit in vhost 'v' (3) is reached", false, true},
		{403, "ACCESS_REFUSED - access to queue 'p.dead' in vhost 'v' refused for user 'u'", false, true},
		{403, "username or password not allowed", false, true},
		{405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'p.dead' in vhost 'v'", false, true},
		{530, "NOT_ALLOWED - vhost v not found", false, true},
		{404, "NOT_FOUND - no queue 'p.dead' in vhost '/'", false, false},
		{541, "INTERNAL_ERROR", false, false},
	} {
		err := fmt.Errorf("open: %w", &amqp.Error{Code: tt.code, Reason: tt.reason, Server: true})
		got := explain(err)
		if text := got.Error(); !strings.Contains(text, tt.reason) || strings.Contains(text, advice) != tt.advised {
			t.Errorf("explain(%v) = %v, want advice %t", err, got, tt.advised)
		}
		if isRefusal(got) != tt.refusal {
			t.Errorf("isRefusal(%v) = %t, want %t", got, !tt.refusal, tt.refusal)
		}
	}
	cut := fmt.Errorf("open: %w", &amqp.Error{Code: 501, Reason: "read tcp: i/o timeout"}) // of the library
	if got := explain(cut); got.Error() != "read tcp: i/o timeout" {
		t.Errorf("explain(%v) = %v, want the network's error alone", cut, got)
	}
}
