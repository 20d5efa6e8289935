package queuetest

import (
	"math"
	"slices"
	"strconv"
	"time"

	"chatclub/internal/queue"
)

func priorityCases() []testCase {
	return []testCase{
		{"the first of equal priority stays active", equalPriority},
		{"the highest priority is elected", highestPriority},
		{"a higher priority stops deliveries and waits", higherComes},
		{"an outranked consumer goes on once it holds nothing", higherGoes},
		{"an outranked consumer that closes is succeeded in order", outrankedCloses},
		{"an outranked consumer that closes leaves nothing behind", outrankedIsGone},
		{"an outranked consumer that closes after the higher one leaves nothing behind", outrankedGoesLast},
		{"whoever leaves, at any moment, keeps the order and ends", leaveAtRandom},
		{"priorities on a queue for several consumers", sharedPriority},
	}
}

// still is the time after which a silent broker is taken to deliver nothing more. On a
// busy machine it may be too short: no case may depend on it.
const still = time.Second

// prefer subscribes with a priority.
func (e env) prefer(name string, prefetch, priority int) queue.Subscription {
	e.Helper()
	s, err := e.broker.Consume(name, queue.ConsumeOptions{Prefetch: prefetch, Priority: priority})
	if err != nil {
		e.Fatalf("Consume(%q, priority %d) = %v, want nil", name, priority, err)
	}
	e.Cleanup(func() { _ = s.Close() })
	return s
}

func (e env) close(s queue.Subscription) {
	e.Helper()
	if err := s.Close(); err != nil {
		e.Fatalf("Close() = %v, want nil", err)
	}
}

// awaitElected publishes one message after another and acknowledges each, until
// the wanted subscription receives one: nobody can see when the others have
// come to the broker.
func (e env) awaitElected(name string, want queue.Subscription, subs ...queue.Subscription) {
	e.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) { // a poll
		e.publish(name, "m")
		s, d := e.receiveAny(subs)
		e.ack(d)
		if s == want {
			return
		}
	}
	e.Fatalf("the wanted consumer is not active after %s", patience)
}

func equalPriority(e env) {
	name, want := e.top.Outbound(0), ids("m", 40)
	first := e.prefer(name, 2, 3)
	e.awaitElected(name, first, first)
	second, lower := e.prefer(name, 2, 3), e.prefer(name, 2, 2)
	for _, id := range want { // they come to the broker meanwhile
		e.publish(name, id)
		e.ack(e.receiveIDs(first, id)...)
	}
	e.close(first)
	e.awaitElected(name, second, second, lower)
	e.publish(name, "m0", "m1")
	e.receiveIDs(second, "m0", "m1")
	e.close(second)
	e.receiveIDs(lower, "m0", "m1")
}

func highestPriority(e env) {
	name := e.top.Lane(0, 1)
	priorities := []int{0, math.MaxInt64, -7, 5, math.MinInt64}
	subs := make(map[int]queue.Subscription)
	for _, p := range priorities {
		subs[p] = e.prefer(name, 1, p)
	}
	slices.Sort(priorities)
	for len(priorities) > 0 {
		highest := priorities[len(priorities)-1]
		var left []queue.Subscription
		for _, p := range priorities {
			left = append(left, subs[p])
		}
		e.awaitElected(name, subs[highest], left...)
		e.close(subs[highest])
		priorities = priorities[:len(priorities)-1]
	}
}

// outranked has one consumer of a partition that holds the first of n messages and
// gets nothing more because of a higher one, and returns both with how many the
// first one was given. The others of these are acknowledged.
func (e env) outranked(name string, n int) (low, high queue.Subscription, first *queue.Delivery, given int) {
	e.Helper()
	low = e.prefer(name, 4, 1)
	e.awaitElected(name, low, low)
	e.publish(name, ids("m", n)...)
	first = e.receiveIDs(low, "m0")[0]
	high = e.prefer(name, n, 2)
	given = 1
	for {
		select {
		case d := <-low.Deliveries():
			if want := "m" + strconv.Itoa(given); d.ID != want {
				e.Fatalf("the outranked consumer received %q, want %q", d.ID, want)
			}
			given++
			time.Sleep(time.Millisecond) // the higher one comes to the broker meanwhile
			e.ack(d)
		case d := <-high.Deliveries():
			e.Fatalf("the higher consumer received %q, want nothing while the other one holds %q", d.ID, first.ID)
		case <-time.After(still):
			e.await(name, "the rest ready, or a delivery", func(got queue.Info) bool { return got.Ready == n-given || len(low.Deliveries()) > 0 })
			if len(low.Deliveries()) > 0 {
				continue
			}
			if given == n {
				e.Fatalf("the outranked consumer received all %d messages", n)
			}
			return low, high, first, given
		}
	}
}

// outrankedIsGone wants the consumer that comes last to be served, though its priority is
// lower than that of one that ended while it was outranked and held something.
func outrankedIsGone(e env) {
	const n = 300
	name := e.top.Outbound(0)
	low, high, _, given := e.outranked(name, n)
	e.close(low)
	e.ack(e.receiveIDs(high, append([]string{"m0"}, ids("m", n)[given:]...)...)...)
	e.close(high)
	e.publish(name, "last")
	e.ack(e.receiveIDs(e.prefer(name, 4, -1), "last")...)
}

// outrankedGoesLast is the same where the higher one has gone before.
func outrankedGoesLast(e env) {
	const n = 300
	name := e.top.Outbound(0)
	low, high, _, given := e.outranked(name, n)
	e.close(high)
	e.close(low)
	e.ack(e.receiveIDs(e.prefer(name, n, -1), append([]string{"m0"}, ids("m", n)[given:]...)...)...)
}

func higherComes(e env) {
	const n = 300
	name := e.top.Outbound(0)
	low, high, first, given := e.outranked(name, n)
	e.awaitWaiting(name, n-given)
	e.ack(first)
	for i, d := range e.receiveIDs(high, ids("m", n)[given:]...) {
		if d.Redelivered {
			e.Errorf("message %d after the hand-over is redelivered, want new", i)
		}
		e.ack(d)
	}
	e.nothing(low)
	e.close(high)
	e.awaitElected(name, low, low) // it waits to be active again
}

func higherGoes(e env) {
	const n = 300
	name := e.top.Outbound(0)
	low, high, first, given := e.outranked(name, n)
	e.close(high)
	time.Sleep(still)
	e.nothing(low)
	e.awaitWaiting(name, n-given)
	e.ack(first)
	for _, id := range ids("m", n)[given:] {
		e.ack(e.receiveIDs(low, id)...)
	}
}

func outrankedCloses(e env) {
	const n = 300
	name := e.top.Outbound(0)
	low, high, first, given := e.outranked(name, n)
	e.close(low)
	if first.Live() {
		e.Error("Live() = true after Close, want false")
	}
	e.ack(e.receiveIDs(high, append([]string{"m0"}, ids("m", n)[given:]...)...)...)
}

// sharedPriority: the consumer with room and the highest priority is served first.
func sharedPriority(e env) {
	name, want := e.plain(), ids("m", 9)
	low, high := e.prefer(name, 5, 0), e.prefer(name, 3, 1)
	e.awaitInfo(name, queue.Info{Consumers: 2})
	e.publish(name, want[:8]...)
	held := e.receiveIDs(high, want[:3]...)
	e.receiveIDs(low, want[3:8]...)
	e.ack(held...)
	e.publish(name, want[8])
	e.receiveIDs(high, want[8])
	e.nothing(low)
}
