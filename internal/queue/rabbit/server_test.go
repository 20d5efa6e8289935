package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// TestServer upsets a private server. Its parts share the server, which takes
// seconds to start, and follow each other.
func TestServer(t *testing.T) {
	t.Parallel()
	server := rabbittest.Start(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T, *rabbittest.Server)
	}{
		{"restarted and killed under load", serverRestarted},
		{"blocked", serverBlocked},
		{"a queue without a leader", serverQueueWithoutLeader},
		{"the same again and again to a queue without a leader", serverRepeats},
		{"a consumer whose queue has no leader", serverConsumerWithoutLeader},
		{"a queue that is full", serverQueueFull},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, server) })
	}
}

func private(t *testing.T, server *rabbittest.Server, reg prometheus.Registerer) *rabbit.Broker {
	t.Helper()
	prefix := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	return open(t, rabbit.Config{
		URLs: []string{server.URL}, Topology: queue.Topology{Prefix: prefix, Partitions: 2}, Registerer: reg,
	})
}

// serverRestarted: a broker goes on after a stop and a kill. One that is opened while the
// server is down waits for it, and closes without it.
func serverRestarted(t *testing.T, server *rabbittest.Server) {
	b := private(t, server, nil)
	flow := startFlow(t, b, b.Topology().Inbound(0))
	flow.awaitReceived(t, 200)
	server.Stop()
	late := openWhileDown(t, server)
	s := consume(t, late, late.Topology().Inbound(0), 1)
	server.Restart()
	publish(t, late, late.Topology().Inbound(0), "late")
	if d := receive(t, s); d.ID != "late" {
		t.Errorf("received %q, want %q", d.ID, "late")
	}
	flow.awaitReceived(t, 1000)
	server.Kill()
	start := time.Now()
	if err := late.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("Close(no server) took %s, want at most 10s", took)
	}
	server.Restart()
	flow.awaitReceived(t, 2000)
	awaitReady(t, b)
	flow.finish(t)
}

// openWhileDown opens a broker whose server is down: every call says so in time.
func openWhileDown(t *testing.T, server *rabbittest.Server) *rabbit.Broker {
	t.Helper()
	b := open(t, rabbit.Config{URLs: []string{server.URL}, Topology: queue.Topology{Prefix: "down", Partitions: 1}})
	if err := b.Ready(); err == nil {
		t.Error("Ready() = nil without a server, want an error")
	}
	eventually(t, "both connections were tried", func() (string, bool) {
		state := fmt.Sprint(b.Ready())
		return state, strings.Count(state, "connection refused") == 2
	})
	err := publishFor(t, b, "early", 300*time.Millisecond)
	if !errors.Is(err, queue.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Publish(no server) = %v, want %v and %v", err, queue.ErrUnavailable, context.DeadlineExceeded)
	}
	if !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "guest") {
		t.Errorf("error %q, want it to tell the cause and no user or password", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Inspect(ctx, b.Topology().Inbound(0)); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("Inspect(no server) = %v, want %v", err, queue.ErrUnavailable)
	}
	return b
}

