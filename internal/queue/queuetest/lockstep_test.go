package queuetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/tools/wire"
)

var (
	firstHistory = flag.Uint64("history", 1, "the seed of the first history of TestLockstep")
	histories    = flag.Uint64("histories", 0, "the number of histories of TestLockstep; 0: 300, with -short 40")
)

const (
	players    = 8 // histories that are played at a time
	steps      = 30
	consumers  = 4   // of a history at a time, each of a program of its own
	mostStates = 300 // in which the broker may be. Few histories with equal priorities have more.
)

// TestLockstep plays random histories of one queue on the broker in memory and on RabbitMQ.
// After each step the same consumers must have got the same messages in the same order, and
// as many must be ready. Where RabbitMQ elects one of equals, the one in memory may have
// elected any.
func TestLockstep(t *testing.T) {
	t.Parallel()
	n := *histories
	switch {
	case n == 0 && testing.Short():
		n = 40
	case n == 0:
		n = 300
	}
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: players}
	keepsDead := strings.HasPrefix(rabbittest.Version(t), "4.3.")
	var next, played, again atomic.Uint64
	var all sync.WaitGroup
	for i := range players {
		all.Go(func() {
			p := newPlayer(t, top, i)
			defer p.close()
			for k := next.Add(1) - 1; k < n && !t.Failed(); k = next.Add(1) - 1 {
				played.Add(uint64(p.playAgain(*firstHistory+k, keepsDead, &again)))
			}
		})
	}
	all.Wait()
	t.Logf("%d histories, %d steps; %d plays differed and were repeated", n, played.Load(), again.Load())
}

// playAgain plays a history until no difference is found. On a busy machine something may
// arrive later than the pause allows: a true difference comes again.
func (p *player) playAgain(seed uint64, keepsDead bool, again *atomic.Uint64) (steps int) {
	p.t.Helper()
	var h *lockstep
	for _, pause := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond} {
		if h = p.play(seed, pause, keepsDead); h.difference == "" {
			return len(h.events)
		}
		again.Add(1)
	}
	p.t.Errorf("-history %d -histories 1:\n  %s\n%s", seed, strings.Join(h.lines(), "\n  "), h.difference)
	return len(h.events)
}

// event is a step of a history.
type event struct {
	kind     string
	consumer int
	ids      []string
	opts     queue.ConsumeOptions
}

func (e event) String() string {
	switch e.kind {
	case "publish":
		return "publish " + strings.Join(e.ids, ",")
	case "consume", "back":
		return fmt.Sprintf("%s c%d priority %d prefetch %d", e.kind, e.consumer, e.opts.Priority, e.opts.Prefetch)
	case "ack":
		return fmt.Sprintf("ack c%d %s", e.consumer, e.ids[0])
	default: // close, kill, lose
		return fmt.Sprintf("%s c%d", e.kind, e.consumer)
	}
}

// record is all that consumers got, and hold.
type record struct {
	got   map[int][]string
	held  map[int][]*queue.Delivery
	subs  map[int]queue.Subscription
	seen  map[string]bool
	acked int
	err   error
}

func newRecord() *record {
	return &record{got: make(map[int][]string), held: make(map[int][]*queue.Delivery), subs: make(map[int]queue.Subscription), seen: make(map[string]bool)}
}

// collect takes what has come.
func (r *record) collect() {
	for c, s := range r.subs {
		for len(s.Deliveries()) > 0 {
			d, ok := <-s.Deliveries()
			if !ok {
				break
			}
			if r.seen[d.ID] && !d.Redelivered {
				r.err = fmt.Errorf("%s comes again and is not marked as redelivered", d.ID)
			}
			r.seen[d.ID] = true
			r.held[c] = append(r.held[c], d)
			r.got[c] = append(r.got[c], d.ID)
		}
	}
}

// ack acknowledges a message that a consumer holds.
func (r *record) ack(c int, id string) error {
	i := slices.IndexFunc(r.held[c], func(d *queue.Delivery) bool { return d.ID == id })
	if i < 0 {
		return fmt.Errorf("c%d does not hold %s", c, id)
	}
	d := r.held[c][i]
	r.acked++
	r.held[c] = slices.Delete(r.held[c], i, i+1)
	return d.Ack()
}

// end forgets a consumer's subscription and what it holds.
func (r *record) end(c int) queue.Subscription {
	s := r.subs[c]
	delete(r.subs, c)
	delete(r.held, c)
	return s
}

func (r *record) state(ready int) string {
	var all []string
	for c, ids := range r.got {
		all = append(all, fmt.Sprintf("c%d:%s", c, strings.Join(ids, ",")))
	}
	slices.Sort(all)
	return fmt.Sprintf("%s ready:%d", strings.Join(all, " "), ready)
}

// player has one queue of RabbitMQ at a time, and the programs that consume it.
type player struct {
	t                *testing.T
	top              queue.Topology
	partition, plain string
	publisher        *rabbit.Broker
	programs         []*program
}

