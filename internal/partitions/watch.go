package partitions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/metric"
	"chatclub/internal/queue"
)

const (
	// probeEvery is the period of the questions of a replica, about one partition each, in
	// turn. So a partition is asked about once a minute by each replica, which costs the
	// broker two messages a second.
	probeEvery = time.Second
	// standsAfter is the time without an answer after which a partition stands. RabbitMQ
	// gives up the connection of an owner that says nothing within 15 s.
	standsAfter = 20 * time.Second
	// strangeAfter is the same for a partition that was not delivered here, and whose owner
	// has not answered, since this program began: it may be of a version before, that is
	// being replaced.
	strangeAfter = 5 * time.Minute
	// sayEvery is the period of saying so again.
	sayEvery = time.Minute
	// mostHeard is the largest number of questions that wait for their answer: more than
	// there are replicas.
	mostHeard = 64
)

// Watch finds the partitions that stand: the broker delivers their messages to a consumer
// that is gone, and to nobody else. A replica asks about a partition by a message in it, which its
// owner answers at once, on the replica's slot. Where the message has left the queue, and
// nobody answers, nobody gets what is in the partition. Where the message waits in the
// queue, the owner may just hold as much as it can, and nothing is said.
//
// Owners of versions before do not answer. So a partition that was not delivered here, and
// whose owner has not answered, is given more time, and does not make this replica unready: a
// rollout would wait for that. Without a slot nothing is asked. Make one with NewWatch. A nil
// Watch answers nothing. Safe for concurrent use.
type Watch struct {
	broker queue.Broker
	log    *slog.Logger
	queues []string
	heard  chan *queue.Delivery // questions to answer

	mu     sync.Mutex
	slot   string // where answers come; empty: none is taken
	states []state
}

// state is what is known of a partition. The zero value is nothing.
type state struct {
	isKnown bool      // it was delivered here, or its owner has answered
	asked   time.Time // when the first question was put that is not answered; zero: all are
	stands  bool
	said    time.Time // when it was said last that it stands
}

// NewWatch returns a Watch of some partitions, and registers its metric.
func NewWatch(b queue.Broker, queues []string, log *slog.Logger, set metric.Set) *Watch {
	w := &Watch{broker: b, log: log, queues: queues, heard: make(chan *queue.Delivery, mostHeard), states: make([]state, len(queues))}
	set.GaugeFunc("partitions_standing", "Partitions that the broker delivers to nobody that answers.", func() float64 { return float64(len(w.Standing())) })
	return w
}

// Run asks and answers until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for i := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case d := <-w.heard:
			w.answer(ctx, d)
		case <-tick.C:
			if w.broker.Ready() != nil || w.broker.IsSilent() {
				w.restart()
				continue
			}
			w.ask(ctx, i)
			i = (i + 1) % len(w.queues)
			for k := range w.queues {
				w.judge(ctx, k)
			}
		}
	}
}

// restart begins the times of questions again: their answers may be late, or lost.
func (w *Watch) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restartLocked()
}

func (w *Watch) restartLocked() {
	for i := range w.states {
		if !w.states[i].stands {
			w.states[i].asked = time.Time{}
		}
	}
}

