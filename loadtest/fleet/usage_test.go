package fleet

import (
	"strings"
	"testing"
)

func TestOperationsSumsOurClientsCounters(t *testing.T) {
	t.Parallel()
	const text = `# HELP chatclub_broker_published_total Messages that the broker confirmed.
# TYPE chatclub_broker_published_total counter
chatclub_broker_published_total 12
chatclub_broker_deliveries_total{redelivered="false"} 1.5e+06
chatclub_broker_deliveries_total{redelivered="true"} 3
chatclub_broker_settled_total{by="ack"} 20
chatclub_broker_settled_total{by="requeue"} 0
chatclub_broker_republished_total 100
chatclub_broker_confirm_seconds_count 100
loadtest_strategy_errors_total 7
`
	if n, faults := counts(strings.NewReader(text)); n != 1_500_035 || faults != 7 {
		t.Errorf("counts() = %d operations, %d faults, want 1500035 and 7", n, faults)
	}
}