// program is a connection to RabbitMQ that can be cut.
type program struct {
	*rabbit.Broker
	wire *wire.Wire
	busy bool
}

func newPlayer(t *testing.T, top queue.Topology, i int) *player {
	p := &player{t: t, top: top, partition: top.Outbound(i), plain: top.Slots()[i]}
	p.publisher = p.open(rabbittest.URL(t))
	for range consumers {
		w, url := rabbittest.Wire(t)
		p.programs = append(p.programs, &program{Broker: p.open(url), wire: w})
	}
	return p
}

func (p *player) open(url string) *rabbit.Broker {
	b, err := rabbit.Open(rabbit.Config{URLs: []string{url}, Topology: p.top})
	if err != nil {
		panic(err) // of a wrong configuration
	}
	env{T: p.t}.awaitBroker(b)
	return b
}

func (p *player) close() {
	for _, b := range p.programs {
		_ = b.Close()
	}
	_ = p.publisher.Close()
}

// lockstep is a history that is played on both.
type lockstep struct {
	*player
	*record
	*rand.Rand
	queue     string
	single    bool
	keepsDead bool
	pause     time.Duration
	prefetch  int
	prios     int // how many there are

	events     []event
	states     [][]int // the draws of each state that memory may be in
	published  int
	consumed   int
	by         map[int]*program
	opts       map[int]queue.ConsumeOptions
	away       []int // consumers whose connection is lost, and that come back
	difference string
}

func (h *lockstep) lines() (lines []string) {
	for _, e := range h.events {
		lines = append(lines, e.String())
	}
	return lines
}

// play plays a history, up to the first difference.
func (p *player) play(seed uint64, pause time.Duration, keepsDead bool) *lockstep {
	h := &lockstep{
		player: p, record: newRecord(), Rand: rand.New(rand.NewPCG(seed, 9)), queue: p.partition, keepsDead: keepsDead, pause: pause,
		states: [][]int{nil}, by: make(map[int]*program), opts: make(map[int]queue.ConsumeOptions),
	}
	h.single, h.prefetch, h.prios = h.IntN(4) > 0, 1+h.IntN(5), 1+h.IntN(6)
	if !h.single {
		h.queue = p.plain
	}
	defer h.clean()
	for range steps {
		e, ok := h.choose()
		if !ok {
			continue
		}
		h.events = append(h.events, e)
		if err := h.do(e); err != nil {
			h.difference = fmt.Sprintf("RabbitMQ: %v", err)
		} else {
			h.compare()
		}
		if h.difference != "" || len(h.states) > mostStates {
			break
		}
	}
	return h
}

// clean ends the consumers and empties the queue. Where a consumer may be left that is dead
// another queue takes its place.
func (h *lockstep) clean() {
	for c, p := range h.by {
		_ = h.end(c).Close()
		if err := p.wire.Up(); err != nil {
			h.t.Error(err)
		}
		p.busy = false
	}
	lost := slices.ContainsFunc(h.events, func(e event) bool { return e.kind == "lose" || e.kind == "kill" })
	if h.difference != "" || h.keepsDead && lost {
		rabbittest.DeleteQueue(h.t, h.queue)
		_ = h.publisher.Close()
		h.publisher = h.open(rabbittest.URL(h.t)) // which declares it
		return
	}
	e := env{T: h.t}
	s, err := h.publisher.Consume(h.queue, queue.ConsumeOptions{Prefetch: 1000})
	if err != nil {
		h.t.Fatal(err)
	}
	for left := h.published - h.acked; left > 0; left-- {
		e.ack(e.receive(s))
	}
	if err := s.Close(); err != nil {
		h.t.Error(err)
	}
}

// choose draws the next event. It looks at what the consumers of RabbitMQ hold.
func (h *lockstep) choose() (event, bool) {
	var live []int
	for c := range h.subs {
		if !slices.Contains(h.away, c) {
			live = append(live, c)
		}
	}
	slices.Sort(live)
	x, c := h.IntN(20), -1
	if len(live) > 0 {
		c = live[h.IntN(len(live))]
	}
	switch {
	case x < 6 || len(h.events) == 0:
		var ids []string
		for range 1 + h.IntN(5) {
			h.published++
			ids = append(ids, strconv.Itoa(h.published))
		}
		return event{kind: "publish", ids: ids}, true
	case x < 10 && len(live)+len(h.away) < consumers:
		h.consumed++
		return event{kind: "consume", consumer: h.consumed, opts: queue.ConsumeOptions{Prefetch: h.prefetch, Priority: h.priority()}}, true
	case x < 15 && c >= 0 && len(h.held[c]) > 0:
		return event{kind: "ack", consumer: c, ids: []string{h.held[c][h.IntN(len(h.held[c]))].ID}}, true
	case x < 18 && c >= 0:
		return event{kind: "close", consumer: c}, true
	case x == 18 && len(h.away) > 0:
		return event{kind: "back", consumer: h.away[0], opts: h.opts[h.away[0]]}, true
	case x == 18 && c >= 0:
		return event{kind: "lose", consumer: c}, true
	case x == 19 && c >= 0:
		return event{kind: "kill", consumer: c}, true
	default:
		return event{}, false
	}
}

