package core

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/rooms"
)

// onRabbit is cores that share RabbitMQ and a store, and their messages.
type onRabbit struct {
	*testing.T
	top    queue.Topology
	broker *rabbit.Broker
	store  *rooms.Store
	stops  []func()
	said   int

	mu      sync.Mutex
	last    map[string]int // by page and recipient
	seen    map[string]int // copies, by id
	overrun int            // copies that were overtaken
}

func (o *onRabbit) open() *rabbit.Broker {
	o.Helper()
	b, err := rabbit.Open(rabbit.Config{URLs: []string{rabbittest.URL(o)}, Topology: o.top, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		o.Fatal(err)
	}
	return b
}

// start starts a core more.
func (o *onRabbit) start() {
	o.Helper()
	b := o.open()
	c, err := New(Config{Broker: b, Store: o.store})
	if err != nil {
		o.Fatal(err)
	}
	ctx, cancel := context.WithCancel(o.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	o.stops = append(o.stops, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			o.Errorf("Run() = %v, want nil", err)
		}
		_ = b.Close()
	}))
}

// collect notes the copies that arrive.
func (o *onRabbit) collect() {
	o.Helper()
	for i := range o.top.Partitions {
		sub, err := o.broker.Consume(o.top.Outbound(i), queue.ConsumeOptions{Prefetch: 1000})
		if err != nil {
			o.Fatal(err)
		}
		go func() { // ends with the broker
			for d := range sub.Deliveries() {
				o.note(d)
			}
		}()
	}
}

func (o *onRabbit) note(d *queue.Delivery) {
	_ = d.Ack()
	out, err := message.DecodeOutbound(d.Body)
	if err != nil {
		o.Errorf("outbound message %s: %v", d.ID, err)
		return
	}
	_, words, _ := strings.Cut(out.Text, ": ")
	var n int
	if _, err := fmt.Sscan(words, &n); err != nil {
		return // a welcome
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if d.Redelivered && o.seen[d.ID] > 0 {
		return // the broker's: the acknowledgement was lost
	}
	o.seen[d.ID]++
	key := out.Page + "/" + out.To
	if n < o.last[key] {
		o.overrun++
	}
	o.last[key] = max(o.last[key], n)
}

const (
	rabbitPages  = 20
	rabbitPeople = 3
)

// say publishes events of one page after another.
func (o *onRabbit) say(events int) {
	o.Helper()
	msgs := make([]queue.Message, events)
	for i := range msgs {
		o.said++
		ev := message.Event{
			Kind: message.KindMessage, Page: fmt.Sprint("p", o.said%rabbitPages), ID: fmt.Sprint("m", o.said),
			User: fmt.Sprint(o.said / rabbitPages % rabbitPeople), Time: time.Now().UnixMilli(), Text: fmt.Sprint(o.said),
		}
		body, err := ev.Encode()
		if err != nil {
			o.Fatal(err)
		}
		msgs[i] = queue.Message{Queue: o.top.InboundOf(ev.Page), ID: ev.Page + "/" + ev.ID, Body: body}
	}
	if err := o.broker.Publish(o.Context(), msgs...); err != nil {
		o.Fatal(err)
	}
}

// flow says something at a rate.
func (o *onRabbit) flow(perSecond int, most time.Duration) {
	o.Helper()
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for end := time.Now().Add(most); time.Now().Before(end); <-tick.C {
		o.say(1)
	}
}

func (o *onRabbit) copies() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.seen)
}

// await waits until there are so many different copies.
func (o *onRabbit) await(copies int) {
	o.Helper()
	for end := time.Now().Add(2 * time.Minute); o.copies() < copies; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			o.Fatalf("copies = %d after two minutes, want %d", o.copies(), copies)
		}
	}
}

// On RabbitMQ no copy is overtaken or doubled by several cores, at 5 and 100 events a second
// and with a backlog, while one takes its place and another is stopped.
func TestOrderOnRabbitMQ(t *testing.T) {
	t.Parallel()
	rows := []struct{ cores, perSecond, backlog int }{{4, 100, 2000}, {2, 5, 0}}
	unit := time.Second
	if testing.Short() {
		rows, unit = []struct{ cores, perSecond, backlog int }{{2, 100, 500}}, 500*time.Millisecond
	}
	for _, row := range rows { // one after another: beside each other they starve a small machine
		t.Run(fmt.Sprintf("%+v", row), func(t *testing.T) {
			o := &onRabbit{
				T: t, top: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 8}, store: newStore(t, "sqlite::memory:"),
				last: map[string]int{}, seen: map[string]int{},
			}
			o.broker = o.open()
			defer o.broker.Close()
			o.collect()
			o.start()
			o.say(rabbitPages * rabbitPeople) // they enter: each is copied to those who are there
			const entered = rabbitPages * (0 + 1 + 2)
			o.await(entered)
			for range row.cores - 1 {
				o.start()
			}
			o.flow(row.perSecond, 4*unit)
			o.say(row.backlog) // in which the newcomers take their place
			o.flow(row.perSecond, 3*unit)
			o.say(row.backlog)
			o.stops[0]()
			o.start()
			o.flow(row.perSecond, 7*unit)
			o.await(entered + (o.said-rabbitPages*rabbitPeople)*(rabbitPeople-1))
			for _, stop := range o.stops {
				stop()
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			doubled := 0
			for _, n := range o.seen {
				doubled += n - 1
			}
			if o.overrun > 0 || doubled > 0 {
				t.Errorf("of %d copies %d were overtaken and %d doubled, want none", len(o.seen), o.overrun, doubled)
			}
			t.Logf("%d copies", len(o.seen))
		})
	}
}
