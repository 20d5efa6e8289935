package operator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/orders"
	"chatclub/internal/rooms"
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

// hangingStore is a database that does not answer.
type hangingStore struct{ Store }

func (hangingStore) Pages(ctx context.Context, _ string, _ int) ([]rooms.PageView, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestPauseWhileTheDatabaseHangs: it needs none, and waits for no query.
func TestPauseWhileTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.handler.cfg.Store = hangingStore{r.store}
		for range maxQueries {
			go r.ask(t, "GET", "/pages", "")
		}
		synctest.Wait()
		began := time.Now()
		if status, answer := r.ask(t, "POST", "/pages/p/pause", ""); status != 204 || time.Since(began) > 0 {
			t.Errorf("pause while the database hangs = %d %s after %s, want 204 at once", status, answer, time.Since(began))
		}
		time.Sleep(queryTimeout)
	})
}

func TestOrderWithoutBroker(t *testing.T) {
	r := newRig(t)
	r.handler.cfg.Give = func(context.Context, orders.Order) error { return errors.New("broker away") }
	status, answer := r.ask(t, "POST", "/pages/p/pause", "")
	if status != 503 || strings.Contains(answer, "database") {
		t.Errorf("pause while the broker is away = %d %s, want 503 that does not blame the database", status, answer)
	}
}
