package e2e

import (
	"maps"
	"testing"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// long skips a test in the short form.
func long(t *testing.T, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: make test-long; " + why)
	}
}

// crowd is one page whose room writes more than its limit, each copy for itself.
func crowd() plan {
	return plan{
		pages: 1, rooms: 1, users: 50, eventsPerSecond: 10, chat: 20 * time.Second, cores: 1, dispatchers: 2,
		dispatcher: map[string]string{"JOIN_TEXTS": "1"},
		core:       map[string]string{"FLOOD_SHARE": "0"}, // the page is far above its limit, and every copy is wanted
	}
}

// The dispatchers' connections become half open while a backlog is sent. Doubled
// are the sends of 1.5 s, and the calls in flight.
func TestHalfOpenLinkDoublesLittle(t *testing.T) {
	long(t, "TestHalfOpenConnection of package dispatch and TestMute of package rabbit have its parts")
	t.Parallel()
	p := crowd()
	w, url := rabbittest.Wire(t)
	p.dispatcher["AMQP_URL"] = url
	d := deploy(t, p)
	d.awaitSent(t, 2000)
	w.SetDeaf(true)
	time.Sleep(time.Second) // the calls in flight end
	notReady(t, d.dispatchers...)
	time.Sleep(20 * time.Second) // the fault's length
	w.SetDeaf(false)
	const limit = 300
	checkComplete(t, d.settle(t), 2*limit) // 1.5 s of it, the calls in flight, and what a busy machine is late
}

// The broker is slow to confirm for a minute: it gets hardly a copy twice.
func TestSlowBrokerGetsCopiesOnce(t *testing.T) {
	long(t, "TestSlowConfirms of package rabbit has its part")
	t.Parallel()
	p := crowd()
	p.pages, p.eventsPerSecond, p.chat = 8, 3, 70*time.Second // as many events at a time as core has workers
	w, url := rabbittest.Wire(t)
	p.core["AMQP_URL"] = url
	d := deploy(t, p)
	d.awaitSent(t, 300)
	w.SetRate(8 << 10)
	time.Sleep(time.Minute) // the fault's length
	w.SetRate(0)
	got := d.settle(t)
	checkComplete(t, got, got.Expected/20)
}

// Fifty owners of a deep lane end one after another, half of them by kill -9.
// RabbitMQ 4 drops a message that comes back twenty times, unless the queue has a limit of
// its own.
func TestLaneOutlivesFiftyOwners(t *testing.T) {
	long(t, "TestArguments of package rabbit has the queues' limit")
	t.Parallel()
	const owners, kept = 50, 20
	p := crowd()
	d := deploy(t, p)
	slow := maps.Clone(d.dispatcher)
	slow["LIMIT_TEXT"] = "20" // so that the lane stays deep
	d.awaitSent(t, 500)
	fast := d.dispatcher
	d.dispatcher = slow
	for range 2 {
		d.startDispatcher(t).ready(t)
	}
	sent := d.awaitSent(t, 500).Accepted
	for i := range owners {
		if i > 1 {
			d.startDispatcher(t).ready(t)
		}
		if i%2 == 0 {
			d.dispatchers[i].Stop(t, 25*time.Second)
		} else {
			d.dispatchers[i].Kill()
		}
		sent = d.awaitSent(t, sent+kept).Accepted // the next owner has the lane
	}
	d.dispatcher = fast
	d.startDispatcher(t).ready(t)
	for _, p := range d.dispatchers[owners : owners+2] {
		p.Stop(t, 25*time.Second)
	}
	got := d.settle(t)
	checkKilled(t, got, owners/2*2*kept)

	top := queue.Topology{Prefix: d.prefix, Partitions: partitions}
	b, err := rabbit.Open(rabbit.Config{URLs: []string{d.amqpURL}, Topology: top, Passive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	info, err := b.Inspect(t.Context(), top.Dead())
	if err != nil || info.Ready != 0 {
		t.Errorf("dead letters = %d, %v, want none", info.Ready, err)
	}
}
