package main

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small returns the settings of a run that ends soon.
func small(t *testing.T, pairs ...string) settings {
	t.Helper()
	environ := map[string]string{
		"HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0", "PARTITIONS": "1", "DISPATCHERS": "1", "PAGES": "1", "ROOMS": "1", "USERS": "2",
	}
	for i := 0; i < len(pairs); i += 2 {
		environ[pairs[i]] = pairs[i+1]
	}
	s, err := service.Load[settings](nil, environ, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOwnQueues: a run on a broker has queues that no deployment and no other run
// has, and leaves none of them behind.
func TestOwnQueues(t *testing.T) {
	t.Parallel()
	url := rabbittest.URL(t)
	s := small(t, "AMQP_URL", url, "QUEUE_PREFIX", "chatclub")
	sys := newSystem(s)
	top := sys.broker.Topology()
	if other := newSystem(s).broker.Topology(); !strings.HasPrefix(top.Prefix, "chatclub-quickstart-") || other.Prefix == top.Prefix {
		t.Fatalf("prefixes of two runs = %s and %s, want two of the quick start's own", top.Prefix, other.Prefix)
	}
	watch, err := rabbit.Open(rabbit.Config{
		URLs: []string{url}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	exists := func(name string) bool {
		_, err := watch.Inspect(t.Context(), name)
		if err != nil && !errors.Is(err, queue.ErrUnroutable) {
			t.Errorf("Inspect(%q) = %v", name, err)
		}
		return err == nil
	}
	// The balance is not judged here: only what is left.
	seen := &onFirstWrite{do: func() bool { return exists(top.Inbound()) }}
	if err := sys.serve(t.Context(), time.Second, seen); err != nil {
		t.Errorf("serve = %v, want nil", err)
	}
	if !seen.result {
		t.Error("the run had no queue on the broker when it said its balance")
	}
	for _, spec := range top.Specs() {
		if exists(spec.Name) {
			t.Errorf("queue %s is left behind", spec.Name)
		}
	}
}

// onFirstWrite does something when a balance is written.
type onFirstWrite struct {
	do     func() bool
	result bool
}

func (w *onFirstWrite) Write(p []byte) (int, error) {
	if !w.result && strings.Contains(string(p), "events ") {
		w.result = w.do()
	}
	return len(p), nil
}

// TestFloodLimit: core is given the limit, which mutes users who write more.
func TestFloodLimit(t *testing.T) {
	t.Parallel()
	for limit, flooded := range map[string]bool{"0": false, "1": true} {
		s := small(t, "FLOOD_LIMIT", limit, "EVENTS_PER_SECOND", "40")
		if flooded { // what is lost need not be waited for
			s.SettleTimeout = time.Second
		}
		sys := newSystem(s)
		err := sys.serve(t.Context(), time.Second, io.Discard)
		// What a flooding user writes has no copies, and the ledger misses them.
		if got := err != nil && strings.Contains(err.Error(), "lost"); got != flooded {
			t.Errorf("serve with FLOOD_LIMIT %s = %v, want losses %v", limit, err, flooded)
		}
	}
}
