package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTopologyNames(t *testing.T) {
	t.Parallel()
	top := Topology{Prefix: "x", Partitions: 2}
	got := make(map[string]Spec)
	var names []string
	for _, s := range top.Specs() {
		got[s.Name] = s
		names = append(names, s.Name)
		if !top.Has(s.Name) {
			t.Errorf("Has(%q) = false, want true", s.Name)
		}
	}
	want := map[string]Spec{
		"x.dead":       {Name: "x.dead"},
		"x.partitions": {Name: "x.partitions", Length: 2},
		"x.probe.0":    {Name: "x.probe.0"}, "x.probe.1": {Name: "x.probe.1"}, "x.probe.2": {Name: "x.probe.2"},
		"x.retry.1s":     {Name: "x.retry.1s", Delay: time.Second},
		"x.retry.10s":    {Name: "x.retry.10s", Delay: 10 * time.Second},
		"x.retry.60s":    {Name: "x.retry.60s", Delay: time.Minute},
		"x.retry.600s":   {Name: "x.retry.600s", Delay: 10 * time.Minute},
		"x.retry.7200s":  {Name: "x.retry.7200s", Delay: 2 * time.Hour},
		"x.retry.86400s": {Name: "x.retry.86400s", Delay: 24 * time.Hour},
		"x.orders":       {Name: "x.orders", Stream: true},
		"x.outbound":     {Name: "x.outbound", SingleActive: true, DeadLetter: "x.dead"},
		"x.inbound.00":   {Name: "x.inbound.00", SingleActive: true, DeadLetter: "x.dead"},
		"x.inbound.01":   {Name: "x.inbound.01", SingleActive: true, DeadLetter: "x.dead"},
		"x.outbound.00":  {Name: "x.outbound.00", SingleActive: true, DeadLetter: "x.dead"},
		"x.outbound.01":  {Name: "x.outbound.01", SingleActive: true, DeadLetter: "x.dead"},
	}
	for i := range 2 {
		for k := range 4 {
			name := fmt.Sprintf("x.lane.0%d.%d", i, k)
			want[name] = Spec{Name: name, SingleActive: true, DeadLetter: "x.dead"}
		}
	}
	for i := range 8 {
		for _, kind := range []string{"slot", "coreslot"} {
			name := fmt.Sprintf("x.%s.%02d", kind, i)
			want[name] = Spec{Name: name}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Specs (-want +got):\n%s", diff)
	}
	if first := names[:2]; !slices.Equal(first, []string{"x.dead", "x.partitions"}) {
		t.Errorf("first of Specs = %q, want x.dead and x.partitions", first)
	}
	for _, name := range []string{"x.outbound.4", "x.outbound.-1", "x.outbound.99", "x.outbound.", "x.retry.2s", "x.inbound", "x.inbound.02", "x.inbound.0", "x.lane.00", "x.lane.00.4", "x.lane.02.0", "x.lane.0.0", "x.slot.08", "x.slot.1", "y.inbound.00", ""} {
		if top.Has(name) {
			t.Errorf("Has(%q) = true, want false", name)
		}
	}
	if got := len((Topology{Prefix: "x", Partitions: 64}).Slots()); got != 32 {
		t.Errorf("slots of 64 partitions = %d, want 32", got)
	}
	if got := len((Topology{Prefix: "x", Partitions: 64}).CoreSlots()); got != 16 {
		t.Errorf("slots of cores with 64 partitions = %d, want 16", got)
	}
	for name, want := range map[string]bool{"x.inbound.01": true, "x.inbound.99": true, "x.inbound": true, "x.outbound.01": false, "y.inbound.01": false} {
		if got := top.IsInbound(name); got != want {
			t.Errorf("IsInbound(%q) = %v, want %v", name, got, want)
		}
	}
	if got, want := top.InboundOf("a"), top.Inbound(top.PartitionOf("a")); got != want {
		t.Errorf("InboundOf(a) = %q, want %q", got, want)
	}
	if got, want := top.LanesOf(1), []string{"x.lane.01.0", "x.lane.01.1", "x.lane.01.2", "x.lane.01.3"}; !slices.Equal(got, want) {
		t.Errorf("LanesOf(1) = %q, want %q", got, want)
	}
}

func TestOutboundOfSpreadsPages(t *testing.T) {
	t.Parallel()
	top := Topology{Prefix: "x", Partitions: 8}
	n := map[string]int{}
	for i := range 8000 {
		n[top.OutboundOf(strings.Repeat("p", i%7)+string(rune('a'+i%26))+strings.Repeat("q", i/26%50))]++
	}
	for i := range 8 {
		if got := n[top.Outbound(i)]; got < 500 || got > 1500 {
			t.Errorf("pages on %s = %d of 8000, want about 1000", top.Outbound(i), got)
		}
	}
	// FNV-1a of 32 bits, computed by hand for "a": programs of all versions agree.
	if got, want := top.PartitionOf("a"), 0xe40c292c%8; got != want {
		t.Errorf("PartitionOf(a) = %d, want %d", got, want)
	}
}

func TestTopologyValidateNamesEveryFault(t *testing.T) {
	t.Parallel()
	if err := (Topology{Prefix: "chatclub", Partitions: 64}).Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
	for _, partitions := range []int{0, -1, 1000} {
		err := Topology{Prefix: "amq.x", Partitions: partitions}.Validate()
		if err == nil || !strings.Contains(err.Error(), "prefix") || !strings.Contains(err.Error(), "partitions") {
			t.Errorf("Validate(%d partitions) = %v, want both errors named", partitions, err)
		}
	}
}

func TestDelayIsValidated(t *testing.T) {
	t.Parallel()
	top := Topology{Prefix: "x", Partitions: 1}
	for _, c := range []struct {
		queue string
		delay time.Duration
		valid bool
	}{
		{"x.inbound.00", 0, true},
		{"x.own", 0, true},
		{"x.lane.00.3", time.Minute, true},
		{"x.inbound.00", time.Second, true},
		{"x.outbound.00", 10 * time.Second, true},
		{"x.dead", time.Minute, true},
		{"x.inbound.00", 2 * time.Second, false},
		{"x.inbound.00", -time.Second, false},
		{"x.outbound.01", time.Second, false},
		{"x.own", time.Second, false},
	} {
		err := ValidateAll(top, []Message{{Queue: c.queue, ID: "1", Delay: c.delay}})
		if c.valid && err != nil || !c.valid && !errors.Is(err, ErrInvalid) {
			t.Errorf("ValidateAll(to %s after %s) = %v, want valid: %t", c.queue, c.delay, err, c.valid)
		}
	}
}

// script is a broker and settler that fail on request and count.
type script struct {
	Broker
	publishErr, ackErr error
	published, acked   int
}

func (s *script) Publish(context.Context, ...Message) error {
	if s.publishErr != nil {
		return s.publishErr
	}
	s.published++
	return nil
}
func (s *script) Topology() Topology { return Topology{Prefix: "x", Partitions: 1} }
func (s *script) Ack(uint64) error   { s.acked++; return s.ackErr }
func (s *script) Live() bool         { return true }

// A message waits for a later time by the longest delay that is not too long, and at least
// by the shortest.
func TestDelayWithin(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]time.Duration{
		0: time.Second, 999 * time.Millisecond: time.Second, 9 * time.Second: time.Second, 10 * time.Second: 10 * time.Second,
		time.Hour: 10 * time.Minute, 23 * time.Hour: 2 * time.Hour, 7 * 24 * time.Hour: 24 * time.Hour,
	} {
		if got := DelayWithin(d); got != want {
			t.Errorf("DelayWithin(%v) = %v, want %v", d, got, want)
		}
	}
}
