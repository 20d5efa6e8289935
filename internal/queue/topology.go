package queue

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
)

// Topology names chatclub's queues. Two deployments on one broker differ in
// Prefix. So do two versions whose queues need other arguments, because a
// queue's arguments cannot change once it is declared. The zero value is not
// useful.
type Topology struct {
	Prefix string // default "chatclub"
	Lanes  int    // how many overflow lanes, the same number in every program
}

// MaxLanes bounds Topology.Lanes: lane names carry three digits at most.
const MaxLanes = 999

// Validate names every fault of t.
func (t Topology) Validate() error {
	var faults []error
	if err := t.ValidatePrefix(); err != nil {
		faults = append(faults, fmt.Errorf("queue prefix %w", err))
	}
	if err := t.ValidateLanes(); err != nil {
		faults = append(faults, fmt.Errorf("lanes %w", err))
	}
	return errors.Join(faults...)
}

// ValidatePrefix checks Prefix alone, for a caller that has its own name for it.
func (t Topology) ValidatePrefix() error {
	if t.Prefix == "" || len(t.Prefix) > 100 || strings.ContainsAny(t.Prefix, " \t\r\n") || strings.HasPrefix(t.Prefix, "amq.") {
		return fmt.Errorf("%.40q must have 1 to 100 characters, no white space, and not begin with amq.", t.Prefix)
	}
	return nil
}

// ValidateLanes checks Lanes alone.
func (t Topology) ValidateLanes() error {
	if t.Lanes < 1 || t.Lanes > MaxLanes {
		return fmt.Errorf("%d must be 1 to %d", t.Lanes, MaxLanes)
	}
	return nil
}

// Inbound holds one event a message, from webhook and dispatcher to core.
func (t Topology) Inbound() string { return t.Prefix + ".inbound" }

// Outbound holds one copy a message, from core to the dispatchers.
func (t Topology) Outbound() string { return t.Prefix + ".outbound" }

// Bulk holds broadcasts, served with what Outbound leaves.
func (t Topology) Bulk() string { return t.Prefix + ".outbound.bulk" }

// Dead holds what could not be handled, with the reason in its headers.
func (t Topology) Dead() string { return t.Prefix + ".dead" }

// Lane is the i-th overflow lane.
func (t Topology) Lane(i int) string { return fmt.Sprintf("%s.lane.%02d", t.Prefix, i) }

// LaneOf is the overflow lane of a page: hash(page) mod Lanes, the same in
// every program.
func (t Topology) LaneOf(page string) string {
	h := fnv.New32a()
	h.Write([]byte(page))
	return t.Lane(int(h.Sum32() % uint32(t.Lanes))) //nolint:gosec // Validate bounds Lanes
}

// Spec is one queue to declare.
type Spec struct {
	Name         string
	SingleActive bool // deliver to one consumer at a time; the next takes over when it ends
	DeadLetter   string
}

// Specs lists every queue of the topology, the dead-letter queue first.
func (t Topology) Specs() []Spec {
	specs := []Spec{{Name: t.Dead()}}
	for _, name := range []string{t.Inbound(), t.Outbound(), t.Bulk()} {
		specs = append(specs, Spec{Name: name, DeadLetter: t.Dead()})
	}
	for i := range t.Lanes {
		specs = append(specs, Spec{Name: t.Lane(i), SingleActive: true, DeadLetter: t.Dead()})
	}
	return specs
}