// priority draws that of the next consumer. On a queue of several consumers equal ones take
// turns, of which the contract says nothing.
func (h *lockstep) priority() int {
	n := h.IntN(h.prios)
	for !h.single && slices.ContainsFunc(h.taken(), func(o int) bool { return o == n }) {
		n++
	}
	return n
}

func (h *lockstep) taken() (list []int) {
	for c := range h.by {
		list = append(list, h.opts[c].Priority)
	}
	return list
}

// do has an event happen on RabbitMQ.
func (h *lockstep) do(e event) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := e.consumer
	switch e.kind {
	case "publish":
		var msgs []queue.Message
		for _, id := range e.ids {
			msgs = append(msgs, queue.Message{Queue: h.queue, ID: id, Body: []byte("x")})
		}
		return h.publisher.Publish(ctx, msgs...)
	case "consume":
		p := h.programs[slices.IndexFunc(h.programs, func(p *program) bool { return !p.busy })]
		env{T: h.t}.awaitBroker(p)
		s, err := p.Consume(h.queue, e.opts)
		if err != nil {
			return err
		}
		p.busy = true
		h.subs[c], h.by[c], h.opts[c] = s, p, e.opts
		h.settle(4)
		return nil
	case "ack":
		return h.ack(c, e.ids[0])
	case "close", "kill":
		p := h.by[c]
		if e.kind == "kill" {
			p.wire.Down()
		}
		err := h.end(c).Close()
		delete(h.by, c)
		p.busy = false
		return errors.Join(err, p.wire.Up())
	case "lose":
		h.away = append(h.away, c)
		delete(h.held, c)
		h.by[c].wire.Down()
		return nil
	default: // back
		h.away = slices.DeleteFunc(h.away, func(o int) bool { return o == c })
		err := h.by[c].wire.Up()
		env{T: h.t}.awaitBroker(h.by[c])
		h.settle(5)
		return err
	}
}

// settle waits until what was said has come to the queue. Nothing else says when.
func (h *lockstep) settle(times int) { time.Sleep(time.Duration(times) * h.pause) }

// compare waits until RabbitMQ has done what memory has in one of its possible states.
func (h *lockstep) compare() {
	h.t.Helper()
	may := h.after()
	var got string
	for end := time.Now().Add(100*h.pause + 2*time.Second); ; time.Sleep(2 * time.Millisecond) { // a poll
		h.collect()
		info, err := h.publisher.Inspect(context.Background(), h.queue)
		got = h.state(info.Ready)
		if err != nil {
			got = err.Error()
		}
		if may[got] != nil {
			break
		}
		if h.err != nil || time.Now().After(end) {
			h.difference = fmt.Sprintf("  RabbitMQ: %s\n  error: %v", got, h.err)
			for want := range may {
				h.difference += "\n  memory:   " + want
			}
			return
		}
	}
	h.states = may[got]
	h.settle(1)
}

// after plays the events in memory, with each draw that RabbitMQ may have made. It returns the draws
// by what came of them.
func (h *lockstep) after() map[string][][]int {
	may := make(map[string][][]int)
	for open := h.states; len(open) > 0; {
		draws := open[0]
		open = open[1:]
		state, n := h.inMemory(draws)
		for k := range n {
			open = append(open, append(slices.Clone(draws), k))
		}
		if n == 0 {
			may[state] = append(may[state], draws)
		}
	}
	return may
}

// inMemory plays the events in memory. n is the number of equals where there are too few
// draws.
func (h *lockstep) inMemory(draws []int) (state string, n int) {
	b, err := memory.NewWith(queue.Topology{Prefix: h.top.Prefix, Partitions: h.top.Partitions}, memory.Options{KeepsDead: h.keepsDead, Any: func(of int) int {
		if len(draws) == 0 {
			if n == 0 {
				n = of // nothing that follows is looked at
			}
			return 0
		}
		k := draws[0]
		draws = draws[1:]
		return k
	}})
	if err != nil {
		panic(err) // of a wrong topology
	}
	defer b.Close()
	r := newRecord()
	for _, e := range h.events {
		switch e.kind {
		case "publish":
			for _, id := range e.ids {
				err = errors.Join(err, b.Publish(context.Background(), queue.Message{Queue: h.queue, ID: id}))
			}
		case "consume", "back":
			r.subs[e.consumer], err = b.Consume(h.queue, e.opts)
		case "ack":
			err = r.ack(e.consumer, e.ids[0])
		case "close":
			err = r.end(e.consumer).Close()
		default: // kill, lose
			memorytest.Lose(r.end(e.consumer))
		}
		if n > 0 {
			return "", n
		}
		if r.collect(); err != nil || r.err != nil {
			return fmt.Sprintf("%v: %v, %v", e, err, r.err), 0
		}
	}
	info, err := b.Inspect(context.Background(), h.queue)
	if err != nil {
		return err.Error(), 0
	}
	return r.state(info.Ready), 0
}
