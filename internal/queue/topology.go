package queue

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Topology names chatclub's queues. Two deployments on one broker differ in
// Prefix; so do two versions whose queues need other arguments, because a
// queue's arguments cannot change once it is declared. The zero value is not
// useful.
type Topology struct {
	Prefix     string // of all names
	Partitions int    // how many queues share the events, and as many the copies; the same number in every program
	WithShared bool   // there is the queue Shared, too
}

// MaxPartitions bounds Topology.Partitions. A dispatcher consumes each of them and its
// lanes on a channel of its own, and on two while it changes its priority; a core does so
// without lanes. RabbitMQ allows a connection 2047 channels by default.
const MaxPartitions = 200

// Validate names every wrong field of t.
func (t Topology) Validate() error {
	var errs []error
	if err := t.ValidatePrefix(); err != nil {
		errs = append(errs, fmt.Errorf("queue prefix %w", err))
	}
	if err := t.ValidatePartitions(); err != nil {
		errs = append(errs, fmt.Errorf("partitions %w", err))
	}
	return errors.Join(errs...)
}

// ValidatePrefix checks Prefix alone, for a caller that has its own name for it.
func (t Topology) ValidatePrefix() error {
	if t.Prefix == "" || len(t.Prefix) > 100 || strings.ContainsAny(t.Prefix, " \t\r\n") || strings.HasPrefix(t.Prefix, "amq.") {
		return fmt.Errorf("%.40q must have 1 to 100 characters, no white space, and not begin with amq.", t.Prefix)
	}
	return nil
}

// ValidatePartitions checks Partitions alone.
func (t Topology) ValidatePartitions() error {
	if t.Partitions < 1 || t.Partitions > MaxPartitions {
		return fmt.Errorf("%d must be 1 to %d", t.Partitions, MaxPartitions)
	}
	return nil
}

// Inbound is the i-th partition of the events from webhook and dispatchers to core.
func (t Topology) Inbound(i int) string { return fmt.Sprintf("%s.inbound.%02d", t.Prefix, i) }

// InboundOf is the partition of a page's events. It has the number of the page's
// outbound partition.
func (t Topology) InboundOf(page string) string { return t.Inbound(t.PartitionOf(page)) }

// Inbounds lists the names of the partitions of events.
func (t Topology) Inbounds() (names []string) {
	for i := range t.Partitions {
		names = append(names, t.Inbound(i))
	}
	return names
}

// IsInbound reports whether a queue holds events: whatever its number, and also the
// one queue that versions before had for all events.
func (t Topology) IsInbound(name string) bool { return strings.HasPrefix(name, t.Prefix+".inbound") }

// Dead holds messages that could not be handled, with the reason in their headers.
func (t Topology) Dead() string { return t.Prefix + ".dead" }

// Orders is the stream of the operators' orders about pages.
func (t Topology) Orders() string { return t.Prefix + ".orders" }

// Number is a queue whose arguments hold Partitions, so that the broker refuses a program
// that has another number. It stays empty.
func (t Topology) Number() string { return t.Prefix + ".partitions" }

// Shared is one queue for all pages, whose messages go to any of its consumers. It is for
// comparisons with other ways to send: the product has none.
func (t Topology) Shared() string { return t.Prefix + ".shared" }

// The most replicas of dispatcher and core that have a number each. With few partitions
// there are four for each: more replicas would have nothing to do, and each number is a
// queue to declare.
const (
	maxSlots     = 32
	maxCoreSlots = 16
)

// Slots lists the names of the queues that number the dispatchers. Each running
// dispatcher consumes one of them, so that the others see that its number is
// taken. The owners of partitions put answers to that replica there.
func (t Topology) Slots() []string { return t.slots("slot", maxSlots) }

// CoreSlots lists the names of the queues that number the cores, as Slots does.
func (t Topology) CoreSlots() []string { return t.slots("coreslot", maxCoreSlots) }

func (t Topology) slots(kind string, most int) (names []string) {
	for i := range min(most, 4*t.Partitions) {
		names = append(names, fmt.Sprintf("%s.%s.%02d", t.Prefix, kind, i))
	}
	return names
}

// probes is the number of queues for asking the broker: of three, one may be without a
// leader, and most still say whether the broker serves.
const probes = 3

// Probes lists the names of queues that are always empty. They are for asking
// the broker whether it serves.
func (t Topology) Probes() (names []string) {
	for i := range probes {
		names = append(names, fmt.Sprintf("%s.probe.%d", t.Prefix, i))
	}
	return names
}

// Outbound is the i-th partition of the copies from core to the dispatchers.
func (t Topology) Outbound(i int) string { return fmt.Sprintf("%s.outbound.%02d", t.Prefix, i) }

// Outbounds lists the names of the partitions of copies.
func (t Topology) Outbounds() (names []string) {
	for i := range t.Partitions {
		names = append(names, t.Outbound(i))
	}
	return names
}

// OutboundAny is the queue for programs that do not know a page's partition: a dispatcher
// passes its messages on to that.
func (t Topology) OutboundAny() string { return t.Prefix + ".outbound" }

// OutboundOf is the partition of a page: hash(page) mod Partitions, the same in
// every program.
func (t Topology) OutboundOf(page string) string { return t.Outbound(t.PartitionOf(page)) }

