package operator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"chatclub/internal/orders"
)

// TestResumeWithoutDatabase: dispatchers need none.
func TestResumeWithoutDatabase(t *testing.T) {
	r := newRig(t)
	r.ask(t, "POST", "/pages/p/pause", "")
	_ = r.store.Close()
	status, answer := r.ask(t, "POST", "/pages/p/resume", "")
	if _, paused := r.book.Page("p").Paused(time.Now()); status != 503 || paused {
		t.Errorf("resume without the database = %d %s, paused %v, want 503 and the order given", status, answer, paused)
	}
}

func TestOrderWithoutBroker(t *testing.T) {
	r := newRig(t)
	r.handler.cfg.Give = func(context.Context, orders.Order) error { return errors.New("broker away") }
	status, answer := r.ask(t, "POST", "/pages/p/pause", "")
	if status != 503 || strings.Contains(answer, "database") {
		t.Errorf("pause while the broker is away = %d %s, want 503 that does not blame the database", status, answer)
	}
}
