package operator

import (
	"context"
	"errors"
	"strings"
	"testing"

	"chatclub/internal/orders"
)

func TestOrderWithoutBroker(t *testing.T) {
	r := newRig(t)
	r.handler.cfg.Give = func(context.Context, orders.Order) error { return errors.New("broker away") }
	status, answer := r.ask(t, "POST", "/pages/p/pause", "")
	if status != 503 || strings.Contains(answer, "database") {
		t.Errorf("pause while the broker is away = %d %s, want 503 that does not blame the database", status, answer)
	}
}