// ask puts a question into a partition, unless one is there already.
func (w *Watch) ask(ctx context.Context, i int) {
	slot, asked, ok := w.note(i)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	err := w.broker.Publish(ctx, queue.Message{
		Queue: w.queues[i], ID: fmt.Sprintf("owner/%s/%d", w.queues[i], time.Now().UnixNano()),
		Headers: map[string]string{message.HeaderMarker: "", message.HeaderOwner: slot},
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if is := &w.states[i]; err != nil && is.asked.Equal(asked) {
		is.asked = time.Time{} // the broker's readiness says why
	}
}

// note begins a question about a partition, before it is put: its answer may come at once.
// It is not ok where there is no slot, a question is open, or its owner may be of a
// version before that would take it for an event.
func (w *Watch) note(i int) (slot string, now time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	is := &w.states[i]
	if w.slot == "" || !is.asked.IsZero() || !is.isKnown && w.broker.Topology().IsInbound(w.queues[i]) {
		return "", now, false
	}
	is.asked = time.Now()
	return w.slot, is.asked, true
}

// Take takes a delivery that is a question, which Run answers and settles. It reports
// whether it was one.
func (w *Watch) Take(d *queue.Delivery) bool {
	if _, is := d.Headers[message.HeaderOwner]; w == nil || !is {
		return false
	}
	w.Saw(d.Queue)
	select {
	case w.heard <- d:
	default: // the next one will be answered
		_ = d.Ack() // a stale one comes again
	}
	return true
}

// answer tells the one who asked that this replica is the owner.
func (w *Watch) answer(ctx context.Context, d *queue.Delivery) {
	slot, top := d.Headers[message.HeaderOwner], w.broker.Topology()
	if slices.Contains(top.Slots(), slot) || slices.Contains(top.CoreSlots(), slot) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		_ = w.broker.Publish(ctx, queue.Message{Queue: slot, ID: d.ID, Headers: map[string]string{message.HeaderMarker: "", message.HeaderOwner: d.Queue}}) // as in Take
	}
	_ = d.Ack() // the same
}

// Saw notes that a partition was delivered here, or to a replica that says so.
func (w *Watch) Saw(name string) {
	if w == nil {
		return
	}
	i := slices.Index(w.queues, name)
	if i < 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.states[i].stands {
		w.log.Info("partition is delivered again", "queue", name)
	}
	w.states[i] = state{isKnown: true}
}

// follow takes the answers that come to a slot, until its subscription ends. Answers to the
// questions before go to another slot, where nobody waits for them.
func (w *Watch) follow(slot string, sub queue.Subscription) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.slot = slot
	w.restartLocked()
	w.mu.Unlock()
	go func() {
		for d := range sub.Deliveries() {
			w.Saw(d.Headers[message.HeaderOwner])
			_ = d.Ack() // a stale one comes again
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.slot == slot {
			w.slot = ""
		}
	}()
}

// judge finds out whether a partition stands, and says so.
func (w *Watch) judge(ctx context.Context, i int) {
	w.mu.Lock()
	is := w.states[i]
	w.mu.Unlock()
	most := standsAfter
	if !is.isKnown {
		most = strangeAfter
	}
	if is.asked.IsZero() || time.Since(is.asked) < most || is.stands && time.Since(is.said) < sayEvery {
		return
	}
	if !is.stands {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		if info, err := w.broker.Inspect(ctx, w.queues[i]); err != nil || info.Ready > 0 {
			return
		}
	}
	w.mu.Lock()
	if !w.states[i].asked.Equal(is.asked) { // answered meanwhile
		w.mu.Unlock()
		return
	}
	w.states[i].stands, w.states[i].said = true, time.Now()
	w.mu.Unlock()
	heal := "see the runbook, PartitionStands"
	if b, ok := w.broker.(interface{ Heal(name string) string }); ok {
		heal = b.Heal(w.queues[i])
	}
	w.log.Error("partition stands: the broker delivers it to nobody that answers", "queue", w.queues[i], "since", is.asked, "heal", heal)
}

// Standing lists the partitions that stand.
func (w *Watch) Standing() (names []string) {
	return w.list(func(s state) bool { return s.stands })
}

func (w *Watch) list(is func(state) bool) (names []string) {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, s := range w.states {
		if is(s) {
			names = append(names, w.queues[i])
		}
	}
	return names
}

// Ready returns nil unless a partition stands whose owner answered before.
func (w *Watch) Ready() error {
	if list := w.list(func(s state) bool { return s.stands && s.isKnown }); len(list) > 0 {
		return errors.New("partitions stand: " + strings.Join(list, ", "))
	}
	return nil
}
