package core

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/command"
	"chatclub/internal/fanout"
	"chatclub/internal/machine"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/rooms"
	"chatclub/internal/rooms/roomstest"
)

const (
	benchPages  = 32
	benchEvents = 400 // of one run, on all pages
)

// BenchmarkFanOut compares the cost of a core with the least possible cost, in
// pairs of runs in the order A B B A. In one run a core handles events for rooms of
// 100 on RabbitMQ and PostgreSQL. In the other a bare loop over the AMQP library
// publishes the same bodies, those of each event as one batch with confirms. "side
// by side" has as many loops as core has workers, so that the broker's confirms
// come in larger groups.
//
// The events wait on the queue before a run begins, so that each run is as fast as
// it can be. That amounts to a thousand events a second here. The results are
// medians: of this process's CPU time per copy, of the ratio of each pair, and of
// core's copies per second.
func BenchmarkFanOut(b *testing.B) {
	store, err := rooms.Open(rooms.Config{DatabaseURL: roomstest.DSN(b), MaxConns: 10})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	if err := store.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	f := &fan{store: store}
	f.fill(b)
	f.core(b) // opens connections and prepares statements
	b.Run("one loop", func(b *testing.B) { f.compare(b, 1) })
	b.Run("side by side", func(b *testing.B) { f.compare(b, 8) })
}

func (f *fan) compare(b *testing.B, loops int) {
	var cores, bares, ratios, rates []float64
	for b.Loop() {
		var c, p run
		if len(cores)%2 == 0 {
			c, p = f.core(b), f.bare(b, loops)
		} else {
			p, c = f.bare(b, loops), f.core(b)
		}
		cores, bares = append(cores, c.cpu), append(bares, p.cpu)
		ratios, rates = append(ratios, c.cpu/p.cpu), append(rates, c.rate)
	}
	b.ReportMetric(median(cores), "core-µs/copy")
	b.ReportMetric(median(bares), "bare-µs/copy")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(rates), "copies/s")
	b.ReportMetric(0, "ns/op")
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// run is the cost of one run.
type run struct{ cpu, rate float64 }

// fan makes the events of each run.
type fan struct {
	store *rooms.Store
	made  int
}

func (f *fan) page(i int) string { return fmt.Sprint(100_000_000_000_000 + i) }
func (f *fan) user(i int) string { return fmt.Sprint(7_205_759_403_792_700 + i) }

// fill puts a hundred users into one room of each page.
func (f *fan) fill(b *testing.B) {
	var pages sync.WaitGroup // within MaxConns
	for p := range benchPages {
		pages.Go(func() {
			for u := range rooms.MaxCapacity {
				ev := rooms.Event{Page: f.page(p), User: f.user(u), ID: fmt.Sprint("join", u), At: time.Now(), Command: command.Command{Kind: command.Start}}
				if _, err := f.store.Receive(context.Background(), ev); err != nil {
					b.Errorf("Receive() = %v", err)
				}
			}
		})
	}
	pages.Wait()
}

func (f *fan) events() []message.Event {
	list := make([]message.Event, benchEvents)
	for i := range list {
		f.made++
		list[i] = message.Event{
			Kind: message.KindMessage, Page: f.page(i % benchPages), ID: fmt.Sprintf("m_%080d", f.made),
			User: f.user(f.made * 37 % rooms.MaxCapacity), Time: time.Now().UnixMilli(), Text: "Hello everybody, how are you today?",
		}
	}
	return list
}

// core measures a core that handles events from the queue.
func (f *fan) core(b *testing.B) run {
	broker := newRabbit(b)
	var msgs []queue.Message
	for _, ev := range f.events() {
		body, err := ev.Encode()
		if err != nil {
			b.Fatal(err)
		}
		msgs = append(msgs, queue.Message{Queue: broker.Topology().InboundOf(ev.Page), ID: ev.Page + "/" + ev.ID, Body: body})
	}
	if err := broker.Publish(b.Context(), msgs...); err != nil {
		b.Fatal(err)
	}
	c, err := New(Config{Broker: broker, Store: f.store})
	if err != nil {
		b.Fatal(err)
	}
	return f.measure(b, func() {
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		for testutil.ToFloat64(c.metrics.copies) < benchEvents*(rooms.MaxCapacity-1) {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	})
}

// bare measures loops that publish the copies of such events, made before.
func (f *fan) bare(b *testing.B, loops int) run {
	broker := newRabbit(b)
	var others []string
	for u := range rooms.MaxCapacity {
		others = append(others, f.user(u))
	}
	batches := make(chan []queue.Message, benchEvents)
	for _, ev := range f.events() {
		said, _ := fanout.Say(ev, "Guest 17", ev.Text, fanout.MostOf(message.Limits{Text: 300, Media: 10}, 99))
		var msgs []queue.Message
		for _, o := range said.Copies(ev, others) {
			body, err := o.Encode()
			if err != nil {
				b.Fatal(err)
			}
			msgs = append(msgs, queue.Message{Queue: broker.Topology().Outbound(0), ID: o.ID, Body: body})
		}
		batches <- msgs
	}
	close(batches)
	// The queues are there once this is confirmed.
	if err := broker.Publish(b.Context(), queue.Message{Queue: broker.Topology().Dead(), ID: "connected"}); err != nil {
		b.Fatal(err)
	}
	publishers := make([]rabbittest.Bare, loops)
	for i := range publishers {
		publishers[i] = rabbittest.NewBare(b, rabbittest.URL(b))
	}
	return f.measure(b, func() {
		var running sync.WaitGroup
		for _, p := range publishers {
			running.Go(func() {
				for msgs := range batches {
					if err := p.Publish(b.Context(), msgs); err != nil {
						b.Errorf("Publish() = %v", err)
					}
				}
			})
		}
		running.Wait()
	})
}

func (f *fan) measure(b *testing.B, do func()) run {
	const copies = benchEvents * (rooms.MaxCapacity - 1)
	begin, before := time.Now(), cpuTime(b)
	do()
	used, took := cpuTime(b)-before, time.Since(begin)
	return run{cpu: used.Seconds() * 1e6 / copies, rate: copies / took.Seconds()}
}

// cpuTime returns the CPU time of this process so far.
func cpuTime(b *testing.B) time.Duration {
	used, err := machine.OwnCPU()
	if err != nil {
		b.Fatal(err)
	}
	return used
}
