package queuetest

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"chatclub/internal/queue"
)

// member is a consumer in a random history.
type member struct {
	queue.Subscription
	held []*queue.Delivery
	last int // number of the message that came last
}

// history is a single-active queue whose consumers come and go at random, while messages
// are published. Nobody says to a consumer whether it is active, or outranked.
type history struct {
	env
	*rand.Rand
	queue     string
	published int
	acked     map[int]bool
	members   []*member
}

// leaveAtRandom wants each consumer to get messages in order, none again that was
// acknowledged, and one that comes last, with the lowest priority, to get all that is left.
func leaveAtRandom(e env) {
	for seed := range uint64(6) {
		h := &history{env: e, Rand: rand.New(rand.NewPCG(seed, 0)), queue: e.top.Outbound(0), acked: make(map[int]bool)}
		for range 40 {
			h.step()
			time.Sleep(time.Duration(h.IntN(20)) * time.Millisecond) // consumers leave at any moment of a hand-over
			if h.Failed() {
				e.Fatalf("seed %d", seed)
			}
		}
		for len(h.members) > 0 {
			h.leave()
		}
		h.join(-1)
		for deadline := time.Now().Add(patience); len(h.acked) < h.published; time.Sleep(time.Millisecond) { // a poll
			if h.take(h.members[0], h.published); time.Now().After(deadline) {
				e.Fatalf("seed %d: the last consumer leaves %d of %d messages", seed, h.published-len(h.acked), h.published)
			}
		}
		h.leave()
	}
}

// step is the next event of the history.
func (h *history) step() {
	switch x := h.IntN(10); {
	case x < 3:
		var list []string
		for range h.IntN(50) {
			list = append(list, strconv.Itoa(h.published))
			h.published++
		}
		h.publish(h.queue, list...)
	case x < 6 && len(h.members) < 4:
		h.join(h.IntN(6))
	case x < 8:
		for _, m := range h.members {
			h.take(m, h.IntN(30))
		}
	case len(h.members) > 0:
		h.leave()
	}
}

func (h *history) join(priority int) {
	h.members = append(h.members, &member{Subscription: h.prefer(h.queue, 40, priority), last: -1})
}

// take reads what has come to a member, and acknowledges n of it, nearly in order.
func (h *history) take(m *member, n int) {
	for len(m.Deliveries()) > 0 {
		d := <-m.Deliveries()
		i, err := strconv.Atoi(d.ID)
		if err != nil || i <= m.last || h.acked[i] {
			h.Errorf("received %q after %d (acknowledged before: %v), want the order of the queue", d.ID, m.last, h.acked[i])
		}
		m.last, m.held = i, append(m.held, d)
	}
	for range min(n, len(m.held)) {
		i := h.IntN(min(3, len(m.held)))
		h.ack(m.held[i])
		id, _ := strconv.Atoi(m.held[i].ID) // as above
		h.acked[id] = true
		m.held = slices.Delete(m.held, i, i+1)
	}
}

// leave closes one of the members.
func (h *history) leave() {
	i := h.IntN(len(h.members))
	h.close(h.members[i])
	h.members = slices.Delete(h.members, i, i+1)
}
