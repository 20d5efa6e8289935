package e2e

import (
	"fmt"
	"testing"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/rooms/roomstest"
	"chatclub/tools/program"
)

// Rooms of the largest size, on two pages, through separate processes, at the
// platform's own latency: what waits for the same person goes out in one call.
func TestEveryCopyArrivesOnce(t *testing.T) {
	t.Parallel()
	seconds := 10
	if testing.Short() {
		seconds = 5
	}
	d := deploy(t, plan{
		pages: 2, rooms: 2, users: 100, eventsPerSecond: 4, chat: time.Duration(seconds) * time.Second, cores: 2, dispatchers: 2,
		latency: "lognormal:700ms,1.9s",
	})
	got := d.settle(t)
	checkComplete(t, got, 0)
	// Each message goes to 99 others, each join to the one who joined.
	if want := int64(4*seconds*99 + 400); got.Expected != want {
		t.Errorf("expected = %d, want %d", got.Expected, want)
	}
}

// small is a run that lasts long enough to break something in the middle.
func small() plan {
	return plan{pages: 2, rooms: 1, users: 20, eventsPerSecond: 20, chat: 12 * time.Second, cores: 2, dispatchers: 2}
}

// killed is a run during which a program is killed each time that 600 more sends were
// accepted. It returns the number of kills: four, two in the short form.
func killed(t *testing.T, p plan, kill func(d *deployment, i int)) (got totals, kills int64) {
	t.Helper()
	last := int64(2100)
	if testing.Short() {
		p.chat, last = 6*time.Second, 900
	}
	d := deploy(t, p)
	for n := int64(300); n <= last; n += 600 {
		d.awaitSent(t, n)
		kill(d, int(kills))
		kills++
	}
	return d.settle(t), kills
}

func TestKilledDispatcherLosesNothing(t *testing.T) {
	t.Parallel()
	p := small()
	// This much a dispatcher has begun and the broker does not know of: what it
	// holds of the partitions of two pages. A call may carry several messages. How
	// much of that there is, is a matter of the CPU time that it gets.
	const prefetch = 64
	p.dispatcher = map[string]string{"MAX_IN_FLIGHT": "32", "PREFETCH": "64"}
	got, kills := killed(t, p, func(d *deployment, i int) {
		d.dispatchers[i].Kill()
		d.startDispatcher(t)
	})
	checkKilled(t, got, kills*2*prefetch)
}

func TestKilledCoreLosesNothing(t *testing.T) {
	t.Parallel()
	p := small()
	p.core = map[string]string{"PREFETCH": "8"}
	got, kills := killed(t, p, func(d *deployment, i int) {
		d.cores[i].Kill()
		d.startCore(t)
	})
	checkKilled(t, got, kills*8*19) // the copies of the events in its hands
}

// The database fails over: its sessions end, and those that are opened meanwhile read
// only, also when the new primary is there.
func TestFailoverLosesNothing(t *testing.T) {
	long(t, "TestFailover of package rooms has its part")
	t.Parallel()
	db := roomstest.NewPair(t)
	p := small()
	p.databaseURL = db.URL()
	d := deploy(t, p)
	d.awaitSent(t, 800)
	db.Demote(t)
	notReady(t, d.cores...)
	db.Promote(t)
	checkComplete(t, d.settle(t), 0)
}

// A clean stop doubles nothing: every program is replaced while messages flow.
func TestRollingRestartNeitherLosesNorDoubles(t *testing.T) {
	t.Parallel()
	d := deploy(t, small())
	d.awaitSent(t, 300)
	for i := range 2 {
		d.startDispatcher(t).ready(t)
		d.dispatchers[i].Stop(t, 25*time.Second)
	}
	d.awaitSent(t, 1200)
	for i := range 2 {
		d.startCore(t).ready(t)
		d.cores[i].Stop(t, 25*time.Second)
	}
	checkComplete(t, d.settle(t), 0)
	for _, p := range []*process{d.webhook, d.cores[2], d.dispatchers[2], d.fake} {
		p.Stop(t, 25*time.Second)
	}
}

// The parts follow each other on a broker of their own, which takes seconds to start.
func TestBrokerRestartLosesNothing(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Start(t)
	t.Run("full queues", func(t *testing.T) { fullQueues(t, broker) })
	t.Run("restart", func(t *testing.T) { brokerRestart(t, broker) })
}

// brokerRestart: readiness follows the database and the broker; health and metrics do
// not.
func brokerRestart(t *testing.T, broker *rabbittest.Server) {
	t.Helper()
	db, err := roomstest.NewProxy(roomstest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	p := small()
	p.amqpURL, p.databaseURL = broker.URL, db.URL()
	p.dispatcher = map[string]string{"MAX_IN_FLIGHT": "64", "PREFETCH": "128"}
	p.core = map[string]string{"PREFETCH": "8"}
	d := deploy(t, p)
	all := append(append([]*process{d.webhook}, d.cores...), d.dispatchers...)
	d.awaitSent(t, 400)
	for _, p := range all {
		p.ready(t)
	}
	db.Cut()
	notReady(t, d.cores...)
	if err := db.Mend(); err != nil {
		t.Fatal(err)
	}
	const again = 2 * 8 * 19 // the copies of the events that core had in its hands
	before := d.awaitSent(t, 1200).Duplicated
	if before > again {
		t.Errorf("duplicated = %d after the database was away, want at most %d", before, again)
	}
	broker.Stop()
	notReady(t, all...)
	broker.Restart()
	for _, p := range all {
		p.ready(t)
	}
	// All that was sent and not yet acknowledged then is sent again.
	checkComplete(t, d.settle(t), before+2*64+again)
}

// fullQueues: the dead-letter queue is full under a policy, and no lane takes a message.
// Every copy arrives all the same, and what is dead is kept until there is room.
func fullQueues(t *testing.T, broker *rabbittest.Server) {
	t.Helper()
	p := small()
	p.amqpURL = broker.URL
	p.eventsPerSecond = 40
	if testing.Short() {
		p.chat = 6 * time.Second
	}
	p.dispatcher = map[string]string{"PREFETCH": "64"} // so that the pages overflow
	d := deploy(t, p)
	d.awaitSent(t, 100)
	broker.Ctl("set_policy", "dead", "^"+d.prefix+"[.]dead$", `{"max-length": 3, "overflow": "reject-publish"}`, "--apply-to", "queues")
	broker.Ctl("set_policy", "lanes", "^"+d.prefix+"[.]lane[.]", `{"max-length": 1}`, "--apply-to", "queues")

	top := queue.Topology{Prefix: d.prefix, Partitions: partitions}
	b, err := rabbit.Open(rabbit.Config{URLs: []string{d.amqpURL}, Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	const letters = 100
	for i := range letters {
		m := queue.Message{Queue: top.Outbound(i % partitions), ID: fmt.Sprint("letter-", i), Body: []byte("no message")}
		if err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	checkComplete(t, d.settle(t), 0)
	broker.Ctl("clear_policy", "lanes")
	sub, err := b.Consume(top.Dead(), queue.ConsumeOptions{Prefetch: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Close() }()
	for kept := make(map[string]bool); len(kept) < letters; {
		select {
		case letter := <-sub.Deliveries():
			kept[letter.ID] = true
			if err := letter.Ack(); err != nil {
				t.Error(err)
			}
		case <-time.After(program.Patience):
			t.Fatalf("%d dead letters came, want %d", len(kept), letters)
		}
	}
}