func serverBlocked(t *testing.T, server *rabbittest.Server) {
	reg := prometheus.NewPedanticRegistry()
	b := private(t, server, reg)
	awaitReady(t, b)
	s := consume(t, b, b.Topology().Inbound(0), 2)
	publish(t, b, b.Topology().Inbound(0), "before")
	held := receive(t, s)

	server.Ctl("set_vm_memory_high_watermark", "0.00001")
	eventually(t, "Publish fails", func() (string, bool) {
		err := publishFor(t, b, "during", 300*time.Millisecond)
		return "Publish succeeded", errors.Is(err, queue.ErrUnavailable) && errors.Is(err, context.DeadlineExceeded)
	})
	eventually(t, "Ready says blocked", func() (string, bool) {
		err := b.Ready()
		return "Ready() = nil", err != nil && strings.Contains(err.Error(), "blocked")
	})
	gauge := func(want string) {
		t.Helper()
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP chatclub_broker_blocked 1 while the broker refuses to read what is published (memory or disk alarm).
# TYPE chatclub_broker_blocked gauge
chatclub_broker_blocked `+want+"\n"), "chatclub_broker_blocked"); err != nil {
			t.Error(err)
		}
	}
	gauge("1")
	fresh := private(t, server, prometheus.NewPedanticRegistry()) // has published nothing yet
	eventually(t, "a client finds out by a message to nowhere", func() (string, bool) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := queue.Takes(ctx, fresh)
		return fmt.Sprintf("Takes() = %v", err), err != nil && strings.Contains(err.Error(), "blocked")
	})
	start := time.Now()
	if err := publishFor(t, b, "again", 50*time.Millisecond); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("Publish(blocked) = %v, want %v", err, queue.ErrUnavailable)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("Publish(blocked) took %s, want its context's 50ms", took)
	}
	if err := held.Ack(); err != nil {
		t.Errorf("Ack(while publishing is blocked) = %v, want nil", err)
	}

	server.Ctl("set_vm_memory_high_watermark", "0.6")
	awaitReady(t, b)
	gauge("0")
	publish(t, b, b.Topology().Inbound(0), "after")
	for receive(t, s).ID != "after" { // "during" may or may not have been queued
	}
}

func publishFor(t *testing.T, b queue.Broker, id string, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return b.Publish(ctx, queue.Message{Queue: b.Topology().Inbound(0), ID: id})
}

// serverQueueWithoutLeader holds still the process that leads one queue: what is
// published there stays unconfirmed, and all else goes on.
func serverQueueWithoutLeader(t *testing.T, server *rabbittest.Server) {
	b := private(t, server, nil)
	awaitReady(t, b)
	top := b.Topology()
	publish(t, b, top.Outbound(0), "first") // from now on the channel knows the queue
	s := consume(t, b, top.Inbound(0), 3)
	publish(t, b, top.Inbound(0), "a", "b", "c")
	leader := "{'%2F_" + top.Outbound(0) + "', node()}"
	server.Ctl("eval", "sys:suspend("+leader+").")

	var list []queue.Transfer
	for _, to := range []string{top.Outbound(1), top.Outbound(0), top.Outbound(1)} {
		d := receive(t, s)
		list = append(list, queue.Transfer{Delivery: d, To: []queue.Message{{Queue: to, ID: d.ID}}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan []error, 1)
	go func() { ended <- queue.TransferAll(ctx, b, list) }()
	awaitQueued(t, b, top.Outbound(1), queue.Info{Ready: 2})
	publish(t, b, top.Outbound(1), "last") // a queue confirms in order: both are confirmed, too
	cancel()
	errs := <-ended
	if errs[0] != nil || !errors.Is(errs[1], queue.ErrUnavailable) || errs[2] != nil {
		t.Errorf("TransferAll() = %v, want %v of the second alone", errs, queue.ErrUnavailable)
	}
	server.Ctl("eval", "sys:resume("+leader+").")
	if errs := queue.TransferAll(t.Context(), b, list[1:2]); errs[0] != nil {
		t.Errorf("TransferAll(the second again) = %v, want nil", errs[0])
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	awaitQueued(t, b, top.Inbound(0), queue.Info{})
}

// serverRepeats: a message that is published again and again to a queue that confirms
// nothing takes one place in the window.
func serverRepeats(t *testing.T, server *rabbittest.Server) {
	b := open(t, rabbit.Config{URLs: []string{server.URL}, Topology: queue.Topology{Prefix: "repeats", Partitions: 2}, Window: 8})
	awaitReady(t, b)
	top := b.Topology()
	publish(t, b, top.Outbound(0), "first") // from now on the channel knows the queue
	leader := "{'%2F_" + top.Outbound(0) + "', node()}"
	server.Ctl("eval", "sys:suspend("+leader+").")
	again := queue.Message{Queue: top.Outbound(0), ID: "again", Body: []byte("{}")}
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := b.Publish(ctx, again)
		if cancel(); !errors.Is(err, queue.ErrUnavailable) {
			t.Fatalf("Publish(no leader) = %v, want %v", err, queue.ErrUnavailable)
		}
	}
	publish(t, b, top.Outbound(1), "other")
	server.Ctl("eval", "sys:resume("+leader+").")
	publish(t, b, top.Outbound(0), "last")
	awaitQueued(t, b, top.Outbound(0), queue.Info{Ready: 3})
}

// serverConsumerWithoutLeader holds still the process that leads a queue, while one
// consumer of it acknowledges and closes, one closes and one begins. All of these return,
// and nothing else on the connection ends. Once the queue is well again everything
// is delivered to whoever consumes it then.
func serverConsumerWithoutLeader(t *testing.T, server *rabbittest.Server) {
	reg := prometheus.NewPedanticRegistry()
	b := private(t, server, reg)
	awaitReady(t, b)
	sick, well := b.Topology().Slots()[0], b.Topology().Outbound(0)
	publish(t, b, sick, "a", "b", "c")
	publish(t, b, well, "1", "2")
	settled, closed := consume(t, b, sick, 1), consume(t, b, sick, 1)
	acked, left := receive(t, settled), receive(t, closed)
	neighbour := consume(t, b, well, 1)
	held := receive(t, neighbour)
	leader := "{'%2F_" + sick + "', node()}"
	server.Ctl("eval", "sys:suspend("+leader+").")

	began := consume(t, b, sick, 1)
	within := func(what string, f func() error) {
		t.Helper()
		start := time.Now()
		if err := f(); err != nil {
			t.Errorf("%s = %v, want nil", what, err)
		}
		t.Logf("%s took %s", what, time.Since(start))
	}
	if err := acked.Ack(); err != nil {
		t.Errorf("Ack() = %v, want nil", err)
	}
	within("Close()", closed.Close)
	if left.Live() {
		t.Error("Live() = true after Close, want false")
	}
	within("Close() of one that begins", began.Close)
	within("Close() after Ack()", settled.Close)
	if !held.Live() {
		t.Error("a neighbour's delivery is stale, want it live")
	} else if err := held.Ack(); err != nil {
		t.Errorf("Ack(neighbour's) = %v, want nil", err)
	}
	if d := receive(t, neighbour); d.ID != "2" || d.Redelivered {
		t.Errorf("the neighbour received %q (redelivered %t), want %q (false)", d.ID, d.Redelivered, "2")
	}

	server.Ctl("eval", "sys:resume("+leader+").")
	next := consume(t, b, sick, 3)
	got := []string{receive(t, next).ID, receive(t, next).ID}
	slices.Sort(got)
	want := slices.DeleteFunc([]string{"a", "b", "c"}, func(id string) bool { return id == acked.ID })
	if !slices.Equal(got, want) {
		t.Errorf("received %q once there was a leader, want %q: the other was acknowledged", got, want)
	}
	for _, s := range []queue.Subscription{next, neighbour} {
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
	}
}

// serverQueueFull limits the length of one queue: what is published to it is
// refused, each message by itself, and all else goes on, on the same connection.
func serverQueueFull(t *testing.T, server *rabbittest.Server) {
	reg := prometheus.NewPedanticRegistry()
	b := private(t, server, reg)
	awaitReady(t, b)
	full, other := b.Topology().Outbound(0), b.Topology().Outbound(1)
	server.Ctl("set_policy", "full", "^"+full+"$", `{"max-length": 3}`, "--apply-to", "queues")
	defer server.Ctl("clear_policy", "full")

	refused, sent := 0, 0
	eventually(t, "the queue is full", func() (string, bool) {
		err := b.Publish(t.Context(),
			queue.Message{Queue: full, ID: "full"}, queue.Message{Queue: other, ID: "other"}, queue.Message{Queue: full, ID: "full too"})
		sent++
		if err == nil {
			return "it takes more", false
		}
		some, ok := errors.AsType[*queue.PublishError](err)
		if !ok || some.Errs[1] != nil || !errors.Is(err, queue.ErrRefused) || errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("Publish(to a full queue and another) = %v, want %v of the first and third alone", err, queue.ErrRefused)
		}
		for _, err := range some.Errs {
			if err != nil {
				refused++
			}
		}
		return fmt.Sprint(refused, " refused"), refused > 10
	})
	awaitQueued(t, b, other, queue.Info{Ready: sent})
	want := fmt.Sprintf(`
# HELP chatclub_broker_reconnects_total Connections made after the first.
# TYPE chatclub_broker_reconnects_total counter
chatclub_broker_reconnects_total{connection="consume"} 0
chatclub_broker_reconnects_total{connection="publish"} 0
# HELP chatclub_broker_refused_total Messages that their queue did not take: it is full, or has no leader.
# TYPE chatclub_broker_refused_total counter
chatclub_broker_refused_total %d
# HELP chatclub_broker_republished_total Messages published again because their confirm was lost.
# TYPE chatclub_broker_republished_total counter
chatclub_broker_republished_total 0
`, refused)
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want),
		"chatclub_broker_reconnects_total", "chatclub_broker_refused_total", "chatclub_broker_republished_total"); err != nil {
		t.Error(err)
	}

	s := consume(t, b, full, 100)
	eventually(t, "the queue takes messages again", func() (string, bool) {
		for len(s.Deliveries()) > 0 {
			if err := receive(t, s).Ack(); err != nil {
				t.Errorf("Ack() = %v, want nil", err)
			}
		}
		err := b.Publish(t.Context(), queue.Message{Queue: full, ID: "again"})
		return fmt.Sprint(err), err == nil
	})
}

func awaitQueued(t *testing.T, b queue.Broker, name string, want queue.Info) {
	t.Helper()
	eventually(t, name+" is as expected", func() (string, bool) {
		info, err := b.Inspect(t.Context(), name)
		return fmt.Sprint(info, err), err == nil && info == want
	})
}