// PartitionOf is the number of a page's partition.
func (t Topology) PartitionOf(page string) int {
	h := fnv.New32a()
	h.Write([]byte(page))
	return int(h.Sum32() % uint32(t.Partitions)) //nolint:gosec // Validate bounds Partitions
}

// LanesPerPartition is the number of lanes of each partition. With 64 partitions and 50
// pages in excess at once, 0.2 % of these find none that is free, and share one; with 100
// pages, 1.7 %. Each lane is a queue more on the broker.
const LanesPerPartition = 4

// Lane is the i-th lane of a partition: the queue of one page and quota class in
// excess, or of a few, for as long as they have it.
func (t Topology) Lane(partition, i int) string {
	return fmt.Sprintf("%s.lane.%02d.%d", t.Prefix, partition, i)
}

// LanesOf lists the names of a partition's lanes.
func (t Topology) LanesOf(partition int) (names []string) {
	for i := range LanesPerPartition {
		names = append(names, t.Lane(partition, i))
	}
	return names
}

// Delays are the delays that a message can have, the shortest first. Each has a
// queue of its own, because a queue's messages expire in its order. Failed messages
// have the first three; a message for days ahead has some of each.
func Delays() []time.Duration {
	return []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, 2 * time.Hour, 24 * time.Hour}
}

// DelayWithin returns the longest delay that is no longer than d, or the shortest.
func DelayWithin(d time.Duration) time.Duration {
	list := Delays()
	for _, delay := range slices.Backward(list) {
		if delay <= d {
			return delay
		}
	}
	return list[0]
}

// Retry is the queue, and the exchange before it, of messages with this delay.
func (t Topology) Retry(delay time.Duration) string {
	return fmt.Sprintf("%s.retry.%ds", t.Prefix, int(delay.Seconds()))
}

// Target is the queue that a message is put on: with a delay, a retry queue.
func (t Topology) Target(m Message) string {
	if m.Delay > 0 {
		return t.Retry(m.Delay)
	}
	return m.Queue
}

// Spec is one queue to declare.
type Spec struct {
	Name         string
	SingleActive bool          // deliver to one consumer at a time: see ConsumeOptions.Priority
	Stream       bool          // keep everything, and deliver all of it to every consumer, from the beginning
	DeadLetter   string        // queue of the messages that the broker takes off by itself
	Delay        time.Duration // above 0: a message goes after that to the queue that it was published for
	Length       int           // above 0: messages at most; the broker refuses a declaration with another
}

// Specs lists every queue of the topology: the dead-letter queue first, then Number, so that
// a program with another number declares none of the others.
func (t Topology) Specs() []Spec {
	specs := []Spec{{Name: t.Dead()}, {Name: t.Number(), Length: t.Partitions}, {Name: t.Orders(), Stream: true}}
	for _, name := range slices.Concat(t.Probes(), t.Slots(), t.CoreSlots()) {
		specs = append(specs, Spec{Name: name})
	}
	for _, d := range Delays() {
		specs = append(specs, Spec{Name: t.Retry(d), Delay: d})
	}
	if t.WithShared {
		specs = append(specs, Spec{Name: t.Shared(), DeadLetter: t.Dead()})
	}
	single := append(t.Inbounds(), t.OutboundAny())
	for i := range t.Partitions {
		single = append(append(single, t.Outbound(i)), t.LanesOf(i)...)
	}
	for _, name := range single {
		specs = append(specs, Spec{Name: name, SingleActive: true, DeadLetter: t.Dead()})
	}
	return specs
}

// Has reports whether a queue is of the topology.
func (t Topology) Has(name string) bool {
	for kind, partition := range map[string]func(int) string{".inbound.": t.Inbound, ".outbound.": t.Outbound} {
		if digits, ok := strings.CutPrefix(name, t.Prefix+kind); ok {
			i, err := strconv.Atoi(digits)
			return err == nil && i >= 0 && i < t.Partitions && name == partition(i)
		}
	}
	if numbers, ok := strings.CutPrefix(name, t.Prefix+".lane."); ok {
		digits, _, _ := strings.Cut(numbers, ".")
		i, err := strconv.Atoi(digits)
		return err == nil && i >= 0 && i < t.Partitions && slices.Contains(t.LanesOf(i), name)
	}
	return name == t.Dead() || name == t.Number() || name == t.OutboundAny() || name == t.Orders() ||
		slices.Contains(t.Probes(), name) || slices.Contains(t.Slots(), name) || slices.Contains(t.CoreSlots(), name) ||
		slices.ContainsFunc(Delays(), func(d time.Duration) bool { return name == t.Retry(d) })
}

// validateDelay returns ErrInvalid for a delay that no retry queue has, or
// before a queue that is not of the topology and may not exist by then.
func (t Topology) validateDelay(m Message) error {
	if m.Delay == 0 {
		return nil
	}
	if !slices.Contains(Delays(), m.Delay) {
		return fmt.Errorf("%w: delay %s is none of %v", ErrInvalid, m.Delay, Delays())
	}
	if !t.Has(m.Queue) {
		return fmt.Errorf("%w: queue %.60q is none that a delayed message can be for", ErrInvalid, m.Queue)
	}
	return nil
}
