package queue

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"chatclub/internal/message"
)

// Topology names chatclub's queues. Two deployments on one broker differ in
// Prefix; so do two versions whose queues need other arguments, because a
// queue's arguments cannot change once it is declared. The zero value is not
// useful.
type Topology struct {
	Prefix     string // default "chatclub"
	Partitions int    // how many queues share the outbound messages, the same number in every program
}

// MaxPartitions bounds Topology.Partitions: names carry three digits at most.
const MaxPartitions = 999

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

// Inbound holds one event a message, from webhook and dispatcher to core.
func (t Topology) Inbound() string { return t.Prefix + ".inbound" }

// overflows is how many pages with more events than core holds never meet. Each is
// a queue more on the broker.
const overflows = 4

// Overflow is the i-th of the queues of events whose page has many: there they wait
// behind their page's own, and not before those of others.
func (t Topology) Overflow(i int) string { return fmt.Sprintf("%s.overflow.%d", t.Prefix, i) }

// Overflows lists the names of all of them.
func (t Topology) Overflows() (names []string) {
	for i := range overflows {
		names = append(names, t.Overflow(i))
	}
	return names
}

// Events lists the names of the queues that hold events.
func (t Topology) Events() []string { return append(t.Overflows(), t.Inbound()) }

// Dead holds what could not be handled, with the reason in its headers.
func (t Topology) Dead() string { return t.Prefix + ".dead" }

// Dispatchers is consumed by every dispatcher, so that its consumers are their
// number. Nothing is published to it.
func (t Topology) Dispatchers() string { return t.Prefix + ".dispatchers" }

// probes is how many queues there are to ask the broker about: of three, one may
// be without a leader, and most still say whether the broker serves.
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

// OutboundOf is the partition of a page: hash(page) mod Partitions, the same in
// every program.
func (t Topology) OutboundOf(page string) string { return t.Outbound(t.PartitionOf(page)) }

// PartitionOf is the number of a page's partition.
func (t Topology) PartitionOf(page string) int {
	h := fnv.New32a()
	h.Write([]byte(page))
	return int(h.Sum32() % uint32(t.Partitions)) //nolint:gosec // Validate bounds Partitions
}

// Lane is the queue of one page and quota class in excess, for as long as it has that.
// No two have the same id, so that what is being deleted is never declared. It is
// none of Specs.
func (t Topology) Lane(id, class string) string { return t.Prefix + ".lane." + class + "." + id }

// LaneOf is the lane whose token or marker a message is, empty if it is neither.
func (t Topology) LaneOf(m Message) string {
	if id := m.Headers[message.HeaderLane]; id != "" {
		return t.Lane(id, string(m.Body))
	}
	return ""
}

// Lanes is the exchange before all lanes, where there are exchanges.
func (t Topology) Lanes() string { return t.Prefix + ".lane" }

// Delays are the delays that a message can have, the shortest first. Each has a
// queue of its own, because a queue's messages expire in its order.
func Delays() []time.Duration { return []time.Duration{time.Second, 10 * time.Second, time.Minute} }

// Retry is the queue, and the exchange before it, of messages with this delay.
func (t Topology) Retry(delay time.Duration) string {
	return fmt.Sprintf("%s.retry.%ds", t.Prefix, int(delay.Seconds()))
}

// Spec is one queue to declare.
type Spec struct {
	Name         string
	SingleActive bool          // deliver to one consumer at a time; the next takes over when it ends
	DeadLetter   string        // queue of what the broker takes off by itself
	Delay        time.Duration // above 0: what is in it goes after that to where it was published for
}

// Specs lists every queue of the topology, the dead-letter queue first.
func (t Topology) Specs() []Spec {
	specs := []Spec{
		{Name: t.Dead()},
		{Name: t.Inbound(), DeadLetter: t.Dead()},
		{Name: t.Dispatchers()},
	}
	for _, name := range t.Probes() {
		specs = append(specs, Spec{Name: name})
	}
	for _, d := range Delays() {
		specs = append(specs, Spec{Name: t.Retry(d), Delay: d})
	}
	for _, name := range t.Overflows() {
		specs = append(specs, t.LaneSpec(name))
	}
	for i := range t.Partitions {
		specs = append(specs, t.LaneSpec(t.Outbound(i)))
	}
	return specs
}

// Has reports whether a queue is of the topology.
func (t Topology) Has(name string) bool {
	if digits, ok := strings.CutPrefix(name, t.Prefix+".outbound."); ok {
		i, err := strconv.Atoi(digits)
		return err == nil && i >= 0 && i < t.Partitions && name == t.Outbound(i)
	}
	return name == t.Dead() || name == t.Dispatchers() ||
		slices.Contains(t.Events(), name) || slices.Contains(t.Probes(), name) ||
		slices.ContainsFunc(Delays(), func(d time.Duration) bool { return name == t.Retry(d) })
}

// LaneSpec is the queue that Broker.Declare makes.
func (t Topology) LaneSpec(name string) Spec {
	return Spec{Name: name, SingleActive: true, DeadLetter: t.Dead()}
}

// validateDelay returns ErrInvalid for a delay that no retry queue has, or
// before a queue that may be deleted meanwhile.
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
