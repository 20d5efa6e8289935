package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"chatclub/loadtest/peers/peer"
)

// Each worker has its share of the limit, a queue for each page, and snoozes what
// was refused.
func TestWorkerIsAsDocumented(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":{"code":613}}`))
	}))
	t.Cleanup(api.Close)
	s := peer.Settings{Limit: 300, Replicas: 4, Pages: []string{"1", "2"}, Namespace: "n"}
	w := newSender(s, peer.NewGraph(api.URL))
	if l := w.limiters["1"]; l.Limit() != 75 || l.Burst() != 1 {
		t.Errorf("a worker's limit = %v with bursts of %d, want a fourth of 300, evenly", l.Limit(), l.Burst())
	}
	if q := config(s, river.NewWorkers()).Queues; len(q) != 2 || q["page-2"].MaxWorkers != 150 {
		t.Errorf("queues = %v, want one a page with 150 workers", q)
	}
	err := w.Work(t.Context(), &river.Job[send]{Args: send{peer.Message{Page: "1", Body: "{}"}}})
	if snooze, ok := errors.AsType[*rivertype.JobSnoozeError](err); !ok || snooze.Duration != time.Second {
		t.Errorf("Work() of a refused job = %v, want a snooze of a second", err)
	}
}
